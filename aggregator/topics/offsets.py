"""Questions to the brokers about a topic, apart from Faust and from the group; each answer is the broker's own."""

import asyncio
from types import TracebackType
from typing import Any, Self

from aiokafka import TopicPartition

from hubbub.columns import Columns
from hubbub.kafka import Kafka, consumer

PATIENCE = 5.0


class Asking:
    """A consumer without a group that looks at single records of one topic. One question at a time."""

    def __init__(self, kafka: Kafka, topic: str) -> None:
        self._kafka = kafka
        self._topic = topic
        self._consumer: Any = None
        self._turn = asyncio.Lock()

    async def __aenter__(self) -> Self:
        patience = int(1000 * PATIENCE)
        self._consumer = consumer(self._kafka, max_partition_fetch_bytes=1 << 16, request_timeout_ms=patience)
        await self._consumer.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._consumer.stop()

    @property
    def client(self) -> Any:
        """aiokafka's, for requests that its consumers do not know."""
        return self._consumer._client  # noqa: SLF001

    async def first(self, partition: int, offset: int) -> int:
        """The offset of the first record at `offset` or later; TimeoutError where there is none."""
        return (await self._record(partition, offset))[0]

    async def beginning(self, partition: int) -> int:
        """The first offset that the log still has."""
        tp = TopicPartition(self._topic, partition)
        return int((await asyncio.wait_for(self._consumer.beginning_offsets([tp]), PATIENCE))[tp])

    async def ends(self, partitions: int) -> list[int]:
        """The end of each partition; too low on the embedded broker, which names the last batch's beginning."""
        tps = [TopicPartition(self._topic, partition) for partition in range(partitions)]
        found = await asyncio.wait_for(self._consumer.end_offsets(tps), PATIENCE)
        return [int(found[tp]) for tp in tps]

    async def newest_time(self, partitions: int) -> int:
        """The newest timestamp among the last records of all partitions, in ms; 0 where there are none."""
        found = [0]
        for partition, end in enumerate(await self.ends(partitions)):
            if end:
                try:
                    found.append((await self._record(partition, end - 1))[1])
                except TimeoutError:  # deleted by now
                    continue
        return max(found)

    async def _record(self, partition: int, offset: int) -> tuple[int, int]:
        """Offset and timestamp."""
        tp = TopicPartition(self._topic, partition)
        async with self._turn:
            self._consumer.assign([tp])
            self._consumer.seek(tp, offset)
            record = await asyncio.wait_for(self._consumer.getone(tp), PATIENCE)
        # In a worker the fetcher hands on columns of the reports, or three values of each record (quirks).
        if isinstance(record, Columns):
            return record.first, int(record.times[0])
        found = record[:2] if isinstance(record, tuple) else (record.offset, record.timestamp)
        return int(found[0]), int(found[1])
