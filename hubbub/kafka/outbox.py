"""The outbox of a worker: it appends the records of all topics, in their order, by one producer."""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

from aiokafka.errors import KafkaTimeoutError, MessageSizeTooLargeError, UnknownTopicOrPartitionError
from aiokafka.partitioner import DefaultPartitioner

from hubbub import outside
from hubbub.in_flight import InFlight
from hubbub.kafka.clients import producer, started
from hubbub.kafka.errors import TopicMissing
from hubbub.kafka.patches import paced_metadata, refused_batches
from hubbub.kafka.settings import LARGEST, REJECTS, REPORTS, STATUS, Kafka

log = logging.getLogger(__name__)

BATCH = 1 << 18
"""Maximum bytes of a batch."""
MOST = 64 << 20
"""Bytes of large records in flight: one record of the largest size, or several smaller ones.

One produce request holds a batch for every partition of a broker. Above socket.request.max.bytes (100 MiB) the broker
closes the connection, and an idempotent producer tries again for ever.
"""
SMALL = 32 << 10
"""Size below which a record does not count: batches of such records stay small, however many there are."""
REQUEST_TIMEOUT_MS = 10_000
"""Time in ms until a request without an answer is sent again."""

Ack = asyncio.Future[Any]
"""A future that is done when the broker has acknowledged a record or a batch."""
Headers = list[tuple[str, bytes]]
_Answer = TypeVar("_Answer")


def _always() -> bool:
    return True


class OutboxRecord(NamedTuple):
    """One record for a topic."""

    key: bytes | None
    value: bytes | None
    headers: Headers = []  # noqa: RUF012 - nobody changes it
    timestamp_ms: int | None = None
    """Its time in ms, or None for the time when it is sent."""


class Oversized(ValueError):
    """A record that is too large for every broker."""


class Outbox:
    """An idempotent producer, so that the records of a partition keep their order.

    Its methods return futures of the broker's acknowledgements. Records wait as long as no broker takes them.
    """

    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka
        self._in_flight = InFlight(MOST, least=SMALL)
        self._starts: dict[object, float] = {}
        """The monotonic time at which each unacknowledged write began, in that order."""

    async def __aenter__(self) -> Self:
        paced_metadata.install()
        refused_batches.install()
        self._producer = producer(
            self._kafka,
            acks="all",
            enable_idempotence=self._kafka.dialect.is_idempotent,
            max_request_size=LARGEST,
            max_batch_size=BATCH,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            metadata_max_age_ms=5000,
        )

        if self._kafka.dialect.is_idempotent:
            # A batch without a leader would expire, and all later ones of its partition would miss its numbers.
            self._producer._message_accumulator._batch_ttl = math.inf  # noqa: SLF001 - aiokafka has no other way
        self._running = started(self._producer, self._kafka)
        await self._running.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._running.__aexit__(None, None, None)

    @property
    def write_age(self) -> float:
        """Seconds since the oldest write without an acknowledgement began, 0 if there is none.

        Ticks, rejects and statuses do not count: no state depends on them.
        """
        start = next(iter(self._starts.values()), None)
        return 0.0 if start is None else outside.monotonic() - start

    async def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Ack:
        """Give one record to the producer. Wait if too many bytes are in flight."""
        _check(topic, value)
        more = {"partition": partition, "timestamp_ms": timestamp_ms}
        send = partial(self._producer.send, self._kafka.topic(topic), value, key, **more)
        ack: Ack = await self._hand_over(topic, len(value or b""), send, _always)
        return ack

    async def write(
        self,
        topic: str,
        partition: int,
        writes: Sequence[tuple[bytes, bytes | None]],
        *,
        is_current: Callable[[], bool] = _always,
        on_written: Callable[[int], None] | None = None,
    ) -> list[Ack]:
        """Append records in order, in batches of our own. A record that is sent alone costs ten times as much.

        A batch waits for room. If `is_current` is false by then, the remaining records are dropped. `on_written` gets
        the offset of the last record of each acknowledged batch.
        """
        for _, value in writes:
            _check(topic, value)
        return await self.append(
            topic, partition, (OutboxRecord(*write) for write in writes), is_current=is_current, on_written=on_written
        )

    async def partitions(self, topic: str) -> int:
        """Return the number of partitions of a topic."""
        name = self._kafka.topic(topic)
        return len(await self._once_known(name, lambda: self._producer.partitions_for(name)))

    async def append(
        self,
        topic: str,
        partition: int,
        records: Iterable[OutboxRecord],
        *,
        is_current: Callable[[], bool] = _always,
        on_written: Callable[[int], None] | None = None,
    ) -> list[Ack]:
        """Append records with headers and times in order, in batches, as `write` does. None may be oversized."""
        acks: list[Ack] = []
        for batch in self._batches(records):
            send = partial(self._producer.send_batch, batch, self._kafka.topic(topic), partition=partition)
            ack = await self._hand_over(topic, batch.size(), send, is_current)
            if ack is None:
                break
            if on_written is not None:
                ack.add_done_callback(_offset_callback(on_written, batch.record_count()))
            acks.append(ack)
        return acks

    async def append_by_key(self, topic: str, records: Sequence[OutboxRecord]) -> list[Ack]:
        """Append records to the partitions of their keys, as `send` does, but in batches."""
        if not records:
            return []

        # The partitioner of `send` chooses, or a key would be in two partitions.
        partitions = list(range(await self.partitions(topic)))
        choose = DefaultPartitioner()
        by_partition: dict[int, list[OutboxRecord]] = {}
        for record in records:
            by_partition.setdefault(choose(record.key, partitions, partitions), []).append(record)

        acks: list[Ack] = []
        for partition, batch in sorted(by_partition.items()):
            acks += await self.append(topic, partition, batch)
        return acks

    def _batches(self, records: Iterable[OutboxRecord]) -> Iterator[Any]:
        """Yield closed batches of these records."""
        batch = self._producer.create_batch()
        for key, value, headers, timestamp_ms in records:
            if batch.append(key=key, value=value, timestamp=timestamp_ms, headers=headers) is None:
                yield batch
                batch = self._producer.create_batch()
                # The first record of a batch always fits, also one that is larger than BATCH.
                batch.append(key=key, value=value, timestamp=timestamp_ms, headers=headers)
        if batch.record_count():
            batch.close()
            yield batch

    async def _hand_over(
        self, topic: str, size: int, send: Callable[[], Awaitable[Ack]], is_current: Callable[[], bool]
    ) -> Any:
        """Send when there is room, and return the acknowledgement, or None if `is_current` is false by then."""
        ack: Ack | None = None
        write = object()
        if topic not in (REPORTS, REJECTS, STATUS):
            self._starts[write] = outside.monotonic()

        try:
            async with self._in_flight.room(size):
                while ack is None and is_current():
                    with suppress(KafkaTimeoutError):  # earlier records wait, and the watchdog limits how long
                        ack = await self._once_known(self._kafka.topic(topic), send)
                        self._in_flight.add(ack, size)
        finally:
            # A write that was dropped or cancelled gets no acknowledgement, and would look like a silent broker.
            if ack is None:
                self._starts.pop(write, None)
            else:
                ack.add_done_callback(lambda _: self._starts.pop(write, None))
        return ack

    async def _once_known(self, name: str, ask: Callable[[], Awaitable[_Answer]]) -> _Answer:
        """Ask again while no broker answers. Raise TopicMissing if one answers that the topic does not exist.

        aiokafka raises the same error in both cases. The watchdog limits the time without brokers.
        """
        while True:
            try:
                return await ask()
            except UnknownTopicOrPartitionError as error:
                client = self._producer.client
                if not await client.force_metadata_update():
                    log.warning("topic %s: no broker at %s answers, trying again", name, self._kafka.servers)
                elif client.cluster.partitions_for_topic(name) is None:
                    raise TopicMissing(name) from error


async def count_refused(acks: Iterable[Ack]) -> int:
    """Wait for all acknowledgements. Return how many batches are too large for their topic.

    Only a record that fills a batch alone can be too large.
    """
    results = await asyncio.gather(*acks, return_exceptions=True)
    failures = [result for result in results if isinstance(result, BaseException)]
    for failure in failures:
        if not isinstance(failure, MessageSizeTooLargeError):
            raise failure
    return len(failures)


def log_failures(acks: Iterable[Ack]) -> None:
    """Log a warning for each failed write, and do nothing else."""
    for ack in acks:
        ack.add_done_callback(_warn_unsent)


def _warn_unsent(ack: Ack) -> None:
    # A cancelled future raises instead of returning its exception.
    if not ack.cancelled() and ack.exception() is not None:
        log.warning("record not written to Kafka: %r", ack.exception())


def _offset_callback(on_written: Callable[[int], None], records: int) -> Callable[[Ack], None]:
    def report_offset(ack: Ack) -> None:
        # The broker returns no offset for a batch that it already has.
        if not ack.cancelled() and ack.exception() is None and ack.result().offset >= 0:
            on_written(ack.result().offset + records - 1)

    return report_offset


def is_oversized(value: bytes | None) -> bool:
    """Whether a record is too large for every broker."""
    return value is not None and len(value) > LARGEST


def _check(topic: str, value: bytes | None) -> None:
    if value is not None and is_oversized(value):
        raise Oversized(f"record of topic {topic} is too large: {len(value)} bytes")
