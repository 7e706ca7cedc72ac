"""The appender: frames on their way into the log, and the time that the log gives each.

What is not acknowledged is bounded in bytes, and nothing new is taken while Kafka does not answer:
then a request is told so at once, and not one of its reports is in the log.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from hubbub.errors import TopicMissing
from hubbub.kafka import Kafka, started
from hubbub.names import REPORTS
from oracles.errors import HubbubError
from oracles.frame import partition_of
from oracles.kernels.batches import can_sum
from producers.batch import Sealed
from producers.gateway.record_batch import ALONE, RecordBatch
from producers.publisher import abandon

log = logging.getLogger(__name__)

PATIENCE = 10.0
"""Seconds until a request is told that its reports are not acknowledged."""
STALL = 3.0
"""Seconds without an acknowledgement, of something that waits for one, until nothing new is taken."""
LOOK = 1.0
"""Seconds between two looks whether Kafka answers."""
MEMORY = 64 << 20
_ENVELOPE = 4096
_REQUEST = 5_000
"""Milliseconds until a request to a broker that is silent is sent again, perhaps to another."""
_UNKNOWN = -1


class NoLogTime(HubbubError, RuntimeError):
    """The topic keeps the senders' time: nobody could tell whether a report came late."""

    exit_code = 4


class Unacknowledged(HubbubError, ConnectionError):
    """Kafka did not acknowledge in time, or refused; what was sent may be in the log."""


class Appender:
    """Sends frames to the topic `reports`."""

    def __init__(self, kafka: Kafka, limit: int, memory: int = MEMORY, clock: Callable[[], float] = time.time) -> None:
        self._kafka = kafka
        self._topic = kafka.topic(REPORTS)
        self._limit = limit
        self._memory = memory
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._producer: Any = None
        self._flying: dict[asyncio.Future[Any], tuple[int, float]] = {}
        """Bytes, and since when; in the order in which they were sent."""
        self._moved = 0.0
        """When something was last acknowledged."""
        self._silent: str | None = None
        """Why the last look found no broker."""
        self.weight = 0
        """Bytes that are not acknowledged."""
        self.partitions = 0
        self.broken: asyncio.Future[None] = self._loop.create_future()
        """Fails where a guarantee cannot be kept."""

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Connected to Kafka meanwhile; in the end what is still on its way has a last chance."""
        producer = AIOKafkaProducer(
            **self._kafka.client(),
            acks="all",
            enable_idempotence=not self._kafka.embedded,
            max_request_size=max(self._limit + _ENVELOPE, 1 << 20),
            request_timeout_ms=_REQUEST,
            metadata_max_age_ms=30_000,
        )
        async with started(producer, self._kafka):
            self._producer = producer
            await self._count()
            looking = asyncio.create_task(self._look())
            try:
                yield
            finally:
                looking.cancel()
                await asyncio.wait([looking])
                if self._flying:
                    await abandon(producer)

    @property
    def missing(self) -> str | None:
        """Why nothing new is taken, None where all is well."""
        if self._silent is not None:
            return f"Kafka does not answer: {self._silent}"
        if self.weight > self._memory:
            return f"{self.weight} bytes wait for Kafka, and {self._memory} is the most"
        if self._flying:
            since = max(self._moved, next(iter(self._flying.values()))[1])
            if self._loop.time() - since > STALL:
                return "Kafka does not acknowledge what was sent"
        return None

    def partition(self, frame: Sealed) -> int:
        return partition_of(frame.id, self.partitions)

    async def append(self, frames: Iterable[Sealed]) -> list[int]:
        """The time of the log of each frame, in milliseconds, once all are acknowledged."""
        try:
            async with asyncio.timeout(PATIENCE):
                sent = [await self._send(frame) for frame in frames]
                for future in sent:
                    if not future.done():
                        await asyncio.wait([future])
            return [self._time(future.result()) for future in sent]
        except TimeoutError:
            raise Unacknowledged(f"Kafka has not acknowledged the reports within {PATIENCE:g} s") from None
        except KafkaError as error:
            raise Unacknowledged(f"Kafka refused the reports: {type(error).__name__}") from error

    async def _send(self, frame: Sealed) -> asyncio.Future[Any]:
        partition = self.partition(frame)
        time_ms = 1000 * frame.pane  # the log's own time replaces it; when it was sent is nobody's business
        future: asyncio.Future[Any]
        data = frame.data
        if len(data) >= ALONE and can_sum():
            future = await self._producer.send_batch(RecordBatch(data, time_ms), self._topic, partition=partition)
        else:
            future = await self._producer.send(self._topic, bytes(data), partition=partition, timestamp_ms=time_ms)
        self._flying[future] = len(data), self._loop.time()
        self.weight += len(data)
        future.add_done_callback(self._landed)
        return future

    def _landed(self, future: asyncio.Future[Any]) -> None:
        self.weight -= self._flying.pop(future)[0]
        self._moved = self._loop.time()
        if not future.cancelled():
            future.exception()  # whoever waited for it has been told

    def _time(self, record: Any) -> int:
        """When a record entered the log. A broker that has seen it before does not say: then no later than now."""
        if self._kafka.embedded or record.offset == _UNKNOWN:
            return int(1000 * self._clock())
        if record.timestamp_type != 1:
            error = NoLogTime(f"{self._topic} has not message.timestamp.type=LogAppendTime; `hubbub topics` sets it")
            if not self.broken.done():
                self.broken.set_exception(error)
            raise error
        return int(record.timestamp)

    async def _count(self) -> None:
        # All topics are listed: asking for one by name may create it.
        metadata = await self._producer.client.fetch_all_metadata()
        partitions = metadata.partitions_for_topic(self._topic)
        if not partitions:
            raise TopicMissing(self._topic)
        self.partitions = len(partitions)

    async def _look(self) -> None:
        """Whether Kafka answers, also while nobody sends."""
        while True:
            await asyncio.sleep(LOOK)
            try:
                async with asyncio.timeout(STALL):
                    await self._count()
                silent = None
            except TimeoutError:
                silent = f"no broker within {STALL:g} s"
            except (KafkaError, TopicMissing, OSError) as error:
                silent = str(error) or type(error).__name__
            if silent != self._silent:
                log.warning("Kafka does not answer: %s", silent) if silent else log.info("Kafka answers again")
            self._silent = silent
