"""A reader of the log: some partitions, from chosen offsets on, by a consumer outside of any group."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from aiokafka import TopicPartition
from aiokafka.errors import TopicAuthorizationFailedError

from hubbub.kafka.clients import PATIENCE, consumer, started, unreachable
from hubbub.kafka.settings import Kafka

if TYPE_CHECKING:
    from aiokafka import AIOKafkaConsumer

POLL_MS = 500
ANSWER_MS = 20
"""How long a broker may wait for records before it answers the fetch that only asks for the right."""

Batches = Mapping[TopicPartition, list[Any]]
"""The records of one poll by partition, without the partitions that brought none."""


class LogReader:
    """A consumer with its partitions, and the end of each at the start of the reading."""

    def __init__(self, kafka: Kafka, consumer: "AIOKafkaConsumer", partitions: Collection[TopicPartition]) -> None:
        self.consumer = consumer
        self.partitions = list(partitions)
        self.ends: dict[TopicPartition, int] = {}
        self._dialect = kafka.dialect

    async def start(self) -> None:
        """Go to the beginning of each partition, and note its present end."""
        self.consumer.assign(self.partitions)
        await self.consumer.seek_to_beginning(*self.partitions)
        self.ends = await self.consumer.end_offsets(self.partitions)

    async def batches(self, *, poll_ms: int = POLL_MS, most: int | None = None) -> AsyncIterator[Batches]:
        """Yield the records of one poll after the other, for ever, and let the event loop turn between them.

        A poll brings at most `most` records.
        """
        while True:
            yield await self.consumer.getmany(timeout_ms=poll_ms, max_records=most)
            await asyncio.sleep(0)

    async def batches_to_end(
        self, *, poll_ms: int = POLL_MS, beyond: bool = False, stop: Callable[[], bool] = lambda: False
    ) -> AsyncIterator[Batches]:
        """Yield the records of each poll up to the noted end, at least.

        With `beyond` it reads on until a poll brings no records. `stop` ends it earlier.
        """
        async for batches in self.batches(poll_ms=poll_ms):
            yield batches
            if stop() or (not (beyond and batches) and await self.is_at_end(batches)):
                return

    async def is_at_end(self, batches: Batches) -> bool:
        """Whether all partitions are read to the noted end, given the records of the last poll.

        With inexact ends this is so only if the last poll brought no records.
        """
        if batches and not self._dialect.ends_are_exact:
            return False
        return all([await self.consumer.position(tp) >= end for tp, end in self.ends.items() if end])


@asynccontextmanager
async def open_log(
    kafka: Kafka, topics: Mapping[str, Collection[int]], patience: float = PATIENCE, **settings: Any
) -> AsyncIterator[LogReader]:
    """Open the given partitions of topics, named without the prefix, at their beginning.

    If the broker does not answer within `patience` seconds, raise KafkaUnreachable.
    """
    partitions = [TopicPartition(kafka.topic(name), number) for name, numbers in topics.items() for number in numbers]
    async with started(consumer(kafka, **settings), kafka) as client:
        reader = LogReader(kafka, client, partitions)
        try:
            async with asyncio.timeout(patience):
                await reader.start()
        except TimeoutError as error:
            raise unreachable(kafka, error) from error
        yield reader


async def may_read(kafka: Kafka, name: str) -> bool:
    """Whether the user may read an existing topic. Kafka shows a topic to each user who may describe it."""
    tp = TopicPartition(kafka.topic(name), 0)
    async with open_log(kafka, {name: [0]}, fetch_max_wait_ms=ANSWER_MS) as reader:
        try:
            # The end of the log comes with each fetch, so it tells that the broker has allowed one.
            while reader.consumer.highwater(tp) is None:
                await reader.consumer.getmany(timeout_ms=POLL_MS, max_records=1)
        except TopicAuthorizationFailedError:
            return False
    return True
