"""The appender, which sends frames to the log and returns the log time of each.

Unacknowledged frames take a bounded memory. While Kafka does not answer, the gateway refuses requests at once, and none
of their reports are in the log.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from aiokafka.errors import KafkaError

from hubbub.definitions.versions import Versions
from hubbub.in_flight import InFlight
from hubbub.kafka.clients import producer as kafka_producer
from hubbub.kafka.clients import started
from hubbub.kafka.errors import TopicMissing
from hubbub.kafka.patches.open_batch import OpenBatch
from hubbub.kafka.patches.single_record_batch import ALONE, SingleRecordBatch
from hubbub.kafka.settings import REPORTS, Kafka
from oracles.errors import HubbubError
from oracles.kernels.batches import can_sum
from producers.publishers.frames import OutgoingFrame
from producers.publishers.kafka_publisher import abandon
from producers.publishers.routes import route

log = logging.getLogger(__name__)

PATIENCE = 10.0
"""Seconds that a request waits for the acknowledgement of its reports."""
STALL = 3.0
"""Seconds without an acknowledgement, while a frame is in flight, after which the gateway accepts no request."""
LOOK = 1.0
"""Seconds between two checks that Kafka answers."""
MEMORY = 64 << 20
"""Bytes of unacknowledged frames above which the gateway accepts no request."""
BATCH = 1 << 20
"""Limit of the bytes of a batch. A broker writes few large batches faster than many small ones."""
_ENVELOPE = 4096
"""Upper limit of the bytes of a request in addition to its frame."""
_REQUEST = 5_000
"""Milliseconds until a request to a silent broker is sent again, perhaps to another broker."""
_UNKNOWN = -1
"""The offset of a duplicate, for which the broker returns no offset."""


Ack = asyncio.Task[Any]
"""A task that ends when the broker has acknowledged a batch."""


class NoLogTime(HubbubError, RuntimeError):
    """A topic that stores the senders' times, so nobody could tell which reports are late."""

    exit_code = 4


class Unacknowledged(HubbubError, ConnectionError):
    """Frames that Kafka refused, or did not acknowledge in time. They may be in the log."""


class Appender:
    """A producer that sends frames to the topic `reports`."""

    def __init__(self, kafka: Kafka, limit: int, memory: int = MEMORY, clock: Callable[[], float] = time.time) -> None:
        self._kafka = kafka
        self._topic = kafka.topic(REPORTS)
        self._limit = limit
        self._batch_size = min(limit, BATCH)
        self._memory = memory
        self._clock = clock

        self._loop = asyncio.get_running_loop()
        self._producer: Any = None
        self._in_flight = InFlight(memory)

        self._newest: dict[int, tuple[OpenBatch, Ack]] = {}
        """The newest batch of small frames of each partition, with its acknowledgement."""
        self._silence: str | None = None
        """Why the last check of Kafka failed, or None."""
        self.partitions = 0
        self.definitions: Callable[[], Mapping[bytes, Versions]] = dict
        """Returns the definitions that apply now. They decide the partition of a frame."""
        self.broken: asyncio.Future[None] = self._loop.create_future()
        """A future that fails if a guarantee cannot be kept."""

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[None]:
        """Stay connected to Kafka during the block, and give up the frames that are still in flight at its end."""
        producer = kafka_producer(
            self._kafka,
            acks="all",
            enable_idempotence=self._kafka.dialect.is_idempotent,
            max_request_size=max(self._limit + _ENVELOPE, BATCH),
            max_batch_size=self._batch_size,
            request_timeout_ms=_REQUEST,
            metadata_max_age_ms=30_000,
        )

        async with started(producer, self._kafka):
            self._producer = producer
            await self._count_partitions()
            check = asyncio.create_task(self._check_kafka())
            try:
                yield
            finally:
                check.cancel()
                await asyncio.wait([check])
                # `stop` alone would wait for missing acknowledgements for ever.
                if self._in_flight.bytes:
                    await abandon(producer)

    @property
    def missing(self) -> str | None:
        """Why the gateway accepts no request, or None if it does."""
        if self._silence is not None:
            return f"Kafka does not answer: {self._silence}. Try again."
        if self.weight > self._memory:
            return f"Kafka is too slow: {self.weight} bytes wait for it, the limit is {self._memory}. Try again."
        # Progress may be old because nothing was sent, so the oldest frame in flight counts too.
        oldest_time = self._in_flight.oldest
        if oldest_time is not None and self._loop.time() - max(self._in_flight.progress, oldest_time) > STALL:
            return f"Kafka has acknowledged nothing for {STALL:g} s. Try again."
        return None

    @property
    def weight(self) -> int:
        """Bytes of the frames in flight."""
        return self._in_flight.bytes

    def partition(self, frame: OutgoingFrame) -> int:
        return route(frame, self.partitions, self.definitions(), None)

    async def append(self, frames: Iterable[OutgoingFrame]) -> list[int]:
        """Send frames, wait until all are acknowledged, and return their log times in milliseconds."""
        acks = [self._add(frame) for frame in frames]
        _, missing_acks = await asyncio.wait(acks, timeout=PATIENCE)
        if missing_acks:
            raise Unacknowledged(f"Kafka did not acknowledge the reports within {PATIENCE:g} s. Try again.")

        try:
            return [self._time(ack.result()) for ack in acks]
        except KafkaError as error:
            raise Unacknowledged(f"Kafka refused the reports: {type(error).__name__}. Try again.") from error

    def _add(self, frame: OutgoingFrame) -> Ack:
        """Add a frame to a batch of its partition, and return the acknowledgement of the batch."""
        partition = self.partition(frame)
        time_ms = 1000 * frame.pane  # the time of sending stays private, and the log's own time replaces this
        data = frame.data
        # Short frames share a batch, and all requests in it wait for one acknowledgement.
        if len(data) >= ALONE and can_sum():
            ack = asyncio.create_task(self._send(SingleRecordBatch(data, time_ms), partition))
        else:
            ack = self._share(partition, timestamp=time_ms, key=None, value=bytes(data))
        self._in_flight.add(ack, len(data))
        return ack

    def _share(self, partition: int, **record: Any) -> Ack:
        """Add a record to the open batch of a partition, or to a new one if there is none or it has no room."""
        newest_batch = self._newest.get(partition)
        if newest_batch is not None and newest_batch[0].append(**record) is not None:
            return newest_batch[1]
        batch = OpenBatch(self._batch_size, 0)
        batch.append(**record)
        ack = asyncio.create_task(self._send(batch, partition))
        self._newest[partition] = batch, ack
        return ack

    async def _send(self, batch: SingleRecordBatch | OpenBatch, partition: int) -> Any:
        """Send a batch, and return its acknowledgement. Frames may join it until aiokafka takes it from its queue."""
        try:
            return await (await self._producer.send_batch(batch, self._topic, partition=partition))
        finally:
            if self._newest.get(partition, (None,))[0] is batch:
                del self._newest[partition]

    def _time(self, record: Any) -> int:
        """Return the log time of a record. A duplicate has none, so its time is at most the present time."""
        # A broker that has the batch already may have forgotten its offset, and then gives no time.
        if not self._kafka.dialect.log_has_time or record.offset == _UNKNOWN:
            return int(1000 * self._clock())
        if record.timestamp_type != 1:
            error = NoLogTime(
                f"Topic {self._topic} needs message.timestamp.type=LogAppendTime. Set it with `hubbub topics`."
            )
            if not self.broken.done():
                self.broken.set_exception(error)
            raise error
        return int(record.timestamp)

    async def _count_partitions(self) -> None:
        # List all topics: a request for one by name may create it.
        metadata = await self._producer.client.fetch_all_metadata()
        partitions = metadata.partitions_for_topic(self._topic)
        if not partitions:
            raise TopicMissing(self._topic)
        self.partitions = len(partitions)

    async def _check_kafka(self) -> None:
        """Check again and again that Kafka answers, also while no client sends."""
        while True:
            await asyncio.sleep(LOOK)
            try:
                async with asyncio.timeout(STALL):
                    await self._count_partitions()
                silence = None
            except TimeoutError:
                silence = f"no broker within {STALL:g} s"
            except (KafkaError, TopicMissing, OSError) as error:
                silence = str(error) or type(error).__name__

            if silence != self._silence:
                log.warning("Kafka does not answer: %s", silence) if silence else log.info("Kafka answers again")
            self._silence = silence
