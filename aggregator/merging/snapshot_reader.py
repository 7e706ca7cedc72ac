"""The reader of the topic `snapshots`. It fills the snapshot partitions of this worker."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from aiokafka import TopicPartition

from aggregator.merging.pane_queue import FileStore
from aggregator.merging.snapshot_partition import SnapshotPartition
from aggregator.merging.snapshot_records import StateCheck
from aggregator.process.metrics import Metrics
from hubbub import outside
from hubbub.definitions.versions import Versions
from hubbub.kafka.clients import consumer, stop
from hubbub.kafka.settings import LARGEST, SNAPSHOTS, Kafka

FETCH = 16 << 20
"""Bytes of one partition in one fetch, at the most."""
RECORDS = 500
"""Records in one fetch, at the most. The event loop turns after each fetch."""
SLICE = 0.02
"""Seconds of loading after which the event loop turns."""


@dataclass
class SnapshotReader:
    """One consumer, and a snapshot partition for each partition that it reads."""

    kafka: Kafka
    partition_count: int
    metrics: Metrics
    check_states: StateCheck
    """Raises a ReportError for alert states that publishing cannot read."""
    on_slice: Callable[[], None] = lambda: None
    """Called after each slice of loading."""
    partitions: dict[int, SnapshotPartition] = field(default_factory=dict)
    offsets: dict[int, int] = field(default_factory=dict)
    """The next offset to read, by partition."""
    _ends: dict[int, int] = field(default_factory=dict)
    """The end of each partition at the start of its reading."""
    _store: FileStore = field(default_factory=FileStore)
    _consumer: Any = None

    async def start(self) -> None:
        self._consumer = consumer(self.kafka, max_partition_fetch_bytes=FETCH, fetch_max_bytes=LARGEST)
        await self._consumer.start()

    async def stop(self) -> None:
        if self._consumer is not None:
            await stop(self._consumer)

    @property
    def loaded(self) -> bool:
        return all(snapshots.loaded for snapshots in self.partitions.values())

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

        # `assign` forgets the positions, also those of the remaining partitions.
        self._consumer.assign([self._at(partition) for partition in self.partitions])
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
        """Fetch records and put them into their partitions. Return the partitions with new records.

        `define` runs after the fetch, so that each version is known before the snapshots that it concerns.
        """
        batches = await self._consumer.getmany(timeout_ms=timeout_ms, max_records=RECORDS)
        await define()

        for tp, records in batches.items():
            snapshots = self.partitions[tp.partition]
            for record in records:
                snapshots.put(record.key, record.value)
            self.metrics.unread.labels(SNAPSHOTS).inc(snapshots.take_unreadable_count())
            self.offsets[tp.partition] = records[-1].offset + 1

        for partition, snapshots in self.partitions.items():
            # With inexact ends, the reader is at the end only when a fetch brings nothing more.
            more = not self.kafka.dialect.ends_are_exact and self._at(partition) in batches
            if not snapshots.loaded and not more and await self._is_past_its_end(partition):
                await self._load(snapshots)
        return {tp.partition for tp in batches}

    async def has_read_all(self, partition: int) -> bool:
        """Whether the log held nothing more at the last fetch.

        After a long pause it may hold a watermark, then the state of another merger, and then the
        deletions of the snapshots in between. These snapshots are already gone.
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
