"""The Faust app: it reads the partitions of the reports that this worker owns, and keeps their tallies in its table."""

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import faust
from faust.types import TP

from aggregator.counting import quirks
from aggregator.counting.admission import Gate
from aggregator.counting.partition import Source, Write, saved
from aggregator.process.exit import Ending, Guarantee
from aggregator.process.metrics import Metrics
from aggregator.topics.offsets import Asking
from aggregator.topics.settings import CHANGELOG, LARGEST, REPORTS, TALLIES, WORKER
from hubbub.definitions import Definitions
from hubbub.kafka import Kafka

log = logging.getLogger(__name__)

COMMIT = 0.2
SESSION, SESSION_EMBEDDED = 6.0, 2.0
"""Seconds without a heartbeat until others take over; the embedded broker makes a first join wait for half of it."""
FETCH = 4 << 20
ASK_AGAIN = 5.0
SEEK_AGAIN = 1.0
MANY = 5_000
"""Refused records that wait to be set aside."""


class App(faust.App):
    """What the transport in `quirks` asks of an app."""

    embedded: bool
    resume_offsets: Callable[[], Mapping[Any, int]]


def build_app(kafka: Kafka, partitions: int, max_frame: int, folder: Path) -> App:
    quirks.install(kafka.topic(REPORTS))
    session = SESSION_EMBEDDED if kafka.embedded else SESSION
    app = App(
        kafka.topic(WORKER),
        broker=quirks.brokers(kafka),
        broker_credentials=credentials(kafka),
        datadir=str(folder),
        store="memory://",
        autodiscover=False,
        web_enabled=False,
        topic_partitions=partitions,
        topic_allow_declare=False,
        topic_disable_leader=True,
        processing_guarantee="at_least_once",
        ConsumerScheduler=quirks.Coalesce,
        broker_session_timeout=session,
        broker_heartbeat_interval=session / 5,
        broker_rebalance_timeout=5.0,
        broker_request_timeout=10.0,
        broker_commit_interval=COMMIT,
        broker_commit_every=None,
        producer_request_timeout=10.0,
        producer_max_request_size=LARGEST,
        consumer_max_fetch_size=max(FETCH, 2 * max_frame),
        consumer_metadata_max_age_ms=5000,
        producer_metadata_max_age_ms=5000,
        consumer_auto_offset_reset="earliest",
        stream_wait_empty=False,
        stream_buffer_maxsize=8,  # of runs, not of records
        table_standby_replicas=0,
        recovery_consistency_check=not kafka.embedded,
    )
    app.embedded = kafka.embedded
    return app


def credentials(kafka: Kafka) -> Any:
    if kafka.sasl:
        return faust.SASLCredentials(
            username=kafka.username, password=kafka.password, mechanism=kafka.mechanism, ssl_context=kafka.ssl_context()
        )
    return faust.SSLCredentials(kafka.ssl_context()) if kafka.tls else None


@dataclass
class Hole:
    """What the broker said of a hole in the log."""

    start: int
    first: int
    asked: float


@dataclass
class Counting:
    """The sources that this worker owns, from recovery to the next rebalance."""

    kafka: Kafka
    app: App
    partitions: int
    definitions: Definitions
    max_frame: int
    asking: Asking
    metrics: Metrics
    ending: Ending
    on_assigned: Callable[[set[int]], None]
    """Told the owned partitions after each recovery."""
    on_closing: Callable[[], None]
    """Told that a pane has closed."""
    sources: dict[int, Source] = field(default_factory=dict)
    events: dict[int, Any] = field(default_factory=dict)
    """The newest Faust event of each partition that is not acknowledged yet."""
    arrived: dict[int, float] = field(default_factory=dict)
    """When each partition last brought something."""
    generation: int = -1
    stopping: bool = False
    _holes: dict[int, Hole] = field(default_factory=dict)
    _sought: dict[int, float] = field(default_factory=dict)
    _seeking: Any = None

    def __post_init__(self) -> None:
        app = self.app
        self.topic = self.kafka.topic(REPORTS)
        reports = app.topic(self.topic, key_serializer="raw", value_serializer="raw", partitions=self.partitions)
        self.table: Any = app.Table(TALLIES, partitions=self.partitions, key_type=bytes, value_type=bytes)
        if self.table._changelog_topic_name() != self.kafka.topic(CHANGELOG):  # noqa: SLF001 - the name others rely on
            raise RuntimeError("Faust calls its changelog by another name")
        self.table.on_recover(self._recovered)
        app.resume_offsets = self._resume_offsets
        app.agent(reports, name="count")(self._count)

    @property
    def current(self) -> bool:
        """Whether the sources are those of the group's present generation, and may be written."""
        return self.generation == self.app.consumer_generation_id and not self.app.rebalancing

    def write(self, partition: int, key: bytes, value: bytes | None) -> Any:
        """One record to the changelog; to be awaited for the broker's acknowledgement."""
        if value is not None and len(value) > LARGEST:  # its future would never end
            raise ValueError(f"{len(value)} bytes are more than a record of the changelog may have")
        done = self.table.send_changelog(partition, key, value, key_serializer="raw", value_serializer="raw")
        if value is None:
            self.table.data.pop(key, None)
        else:
            self.table.data[key] = value
        return done

    def delete(self, partition: int, writes: list[Write]) -> None:
        for key, _ in writes:
            self.write(partition, key, None)

    def highwater(self, partition: int) -> int | None:
        """The end of a partition, as the last fetch has seen it."""
        end: int | None = self.app.consumer.highwater(TP(self.topic, partition))
        return end

    def positions(self) -> dict[int, tuple[int, object]]:
        """Of each owned partition what the changelog says, and how far a recovery is. Other threads ask too."""
        tables: Any = self.app.tables
        recovered = {tp.partition: offset for tp, offset in list(tables.recovery.active_offsets.items())}
        found = {p: (source.acknowledged.next_offset, recovered.get(p)) for p, source in list(self.sources.items())}
        owned = [tp.partition for tp in list(self.app.assignor.assigned_actives()) if tp.topic == self.topic]
        return {p: found.get(p, (0, recovered.get(p))) for p in owned}

    async def _recovered(self) -> None:
        try:
            self._rebuild()
            if not self.kafka.embedded:
                await self._check_ends()
        except Exception as error:  # noqa: BLE001 - Faust would swallow it (tables/recovery.py)
            self.ending.fail(error)

    def _rebuild(self) -> None:
        owned = {tp.partition for tp in self.app.assignor.assigned_actives() if tp.topic == self.topic}
        for state in (self.sources, self.events, self.arrived, self._holes, self._sought):
            state.clear()
        queries, retired = self.definitions.queries, self.definitions.retired
        before = saved(((key, value) for key, value in self.table.data.items() if value), queries)
        # Never the same twice: whoever was frozen deletes the records of the writers that it knew of.
        writer = secrets.token_hex(8)
        for partition in sorted(owned):
            gate = Gate(partition, self.partitions, queries, retired, self.kafka.embedded, self.max_frame)
            self.sources[partition] = Source(gate, writer, before.get(partition))
            self.arrived[partition] = 0.0
        self.generation = self.app.consumer_generation_id
        where = {partition: source.next_offset for partition, source in self.sources.items()}
        log.info("recovered", extra={"generation": self.generation, "offsets": where})
        self.on_assigned(owned)

    async def _check_ends(self) -> None:
        """A log that ends before what was counted of it is another log, whose reports would pass uncounted."""
        for _ in range(10):
            ends = await self.asking.ends(self.partitions)
            short = [p for p, source in self.sources.items() if source.next_offset > ends[p]]
            if not short:
                return
            await asyncio.sleep(1.0)  # a new leader may not know yet how far the log is
        raise Guarantee(
            f"{self.topic} ends before what was counted of it (partitions {short}): it was deleted and made again. "
            f"Stop the workers, delete every other topic of the prefix too, run `hubbub topics`, and start them again"
        )

    def _resume_offsets(self) -> Mapping[Any, int]:
        topic, sources = self.topic, self.sources
        return {TP(topic, partition): source.next_offset for partition, source in sources.items()}

    async def _count(self, stream: Any) -> None:
        async for event in stream.noack().events():
            run, partition = event.value, event.message.partition
            try:
                source = self.sources.get(partition)
                if source is not None and not self.stopping:
                    if run.first > source.next_offset and not await self._is_real(source, run.first):
                        continue
                    if self.sources.get(partition) is source:  # it may have been taken away meanwhile
                        self._take(source, run, event)
                    # A flood of rubbish waits until what there is of it is written.
                    while len(source.rejects) > MANY and self.sources.get(partition) is source and not self.stopping:
                        self.on_closing()
                        await asyncio.sleep(0.01)
            except Exception as error:  # noqa: BLE001 - what is wrong here must end the worker, not the agent
                self.ending.fail(error)
            finally:
                run.records = ()  # the event stays until it is acknowledged, its bytes need not

    def _take(self, source: Source, run: Any, event: Any) -> None:
        """Synchronous: nothing else runs between reading the state and changing it."""
        partition = source.partition
        taken = source.take(run.records)
        self.events[partition] = event
        self.arrived[partition] = time.monotonic()
        self.metrics.took(taken)
        if source.closing:
            self.on_closing()

    async def _is_real(self, source: Source, first: int) -> bool:
        """Whether the log itself has no records between what was counted and `first`.

        If it has, the run is of a fetch that a rebalance has made stale: reading goes back. This is
        asked while a seek is under way too, else two of them can wait for one another for ever.
        """
        partition, start, now = source.partition, source.next_offset, time.monotonic()
        hole = self._holes.get(partition)
        if hole is None or hole.start != start or now - hole.asked > ASK_AGAIN:
            try:
                hole = Hole(start, await self.asking.first(partition, start), now)
                beginning = await self.asking.beginning(partition)
            except Exception as error:  # noqa: BLE001 - the broker is away; the run comes again
                log.warning("cannot ask about a hole in partition %s: %r", partition, error)
                return False
            if self.sources.get(partition) is not source or source.next_offset != start:
                return False
            self._holes[partition] = hole
            if hole.first == first and start < beginning <= first:
                self._lost(source, beginning)
        if hole.first == first:
            return True
        if now - self._sought.get(partition, 0.0) > SEEK_AGAIN:
            self._sought[partition] = now
            where = {TP(self.topic, partition): start}
            self._seeking = asyncio.ensure_future(self.app.consumer.seek_wait(where))
        return False

    def _lost(self, source: Source, beginning: int) -> None:
        if source.is_new:
            return  # nobody had begun to read it
        records = beginning - source.next_offset
        log.error(
            "lost: the log was deleted before it was read", extra={"partition": source.partition, "lost": records}
        )
        self.metrics.lost.inc(records)
        source.lost(beginning)
