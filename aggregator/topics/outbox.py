"""The messages of a worker, in all topics: its changelog, ticks, rejects, snapshots, watermarks, records, alerts."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, Self

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaTimeoutError, TopicAuthorizationFailedError

from aggregator.topics.budget import Budget
from aggregator.topics.keys import Write
from aggregator.topics.rejects import Reject
from aggregator.topics.sizes import LARGEST
from hubbub.kafka import Kafka, started
from hubbub.names import REJECTS, REPORTS
from oracles.frame import TICK

log = logging.getLogger(__name__)


BATCH = 1 << 18

Ack = asyncio.Future[Any]
"""Done once the broker has acknowledged what was sent."""
Headers = list[tuple[str, bytes]]


def _always() -> bool:
    return True


class Oversized(ValueError):
    """A record that no broker would take."""


class Outbox:
    """One idempotent producer, so that what is sent to a partition stands there in that order.

    What is sent returns what is to be awaited for the broker's acknowledgement.
    """

    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka
        self._budget = Budget()
        self._refused: BaseException | None = None

    async def __aenter__(self) -> Self:
        self._producer = AIOKafkaProducer(
            **self._kafka.client(),
            acks="all",
            enable_idempotence=not self._kafka.embedded,
            max_request_size=LARGEST,
            max_batch_size=BATCH,
            request_timeout_ms=10_000,
            metadata_max_age_ms=5000,
        )
        self._running = started(self._producer, self._kafka)
        await self._running.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._running.__aexit__(None, None, None)

    async def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Ack:
        """Hand one record to the producer; waits where it has too much to send already."""
        _check(topic, value)
        more = {"partition": partition, "timestamp_ms": timestamp_ms}
        sending = partial(self._producer.send, self._kafka.topic(topic), value, key, **more)
        sent: Ack = await self._hand_over(len(value or b""), sending, _always)
        return sent

    async def write(
        self,
        topic: str,
        partition: int,
        writes: Sequence[Write],
        *,
        wanted: Callable[[], bool] = _always,
        written: Callable[[int], None] | None = None,
    ) -> list[Ack]:
        """Append these in order, in batches made by hand: a record that is sent alone costs ten times as much.

        Batches wait for room; where they are no longer `wanted` then, the rest is left out. `written` is told the
        offset of the last record of each batch that is acknowledged.
        """
        for _, value in writes:
            _check(topic, value)
        return await self._append(topic, partition, ((*write, []) for write in writes), wanted, written)

    async def reject(self, partition: int, rejects: list[Reject]) -> list[Ack]:
        """Set records of the reports aside; there may be a flood of them."""
        if not rejects:
            return []
        source, targets = self._kafka.topic(REPORTS), await self.partitions(REJECTS)
        records = ((one.key(source, partition), one.start, one.headers(source, partition)) for one in rejects)
        return await self._append(REJECTS, partition % targets, records, _always, None)

    async def partitions(self, topic: str) -> int:
        """How many a topic has."""
        return len(await self._producer.partitions_for(self._kafka.topic(topic)))

    async def tick(self, partition: int) -> None:
        """An empty frame, so that the clock moves; after a lost one comes another, after a refused one an error."""
        if self._refused is not None:
            raise self._refused
        sent = await self.send(REPORTS, None, TICK, partition=partition, timestamp_ms=time.time_ns() // 1_000_000)
        sent.add_done_callback(self._ticked)

    async def _append(
        self,
        topic: str,
        partition: int,
        records: Iterable[tuple[bytes, bytes | None, Headers]],
        wanted: Callable[[], bool],
        written: Callable[[int], None] | None,
    ) -> list[Ack]:
        acks: list[Ack] = []
        for batch in self._batches(records):
            sending = partial(self._producer.send_batch, batch, self._kafka.topic(topic), partition=partition)
            ack = await self._hand_over(batch.size(), sending, wanted)
            if ack is None:
                break
            if written is not None:
                ack.add_done_callback(_telling(written, batch.record_count()))
            acks.append(ack)
        return acks

    def _ticked(self, sent: Ack) -> None:
        _warn_unsent(sent)
        error = None if sent.cancelled() else sent.exception()
        if isinstance(error, TopicAuthorizationFailedError):
            self._refused = error

    def _batches(self, records: Iterable[tuple[bytes, bytes | None, Headers]]) -> Iterator[Any]:
        """Closed ones: nothing else is added to them."""
        batch = self._producer.create_batch()
        for key, value, headers in records:
            if batch.append(key=key, value=value, timestamp=None, headers=headers) is None:
                yield batch
                batch = self._producer.create_batch()
                batch.append(key=key, value=value, timestamp=None, headers=headers)
        if batch.record_count():
            batch.close()
            yield batch

    async def _hand_over(self, size: int, send: Callable[[], Awaitable[Ack]], wanted: Callable[[], bool]) -> Any:
        """Within the budget; None where it is no longer wanted by then."""
        taken = await self._budget.take(size)
        try:
            while wanted():
                with suppress(KafkaTimeoutError):  # what was sent before waits; how long is the watchdog's to judge
                    sent = await send()
                    self._budget.hold(taken, sent)
                    return sent
        except BaseException:
            self._budget.give_back(taken)
            raise
        self._budget.give_back(taken)
        return None


def let_be(acks: Iterable[Ack]) -> None:
    """What may be lost: where it is, that is said, and nothing more."""
    for ack in acks:
        ack.add_done_callback(_warn_unsent)


def _warn_unsent(sent: Ack) -> None:
    if not sent.cancelled() and sent.exception() is not None:
        log.warning("not sent: %r", sent.exception())


def _telling(written: Callable[[int], None], records: int) -> Callable[[Ack], None]:
    def tell(ack: Ack) -> None:
        # The broker names no offset of a batch that it had already.
        if not ack.cancelled() and ack.exception() is None and ack.result().offset >= 0:
            written(ack.result().offset + records - 1)

    return tell


def _check(topic: str, value: bytes | None) -> None:
    if value is not None and len(value) > LARGEST:
        raise Oversized(f"{len(value)} bytes are more than a record of {topic} may have")
