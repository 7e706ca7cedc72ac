"""The reader of the topic `snapshots`. It fills the snapshot partitions of this worker."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from aiokafka import TopicPartition

from aggregator.merging.pane_queue import FileStore
from aggregator.merging.query_state import QueryState
from aggregator.merging.snapshot_partition import SnapshotPartition
from aggregator.merging.snapshot_records import StateCheck
from aggregator.process.metrics import Metrics
from aggregator.tallies import keys
from aggregator.tallies.clock_book import ClockBook, ClockView
from hubbub import outside
from hubbub.definitions.versions import Versions
from hubbub.kafka.clients import consumer, stop
from hubbub.kafka.settings import CLOCKS, LARGEST, SNAPSHOTS, Kafka

FETCH = 16 << 20
"""Bytes of one partition in one fetch, at the most."""
RECORDS = 500
"""Records in one fetch, at the most. The event loop turns after each fetch."""
SLICE = 0.02
"""Seconds of loading after which the event loop turns."""
MARK_POLL_MS = 20
"""Milliseconds of waiting for new records while an empty clock record is written."""


class ClockMark(NamedTuple):
    """A place in the topic `clocks`."""

    offset: int
    """The offset of an empty clock record."""
    states: int
    """The number of states that were read when it was written."""


@dataclass
class SnapshotReader:
    """One consumer, and a snapshot partition for each partition that it reads."""

    kafka: Kafka
    partition_count: int
    metrics: Metrics
    check_states: StateCheck
    """Raises a ReportError for alert states that publishing cannot read."""
    book: ClockBook
    """The clocks of all partitions. The reader puts every clock record into it."""
    mark_end: Callable[[], Awaitable[int]]
    """Writes an empty clock record, and returns its offset."""
    on_slice: Callable[[], None] = lambda: None
    """Called after each slice of loading."""
    partitions: dict[int, SnapshotPartition] = field(default_factory=dict)
    offsets: dict[int, int] = field(default_factory=dict)
    """The next offset to read, by partition."""
    _ends: dict[int, int] = field(default_factory=dict)
    """The end of each partition at the start of its reading."""
    _clock_offset: int = 0
    """The next offset to read in `clocks`."""
    _marks: dict[int, ClockMark] = field(default_factory=dict)
    """The place in `clocks` that the reader must pass before it loads a partition."""
    _marking: tuple[dict[int, int], asyncio.Future[int]] | None = None
    """The states read by partition, and the write of the empty clock record after them."""
    _store: FileStore = field(default_factory=FileStore)
    _consumer: Any = None

    async def start(self) -> None:
        self._consumer = consumer(self.kafka, max_partition_fetch_bytes=FETCH, fetch_max_bytes=LARGEST)
        await self._consumer.start()

    async def stop(self) -> None:
        if self._marking is not None:
            self._marking[1].cancel()
        if self._consumer is not None:
            await stop(self._consumer)

    @property
    def loaded(self) -> bool:
        return all(snapshots.loaded for snapshots in self.partitions.values())

    def loaded_states(self) -> Iterator[QueryState]:
        """Yield the states of the queries in loaded partitions."""
        for snapshots in self.partitions.values():
            if snapshots.loaded:
                yield from snapshots.queries.values()

    def has(self, state: QueryState) -> bool:
        """Whether this worker still merges a query from this state."""
        digest = state.versions.query.digest
        snapshots = self.partitions.get(keys.home(digest, self.partition_count))
        return snapshots is not None and snapshots.queries.get(digest) is state

    async def assign(self, numbers: Collection[int], definitions: Mapping[bytes, Versions]) -> None:
        """Read the new partitions after a rebalance, and continue with the others.

        If another worker has merged a remaining partition meanwhile, it has written states behind the last offset.
        This reader meets them before it publishes, and reads the partition again.
        """
        remaining = {
            p: snapshots for p, snapshots in self.partitions.items() if p in numbers and not snapshots.must_reload
        }
        additional = {p: self._partition(p, definitions) for p in numbers if p not in remaining}
        self.partitions = remaining | additional
        self.offsets = dict.fromkeys(additional, 0) | {p: self.offsets[p] for p in remaining}

        # A partition that is read again needs a new mark.
        self._marks = {p: mark for p, mark in self._marks.items() if p in remaining}
        if self._marking is not None:
            self._marking = {p: n for p, n in self._marking[0].items() if p in remaining}, self._marking[1]

        # `assign` forgets the positions, also those of the remaining partitions.
        clocks = TopicPartition(self.kafka.topic(CLOCKS), 0)
        self._consumer.assign([clocks, *(self._at(partition) for partition in self.partitions)])
        self._consumer.seek(clocks, self._clock_offset)
        for partition in remaining:
            self._consumer.seek(self._at(partition), self.offsets[partition])
        unread = [self._at(partition) for partition in additional]
        if unread:
            await self._consumer.seek_to_beginning(*unread)
            ends = await self._consumer.end_offsets(unread)
            self._ends |= {tp.partition: end for tp, end in ends.items()}

    def _partition(self, number: int, definitions: Mapping[bytes, Versions]) -> SnapshotPartition:
        return SnapshotPartition(number, self.partition_count, definitions, self.check_states, self._store)

    async def take(self, timeout_ms: int, define: Callable[[], Awaitable[None]]) -> set[int]:
        """Fetch records and put them into their partitions. Return the partitions with new records or closed panes.

        `define` runs after the fetch, so that each version is known before the snapshots and clocks that it concerns.
        """
        if self._marking is not None:
            timeout_ms = min(timeout_ms, MARK_POLL_MS)
        batches = dict(await self._consumer.getmany(timeout_ms=timeout_ms, max_records=RECORDS))
        self._put_clock_records(batches.pop(TopicPartition(self.kafka.topic(CLOCKS), 0), []))
        view = self.book.view
        await define()

        for tp, records in batches.items():
            snapshots = self.partitions[tp.partition]
            for record in records:
                snapshots.put(record.key, record.value)
            self.metrics.unread.labels(SNAPSHOTS).inc(snapshots.take_unreadable_count())
            self.offsets[tp.partition] = records[-1].offset + 1

        self._note_marks()
        for partition, snapshots in self.partitions.items():
            # With inexact ends, the reader is at the end only when a fetch brings nothing more.
            more = not self.kafka.dialect.ends_are_exact and self._at(partition) in batches
            if not snapshots.loaded and not more and await self._may_load(partition, view):
                snapshots.put_clocks(view)
                await self._load(snapshots)
        return {tp.partition for tp in batches} | await self._put_clocks(view)

    def _put_clock_records(self, records: Sequence[Any]) -> None:
        for record in records:
            self.book.put(record.key, record.value)
            self._clock_offset = record.offset + 1
        if records:
            self.metrics.unread.labels(CLOCKS).inc(self.book.take_unreadable_count())

    async def _put_clocks(self, view: ClockView) -> set[int]:
        """Give the clocks to the partitions whose snapshots they speak of are read, and return these partitions."""
        closing = set()
        for partition, snapshots in self.partitions.items():
            if snapshots.loaded and snapshots.may_close(view) and await self._has_passed(partition, view):
                snapshots.put_clocks(view)
                closing.add(partition)
        return closing

    async def _has_passed(self, partition: int, view: ClockView) -> bool:
        """Whether the reader has passed all snapshots that clock records speak of.

        The end of a fetch does not show it, because a new leader may give a lower one.
        """
        return bool(await self._consumer.position(self._at(partition)) >= view.offsets[partition])

    async def _may_load(self, partition: int, view: ClockView) -> bool:
        """Whether the partition and, after it, the clocks are read.

        An unreadable state counts only if its windows were closed when it was written. So the clocks must be at least
        as new as the states: the reader passes an empty record that was written after it had read them.
        """
        if not await self._is_past_its_end(partition):
            return False

        mark = self._marks.get(partition)
        if mark is None or mark.states != self.partitions[partition].states_read:
            self._mark_end()
            return False
        return self._clock_offset > mark.offset and await self._has_passed(partition, view)

    def _mark_end(self) -> None:
        """Have an empty clock record written, for all partitions that are not loaded."""
        if self._marking is None:
            waiting = {p: snapshots.states_read for p, snapshots in self.partitions.items() if not snapshots.loaded}
            self._marking = waiting, asyncio.ensure_future(self.mark_end())

    def _note_marks(self) -> None:
        """Note the offset of the empty clock record, once it is acknowledged."""
        if self._marking is None or not self._marking[1].done():
            return
        waiting, writing = self._marking
        self._marking = None
        self._marks |= {partition: ClockMark(writing.result(), states) for partition, states in waiting.items()}

    async def has_read_all(self, partition: int) -> bool:
        """Whether the log held nothing more at the last fetch.

        After a long pause it may hold the state of another merger, and then the deletions of the snapshots that the
        clocks have closed meanwhile. These snapshots are already gone.
        """
        tp = self._at(partition)
        highwater = self._consumer.highwater(tp)
        if self.kafka.dialect.keeps_everything or highwater is None:
            return self.kafka.dialect.keeps_everything
        return bool(await self._consumer.position(tp) >= highwater)

    async def _is_past_its_end(self, partition: int) -> bool:
        """Whether the reader has passed the end at the start, and has read all newer records too."""
        position = await self._consumer.position(self._at(partition))
        return position >= self._ends[partition] and await self.has_read_all(partition)

    async def _load(self, snapshots: SnapshotPartition) -> None:
        """Load the partition in slices, so that the event loop can turn."""
        deadline = outside.monotonic() + SLICE
        for _ in snapshots.load_in_slices():
            if outside.monotonic() > deadline:
                self.on_slice()
                await asyncio.sleep(0)
                deadline = outside.monotonic() + SLICE

    def _at(self, partition: int) -> TopicPartition:
        return TopicPartition(self.kafka.topic(SNAPSHOTS), partition)
