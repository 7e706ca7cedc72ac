"""The reader of the snapshots: it fills the shelves of the partitions owned, and reads again none that stays."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from aiokafka import TopicPartition

from aggregator.merging.snapshots import Shelf
from aggregator.process.metrics import Metrics
from aggregator.publishing.changes import check_states
from aggregator.publishing.spill import Spill
from aggregator.topics.sizes import LARGEST
from hubbub.definitions.versions import Versions
from hubbub.kafka import Kafka, consumer
from hubbub.names import SNAPSHOTS

FETCH = 16 << 20
RECORDS = 500
"""Taken in before the event loop turns."""
SLICE = 0.02
"""Seconds for which it does not while a shelf is loaded."""


@dataclass
class Reader:
    """One consumer, and a shelf for each partition that it reads."""

    kafka: Kafka
    partitions: int
    metrics: Metrics
    came_on: Callable[[], None] = lambda: None
    """Told of each slice."""
    shelves: dict[int, Shelf] = field(default_factory=dict)
    offsets: dict[int, int] = field(default_factory=dict)
    """By partition, the offset up to which it is read."""
    _ends: dict[int, int] = field(default_factory=dict)
    _spill: Spill = field(default_factory=Spill)
    _consumer: Any = None

    async def start(self) -> None:
        self._consumer = consumer(self.kafka, max_partition_fetch_bytes=FETCH, fetch_max_bytes=LARGEST)
        await self._consumer.start()

    async def stop(self) -> None:
        if self._consumer is not None:
            await self._consumer.stop()

    @property
    def loaded(self) -> bool:
        return all(shelf.loaded for shelf in self.shelves.values())

    async def share(self, owned: Collection[int], definitions: Mapping[bytes, Versions]) -> None:
        """Partitions were shared out: read those that came, and go on with those that stayed.

        Whoever has merged one of these meanwhile has left states behind what was read. They are
        found before anything is published: then that one, too, is read anew.
        """
        kept = {p: shelf for p, shelf in self.shelves.items() if p in owned and not shelf.overtaken}
        for shelf in kept.values():
            shelf.go_on()
        new = {p: Shelf(p, self.partitions, definitions, check_states, self._spill) for p in owned if p not in kept}
        self.shelves = kept | new
        self.offsets = dict.fromkeys(new, 0) | {p: self.offsets[p] for p in kept}
        self._consumer.assign([self._at(partition) for partition in self.shelves])
        for partition in kept:
            self._consumer.seek(self._at(partition), self.offsets[partition])
        if fresh := [self._at(partition) for partition in new]:
            await self._consumer.seek_to_beginning(*fresh)
            self._ends |= {tp.partition: end for tp, end in (await self._consumer.end_offsets(fresh)).items()}

    async def take(self, timeout_ms: int, define: Callable[[], Awaitable[None]]) -> None:
        """Take in what has come; `define` sees to it that a version is known before any snapshot that it concerns."""
        found = await self._consumer.getmany(timeout_ms=timeout_ms, max_records=RECORDS)
        await define()
        for tp, records in found.items():
            shelf = self.shelves[tp.partition]
            for record in records:
                shelf.put(record.key, record.value, record.timestamp)
            self.metrics.unread.labels(SNAPSHOTS).inc(shelf.passed_over())
            self.offsets[tp.partition] = records[-1].offset + 1
        for partition, shelf in self.shelves.items():
            # The embedded broker states an end that is too low: there, all is read when nothing more comes.
            more = self.kafka.embedded and self._at(partition) in found
            if not shelf.loaded and not more and await self._is_past_its_end(partition):
                await self._load(shelf)

    async def has_read_all(self, partition: int) -> bool:
        """Whether nothing more was in the log at the last fetch.

        After a long pause there may be: a watermark, further on the state of another merger, and
        behind that the deletion of the snapshots in between, which are gone by now.
        """
        tp = self._at(partition)
        highwater = self._consumer.highwater(tp)
        if self.kafka.embedded or highwater is None:
            return self.kafka.embedded  # which keeps everything
        return bool(await self._consumer.position(tp) >= highwater)

    async def _is_past_its_end(self, partition: int) -> bool:
        """Whether all is read that stood there at the beginning, and whatever has come since."""
        position = await self._consumer.position(self._at(partition))
        return position >= self._ends[partition] and await self.has_read_all(partition)

    async def _load(self, shelf: Shelf) -> None:
        """Have its mergers go on from what was read; the event loop turns between."""
        until = time.monotonic() + SLICE
        for _ in shelf.loading():
            if time.monotonic() > until:
                self.came_on()
                await asyncio.sleep(0)
                until = time.monotonic() + SLICE

    def _at(self, partition: int) -> TopicPartition:
        return TopicPartition(self.kafka.topic(SNAPSHOTS), partition)
