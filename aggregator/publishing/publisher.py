"""The merger: reads the snapshots of the queries at home on this worker's partitions, and publishes their records."""

import asyncio
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition

from aggregator.counting.tally import Snapshot
from aggregator.merging.snapshots import Place, Shelf
from aggregator.merging.windows import Final, Position, Span
from aggregator.process.exit import Ending
from aggregator.process.metrics import Metrics
from aggregator.publishing.accuracy import Accuracy
from aggregator.publishing.changes import alerts
from aggregator.publishing.record import Built, build
from aggregator.topics import keys
from aggregator.topics.outbox import Outbox, TooLarge
from aggregator.topics.settings import ALERTS, ESTIMATES, LARGEST, SNAPSHOTS
from hubbub.definitions import Definitions
from hubbub.kafka import Kafka
from oracles.query import Query
from oracles.query.settings import Window

log = logging.getLogger(__name__)

BATCH = 64
"""Finals of a query that are published before their states are written."""
POLL_MS = 100
FETCH = 16 << 20


@dataclass
class Merging:
    """Every worker merges the queries whose partition of the snapshots has the number of a source it owns."""

    kafka: Kafka
    partitions: int
    definitions: Definitions
    outbox: Outbox
    metrics: Metrics
    ending: Ending
    accuracy: Accuracy
    _owned: set[int] = field(default_factory=set)
    _changed: bool = False
    _shelves: dict[int, Shelf] = field(default_factory=dict)
    _ends: dict[int, int] = field(default_factory=dict)
    _said: dict[tuple[bytes, Window], tuple[Span, int]] = field(default_factory=dict)
    """The newest provisional record of each kind of window, and its n."""
    _due: dict[bytes, float] = field(default_factory=dict)
    """When a query's next provisional records are due."""
    _coming: dict[bytes, list[tuple[Span, Snapshot]]] = field(default_factory=dict)
    """Those that are due now."""

    def __post_init__(self) -> None:
        # NumPy's work on a record must not hold up the event loop; one thread keeps the order.
        self._thread = ThreadPoolExecutor(1, "records")

    def assigned(self, owned: set[int]) -> None:
        """After each recovery: everything is read anew, since others may have merged meanwhile."""
        self._owned, self._changed = owned, True

    @property
    def ready(self) -> bool:
        return not self._changed and all(shelf.loaded for shelf in self._shelves.values())

    async def run(self) -> None:
        """Until cancelled."""
        consumer = AIOKafkaConsumer(
            **self.kafka.client(),
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            max_partition_fetch_bytes=FETCH,
            fetch_max_bytes=LARGEST,
            metadata_max_age_ms=5000,
        )
        try:
            await consumer.start()
            while True:
                if self._changed:
                    await self._restart(consumer)
                if not self._shelves:
                    await asyncio.sleep(POLL_MS / 1000)
                    continue
                await self._read(consumer)
                for partition, shelf in self._shelves.items():
                    self._changed |= shelf.overtaken
                    last = await self._has_read_all(consumer, partition)
                    for place in shelf.places.values() if not self._changed else ():
                        await self._publish(shelf, place, last=last)
        except Exception as error:  # noqa: BLE001 - a supervisor starts the worker again
            self.ending.fail(error)
        finally:
            self._thread.shutdown(wait=False, cancel_futures=True)
            await consumer.stop()

    async def _restart(self, consumer: Any) -> None:
        self._changed = False
        queries = self.definitions.queries
        self._shelves = {partition: Shelf(partition, self.partitions, queries) for partition in self._owned}
        self._said.clear()
        self._due.clear()
        self._coming.clear()
        tps = [TopicPartition(self.kafka.topic(SNAPSHOTS), partition) for partition in self._owned]
        consumer.assign(tps)
        if tps:
            await consumer.seek_to_beginning(*tps)
            self._ends = {tp.partition: end for tp, end in (await consumer.end_offsets(tps)).items()}

    async def _read(self, consumer: Any) -> None:
        found = await consumer.getmany(timeout_ms=POLL_MS)
        for tp, records in found.items():
            shelf = self._shelves[tp.partition]
            for record in records:
                shelf.put(record.key, record.value, record.timestamp)
        for partition, shelf in self._shelves.items():
            if shelf.loaded:
                continue
            tp = TopicPartition(self.kafka.topic(SNAPSHOTS), partition)
            # The embedded broker states an end that is too low: there, all is read when nothing more comes.
            more = self.kafka.embedded and tp in found
            if not more and await consumer.position(tp) >= self._ends[partition]:
                shelf.load()

    async def _has_read_all(self, consumer: Any, partition: int) -> bool:
        """Whether nothing more was in the log at the last fetch.

        After a long pause there may be: a watermark, further on the state of another merger, and
        behind that the deletion of the snapshots in between, which are gone by now.
        """
        tp = TopicPartition(self.kafka.topic(SNAPSHOTS), partition)
        highwater = consumer.highwater(tp)
        if self.kafka.embedded or highwater is None:
            return self.kafka.embedded  # which keeps everything
        return bool(await consumer.position(tp) >= highwater)

    async def _publish(self, shelf: Shelf, place: Place, *, last: bool) -> None:
        """The finals that a query owes, where the `last` record was read, then what is known of the next ones."""
        query = place.query
        batch: dict[Window, Position] = {}
        acks: list[Any] = []
        count = 0
        for final in place.merger.finals() if last else ():
            acks += await self._emit(place, final)
            batch[final.span.window] = final.position
            count += 1
            if count % BATCH == 0:
                await self._settle(place, batch, acks)
                batch, acks = {}, []
            if self._changed:
                return  # whoever merges this query now repeats what is not written, byte for byte
        if count:
            await self._settle(place, batch, acks)
            if marked := shelf.marked_ms.get(query.digest):
                self.metrics.close_to_record.observe(max(0.0, time.time() - marked / 1000))
        await self._foretell(place)

    async def _foretell(self, place: Place) -> None:
        """One provisional record, where one is due: no more at a time, since finals must not wait for them."""
        query = place.query
        if query.emit_every is not None and time.monotonic() >= self._due.get(query.digest, 0.0):
            self._due[query.digest] = time.monotonic() + query.emit_every
            self._coming[query.digest] = list(place.merger.provisional())
        coming = self._coming.get(query.digest)
        if not coming:
            return
        span, total = coming.pop()
        if self._said.get((query.digest, span.window)) != (span, total.n):
            self._said[query.digest, span.window] = span, total.n
            built = await self._in_thread(build, query, span, total, final=False)
            await self._record(query, built)
            self.metrics.records.labels(query.name, "false").inc()

    async def _emit(self, place: Place, final: Final) -> list[Any]:
        """Publish one final and its alerts; what is returned is to be awaited."""
        query, window = place.query, final.span.window
        built, states, said = await self._in_thread(_final, query, final, place.alerts.get(window, []))
        place.alerts[window] = states
        self._observe(query, built)
        self.accuracy.later(query, final.span, built.findings)
        self.metrics.records.labels(query.name, "true").inc()
        sent = await self._record(query, built)
        return [*sent, *[await self.outbox.send(ALERTS, *alert) for alert in said]]

    async def _record(self, query: Query, built: Built) -> list[Any]:
        """Hand on a record; one that no broker takes is said to be missing, and the others go on."""
        try:
            return [await self.outbox.send(ESTIMATES, built.key, built.value)]
        except TooLarge as error:
            log.warning("a record is not published, let the query publish fewer values: %s", error)
            self.metrics.too_large.labels(query.name).inc()
            return []

    async def _settle(self, place: Place, batch: dict[Window, Position], acks: list[Any]) -> None:
        """Finals and alerts first, then the states that they lead to, then what these make needless."""
        await asyncio.gather(*acks)
        home = keys.home(place.query.digest, self.partitions)
        states = [place.state(window, position) for window, position in batch.items()]
        await asyncio.gather(*[await self.outbox.send(SNAPSHOTS, *state, partition=home) for state in states])
        for window, position in batch.items():
            for name in place.settled(window, position):
                await self.outbox.send(SNAPSHOTS, name, None, partition=home)

    def _observe(self, query: Query, built: Built) -> None:
        for found in built.findings:
            labels = query.name, found.subject.name or ""
            self.metrics.sigma.labels(*labels).set(found.estimate.sigma)
            self.metrics.detectable.labels(*labels).set(found.detectable if found.detectable is not None else 1.0)

    async def _in_thread(self, work: Any, *arguments: Any, **options: Any) -> Any:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, lambda: work(*arguments, **options))


def _final(query: Query, final: Final, states: list[bytes]) -> tuple[Built, list[bytes], list[tuple[bytes, bytes]]]:
    built = build(query, final.span, final.total, final=True)
    return built, *alerts(query, final.span, built, states)
