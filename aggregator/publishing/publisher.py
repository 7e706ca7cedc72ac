"""The merger: reads the snapshots of the queries at home on this worker's partitions, and publishes their records."""

import asyncio
import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from aggregator.counting.tally import Snapshot
from aggregator.merging.crowd import face
from aggregator.merging.slot import Slot
from aggregator.merging.snapshots import Shelf
from aggregator.merging.windows import ClosedWindow, Position, Span
from aggregator.process.exit import Ending
from aggregator.process.freshness import NewestFinal
from aggregator.process.metrics import Metrics
from aggregator.publishing.accuracy import Accuracy
from aggregator.publishing.estimators import Estimators
from aggregator.publishing.freshness import shortest
from aggregator.publishing.observed import observe
from aggregator.publishing.reader import Reader
from aggregator.publishing.record import provisional_keys
from aggregator.topics import keys
from aggregator.topics.outbox import Outbox, Oversized, let_be
from hubbub.definitions import Definitions
from hubbub.definitions.follower import Follower
from hubbub.kafka import Kafka
from hubbub.names import ALERTS, ESTIMATES, SNAPSHOTS
from oracles.query import Query
from oracles.query.settings import Window

log = logging.getLogger(__name__)

LOOK = 1.0
"""Seconds since the definitions were looked at last; a version speaks of nothing for longer than that."""
BATCH = 64
"""Finals of a query that are published before their states are written."""
TURN = 0.5
"""Seconds for which finals of one query are published before others have their turn, and what has come is read."""
POLL_MS = 100
HASTE_MS = 10
"""While finals are owed."""


@dataclass
class Merging:
    """Every worker merges the queries whose partition of the snapshots has the number of a source it owns."""

    kafka: Kafka
    partitions: int
    follower: Follower
    outbox: Outbox
    metrics: Metrics
    ending: Ending
    accuracy: Accuracy
    _known: Definitions = field(default_factory=Definitions)
    """The definitions that the shelves go by."""
    _owned: set[int] = field(default_factory=set)
    _changed: bool = False
    reader: Reader = field(init=False)
    estimators: Estimators = field(default_factory=Estimators)
    _beside: dict[bytes, asyncio.Task[None]] = field(default_factory=dict)
    """The large queries that are published beside all others."""
    _said: dict[tuple[bytes, Window], tuple[Span, int]] = field(default_factory=dict)
    """The newest provisional record of each kind of window, and its n."""
    _due: dict[bytes, float] = field(default_factory=dict)
    """When a query's next provisional records are due."""
    _coming: dict[bytes, list[tuple[Span, Snapshot]]] = field(default_factory=dict)
    """Those that are due now."""
    rounds: int = 0
    """Rises whenever all was looked at, or something was written."""
    _came_round: float = field(default_factory=time.monotonic)
    _owed: dict[bytes, float] = field(default_factory=dict)
    """Since when a query's finals are due."""

    def __post_init__(self) -> None:
        self.reader = Reader(self.kafka, self.partitions, self.metrics, self._round)

    async def _define(self) -> None:
        """Go by the definitions as they are now. A version is read before any snapshot that it concerns."""
        await self.follower.within(LOOK)
        if self._known is not self.follower.known:
            self._known = self.follower.known
            self._coming = {d: coming for d, coming in self._coming.items() if d in self._known.versions}
            for shelf in self.reader.shelves.values():
                shelf.define(self._known.versions)

    def assigned(self, owned: set[int]) -> None:
        """After each recovery."""
        self._owned, self._changed = owned, True

    @property
    def ready(self) -> bool:
        return not self._changed and self.reader.loaded

    @property
    def lag(self) -> float:
        """Seconds for which the oldest final that is due is not published."""
        return time.monotonic() - min([self._came_round, *self._owed.values()])

    def _round(self) -> None:
        if not self.estimators.hang:
            self.rounds += 1
            self._came_round = time.monotonic()

    def newest(self) -> Iterator[NewestFinal]:
        """Of each query that is merged here."""
        for shelf in self.reader.shelves.values():
            for slot in shelf.slots.values():
                if not slot.versions.newest.retired:
                    query = slot.versions.query
                    yield NewestFinal(query.name, slot.end, shortest(query))

    async def run(self) -> None:
        """Until cancelled."""
        reader = self.reader
        try:
            await reader.start()
            while True:
                self._round()
                if self._changed:
                    await self._share()
                if not reader.shelves:
                    await asyncio.sleep(POLL_MS / 1000)
                    continue
                await reader.take(HASTE_MS if self._owed else POLL_MS, self._define)
                for partition, shelf in reader.shelves.items():
                    self._changed |= shelf.overtaken
                    last = await reader.has_read_all(partition)
                    for slot in shelf.slots.values() if shelf.loaded and not self._changed else ():
                        if last:
                            slot.collect()
                        if self.estimators.is_large(slot.versions.query):
                            self._publish_beside(shelf, slot, last=last)
                        else:
                            await self._publish(shelf, slot, last=last)
        except Exception as error:  # noqa: BLE001 - a supervisor starts the worker again
            self.ending.fail(error)
        finally:
            for task in self._beside.values():
                task.cancel()
            self.estimators.close()
            await reader.stop()

    async def _share(self) -> None:
        """Go on with the partitions that are owned now."""
        await asyncio.gather(*self._beside.values())
        self._beside.clear()
        self._changed = False
        self.metrics.merging()
        await self._define()
        self._said.clear()
        self._due.clear()
        self._coming.clear()
        self._owed.clear()
        await self.reader.share(self._owned, self._known.versions)
        self.estimators.start(
            versions.query
            for digest, versions in self._known.versions.items()
            if keys.home(digest, self.partitions) in self._owned and not versions.newest.retired
        )

    def _publish_beside(self, shelf: Shelf, slot: Slot, *, last: bool) -> None:
        """The same of a large query, for which nothing else waits."""
        digest = slot.versions.query.digest
        task = self._beside.get(digest)
        if task is None or task.done():
            if task is not None:
                task.result()
            self._beside[digest] = asyncio.create_task(self._publish(shelf, slot, last=last))

    async def _publish(self, shelf: Shelf, slot: Slot, *, last: bool) -> None:
        """The finals that a query owes, where the `last` record was read, then what is known of the next ones."""
        query = slot.versions.query
        if slot.owes:
            self._owed.setdefault(query.digest, time.monotonic())
        if last:
            count = await self._catch_up(slot)
            if self._changed or slot.owes:
                return
            if count and (marked := shelf.marked_ms.get(query.digest)):
                self.metrics.close_to_record.observe(max(0.0, time.time() - marked / 1000))
            slot.finished = slot.merger.through
            self._owed.pop(query.digest, None)
            await self._delete(slot, slot.remains())
        if not slot.owes:
            await self._foretell(slot)

    async def _catch_up(self, slot: Slot) -> int:
        """Publish finals that a query owes, for one turn; how many."""
        batch: dict[Window, Position] = {}
        acks: list[Any] = await self._write(slot, slot.totals())
        count, until = 0, time.monotonic() + TURN
        for final in slot.owed():
            acks += await self._emit(slot, final)
            batch[final.span.window] = final.position
            count += 1
            if count % BATCH == 0:
                await self._settle(slot, batch, acks)
                batch, acks = {}, []
            if self._changed or time.monotonic() > until:
                break
        if acks or batch:
            await self._settle(slot, batch, acks)
        return count

    async def _foretell(self, slot: Slot) -> None:
        """One provisional record, where one is due: no more at a time, since finals must not wait for them."""
        query = slot.versions.query
        if query.emit_every is not None and time.monotonic() >= self._due.get(query.digest, 0.0):
            self._due[query.digest] = time.monotonic() + query.emit_every
            self._coming[query.digest] = list(slot.merger.provisional())
        if not (coming := self._coming.get(query.digest)):
            return
        span, total = coming.pop()
        query = slot.speaking(span)
        told = slot.foretelling.next(query, span, total, slot.shown.get(span.window, []))
        if told is not None and self._said.get((query.digest, span.window)) != (span, told[1].n):
            span, total = told
            self._said[query.digest, span.window] = span, total.n
            made = await self.estimators.provisional(query, span, total)
            await self._record(query, span, made.records, final=False)
            self.metrics.records.labels(query.name, "false").inc()

    async def _emit(self, slot: Slot, final: ClosedWindow) -> list[Any]:
        """Publish one final and its alerts; what is returned is to be awaited."""
        query, window = slot.speaking(final.span), final.span.window
        faces, shown = face(query, final, slot.shown.get(window, []))
        whole = self.accuracy.measures(query, final.span)
        before = slot.alerts.get(window, [])
        made = await self.estimators.final(query, final.span, final.total, faces, before, whole=whole)
        self._round()
        slot.alerts[window], slot.shown[window] = made.states, shown
        observe(self.metrics, query, made.seen, made.alerts)
        if whole:
            self.accuracy.later(query, final.span, made.findings)
        self.metrics.records.labels(query.name, "true").inc()
        sent = await self._record(query, final.span, made.records, final=True)
        return [*sent, *[await self.outbox.send(ALERTS, *alert) for alert in made.alerts]]

    async def _record(
        self, query: Query, span: Span, records: Sequence[tuple[bytes, bytes]], *, final: bool
    ) -> list[Any]:
        """Hand on a window's records; one that no broker takes is said to be missing, and the others go on."""
        home = keys.home(query.digest, await self.outbox.partitions(ESTIMATES))
        at = 1000 * span.end if final else None
        acks = []
        for name, value in records:
            try:
                acks.append(await self.outbox.send(ESTIMATES, name, value, partition=home, timestamp_ms=at))
            except Oversized as error:
                log.warning("a record is not published, let the query publish fewer values: %s", error)
                self.metrics.too_large.labels(query.name).inc()
        # In the same partition behind the final: who reads the final first needs no provisional record any more.
        gone = provisional_keys(query, span) if final else []
        return acks + [await self.outbox.send(ESTIMATES, name, None, partition=home) for name in gone]

    async def _settle(self, slot: Slot, batch: dict[Window, Position], acks: list[Any]) -> None:
        """Finals and alerts first, then the states that they lead to, then what these make needless."""
        await asyncio.gather(*acks)
        self._round()
        home = keys.home(slot.versions.query.digest, self.partitions)
        sent = {window: await self._state(slot, window, position, home) for window, position in batch.items()}
        await asyncio.gather(*filter(None, sent.values()))
        for window in filter(sent.get, batch):
            await self._delete(slot, slot.settled(window, batch[window]))
        await self._delete(slot, slot.replaced())

    async def _delete(self, slot: Slot, names: Iterable[bytes]) -> None:
        let_be(await self._write(slot, [(name, None) for name in names]))

    async def _write(self, slot: Slot, writes: Sequence[keys.Write]) -> list[Any]:
        """Append these to what stands of a query."""
        if not writes:
            return []
        return await self.outbox.write(SNAPSHOTS, keys.home(slot.versions.query.digest, self.partitions), writes)

    async def _state(self, slot: Slot, window: Window, position: Position, home: int) -> Any:
        """Hand on a state; None where it is too large: after a restart the finals since the last one are repeated."""
        try:
            return await self.outbox.send(SNAPSHOTS, *slot.state(window, position), partition=home)
        except Oversized as error:
            slot.repeated.add(window)
            log.warning("a state is not written, a restart repeats finals of %s: %s", slot.versions.query.name, error)
            self.metrics.states_too_large.labels(slot.versions.query.name).inc()
            return None
