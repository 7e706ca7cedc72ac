"""Lookups of offsets and timestamps in one topic. Each asks the broker, and needs neither Faust nor the group."""

import asyncio
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from aiokafka import TopicPartition

from hubbub.kafka.clients import consumer, stop
from hubbub.kafka.columns import RecordColumns
from hubbub.kafka.settings import Kafka

PATIENCE = 5.0
"""Seconds to wait for one answer."""
VALID_SECONDS = 5.0
"""Seconds for which an answer of the broker is used."""


class OffsetLookup:
    """A consumer outside of any group that looks up single records of one topic, one at a time."""

    def __init__(self, kafka: Kafka, topic: str) -> None:
        self._kafka = kafka
        self._topic = topic
        self._consumer: Any = None
        self._turn = asyncio.Lock()

    async def __aenter__(self) -> Self:
        patience = int(1000 * PATIENCE)
        # A lookup needs one record. A fetch of the usual size would read a megabyte for it.
        self._consumer = consumer(self._kafka, max_partition_fetch_bytes=1 << 16, request_timeout_ms=patience)
        await self._consumer.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await stop(self._consumer)

    @property
    def client(self) -> Any:
        """The client of aiokafka, for requests that its consumers do not offer."""
        return self._consumer._client  # noqa: SLF001

    async def first(self, partition: int, offset: int) -> int:
        """Return the offset of the first record from `offset` on. If there is none, raise TimeoutError."""
        return (await self._record(partition, offset))[0]

    async def beginning(self, partition: int) -> int:
        """Return the first offset that the log still has."""
        tp = TopicPartition(self._topic, partition)
        async with asyncio.timeout(PATIENCE):
            return int((await self._consumer.beginning_offsets([tp]))[tp])

    async def ends(self, partitions: int) -> list[int]:
        """Return the end of each partition. The embedded broker gives the start of the last batch, which is too low."""
        tps = [TopicPartition(self._topic, partition) for partition in range(partitions)]
        async with asyncio.timeout(PATIENCE):
            ends = await self._consumer.end_offsets(tps)
        return [int(ends[tp]) for tp in tps]

    async def _record(self, partition: int, offset: int) -> tuple[int, int]:
        """Return the offset and the timestamp of the first record from `offset` on."""
        tp = TopicPartition(self._topic, partition)
        async with self._turn:
            # It takes the partitions of any other lookup away, so lookups wait for each other.
            self._consumer.assign([tp])
            self._consumer.seek(tp, offset)
            async with asyncio.timeout(PATIENCE):
                record = await self._consumer.getone(tp)
        # A worker's fetcher returns columns of the reports, or three values of each record (faust_patches).
        if isinstance(record, RecordColumns):
            return record.first, int(record.times[0])
        offset, timestamp = record[:2] if isinstance(record, tuple) else (record.offset, record.timestamp)
        return int(offset), int(timestamp)


@dataclass(frozen=True, slots=True)
class OffsetGap:
    """The broker's answer about the records from the offset `start` on."""

    start: int
    first: int
    """The offset of the first of these records."""
    beginning: int
    """The first offset that the log still has."""
    time: float
    """The time of the answer in seconds."""

    def answers(self, start: int, now: float) -> bool:
        """Whether the answer is about this offset, and recent enough."""
        return self.start == start and now - self.time <= VALID_SECONDS

    def is_before(self, first: int) -> bool:
        """Whether records that begin at `first` come next in the log. If not, a rebalance made their fetch stale."""
        return self.first == first

    @property
    def is_deletion(self) -> bool:
        """Whether the broker deleted records of the gap before they were read."""
        return self.start < self.beginning <= self.first
