"""The messages of a worker beside its changelog: ticks, rejects, snapshots, watermarks, records, alerts."""

import asyncio
import logging
import time
from types import TracebackType
from typing import Any, Self

from aiokafka import AIOKafkaProducer
from aiokafka.errors import TopicAuthorizationFailedError

from aggregator.topics.budget import Budget
from aggregator.topics.rejects import Reject
from aggregator.topics.sizes import LARGEST
from hubbub.kafka import Kafka, started
from hubbub.names import REJECTS, REPORTS
from oracles.frame import TICK

log = logging.getLogger(__name__)


BATCH = 1 << 18


class Oversized(ValueError):
    """A record that no broker would take."""


class Outbox:
    """One producer; `send` returns what is to be awaited for the broker's acknowledgement."""

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
        headers: list[tuple[str, bytes]] | None = None,
        timestamp_ms: int | None = None,
    ) -> asyncio.Future[Any]:
        """Hand one record to the producer; waits where it has too much to send already."""
        if value is not None and len(value) > LARGEST:
            raise Oversized(f"{len(value)} bytes are more than a record of {topic} may have")
        taken = await self._budget.take(len(value or b""))
        try:
            sent: asyncio.Future[Any] = await self._producer.send(
                self._kafka.topic(topic), value, key, partition=partition, headers=headers, timestamp_ms=timestamp_ms
            )
        except BaseException:
            self._budget.give_back(taken)
            raise
        self._budget.hold(taken, sent)
        return sent

    async def partitions(self, topic: str) -> int:
        """How many a topic has."""
        return len(await self._producer.partitions_for(self._kafka.topic(topic)))

    async def tick(self, partition: int) -> None:
        """An empty frame, so that the clock moves; after a lost one comes another, after a refused one an error."""
        if self._refused is not None:
            raise self._refused
        sent = await self.send(REPORTS, None, TICK, partition=partition, timestamp_ms=time.time_ns() // 1_000_000)
        sent.add_done_callback(self._ticked)

    async def reject(self, partition: int, rejects: list[Reject]) -> list[asyncio.Future[Any]]:
        """Set records of the reports aside, in batches made by hand: there may be a flood of them."""
        source, topic = self._kafka.topic(REPORTS), self._kafka.topic(REJECTS)
        targets = sorted(await self._producer.partitions_for(topic)) if rejects else []
        acks: list[asyncio.Future[Any]] = []
        waiting = list(reversed(rejects))
        while waiting:
            batch = self._producer.create_batch()
            while waiting:
                reject = waiting[-1]
                key, headers = reject.key(source, partition), reject.headers(source, partition)
                if batch.append(key=key, value=reject.start, timestamp=None, headers=headers) is None:
                    break  # full
                waiting.pop()
            acks.append(await self._producer.send_batch(batch, topic, partition=targets[partition % len(targets)]))
        return acks

    def _ticked(self, sent: asyncio.Future[Any]) -> None:
        error = None if sent.cancelled() else sent.exception()
        if error is not None:
            log.warning("not sent: %r", error)
        if isinstance(error, TopicAuthorizationFailedError):
            self._refused = error
