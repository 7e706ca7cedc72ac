"""Shipments on their way into Kafka: each is tried until it is acknowledged or too late to count."""

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from hubbub.kafka import Kafka
from hubbub.names import REPORTS, TRUTH
from oracles.query import Query
from producers.simulation.framing import Shipment
from producers.simulation.truth import TrueAnswers, in_time
from producers.simulation.watch import Deliveries


class Delivery:
    """One query's shipments, and the truth about them where it is to be told.

    Frames have ids, so one that is sent again counts once, whatever became of it before. What is
    under way is bounded by the producer: it lets one wait while a partition's batch is full.
    """

    def __init__(
        self,
        producer: AIOKafkaProducer,
        kafka: Kafka,
        query: Query,
        truth: TrueAnswers | None,
        counts: Deliveries,
        now: Callable[[], float],
    ) -> None:
        self.counts = counts
        self._producer = producer
        self._reports, self._truths = kafka.topic(REPORTS), kafka.topic(TRUTH)
        self._query = query
        self._truth = truth
        self._now = now
        self._under_way: dict[asyncio.Future[Any], float] = {}
        """Since when, as in what failed."""
        self._failed: deque[tuple[Shipment, float]] = deque()

    def lag(self, until: float) -> float:
        """Seconds since the oldest answer that Kafka does not have yet, if all until a time were sent."""
        oldest = min([until, *self._under_way.values(), *(since for _, since in self._failed)])
        return max(0.0, self._now() - oldest)

    async def send(self, shipment: Shipment) -> None:
        if self._truth:
            self._truth.sent(shipment.pane)
        await self._try(shipment, self._now())

    async def again(self) -> None:
        """Send once more what failed, unless it is too late for it."""
        for _ in range(len(self._failed)):
            shipment, since = self._failed.popleft()
            if in_time(self._query, shipment.pane, int(1000 * self._now())):
                await self._try(shipment, since)
                continue
            self.counts.lost += shipment.n
            if self._truth:
                self._truth.lost(shipment.pane)

    async def tell(self, at: float) -> None:
        """Publish the truth about the panes that are over at a time."""
        if self._truth is None:
            return
        for pane in self._truth.due(at):
            key, record = self._truth.tell(pane)
            try:
                future = await self._producer.send(self._truths, record, key=key)
            except KafkaError as error:
                self._note(error)
                self._truth.told(pane, arrived=False)
                continue
            self._follow(future, self._now(), partial(self._told, pane))

    async def flush(self) -> None:
        """Until nothing is under way."""
        while self._under_way or self._failed:
            await self.again()
            if self._under_way:
                await asyncio.wait(self._under_way)

    async def _try(self, shipment: Shipment, since: float) -> None:
        at = int(1000 * self._now())
        try:
            future = await self._producer.send(
                self._reports, shipment.frame, partition=shipment.partition, timestamp_ms=at
            )
        except KafkaError as error:
            self._note(error)
            self._failed.append((shipment, since))
            return
        self._follow(future, since, partial(self._arrived, shipment, since))

    def _follow(self, future: asyncio.Future[Any], since: float, then: Callable[[asyncio.Future[Any]], None]) -> None:
        self._under_way[future] = since
        future.add_done_callback(self._under_way.pop)
        future.add_done_callback(then)

    def _arrived(self, shipment: Shipment, since: float, future: asyncio.Future[Any]) -> None:
        error = _failure(future)
        if error is not None:
            self._note(error)
            self._failed.append((shipment, since))
            return
        self.counts.frames += 1
        self.counts.reports += shipment.n
        if self._truth:
            self._truth.arrived(shipment.pane, shipment.values, future.result().timestamp)

    def _told(self, pane: int, future: asyncio.Future[Any]) -> None:
        error = _failure(future)
        if error is not None:
            self._note(error)
        if self._truth:
            self._truth.told(pane, arrived=error is None)

    def _note(self, error: BaseException) -> None:
        self.counts.errors += 1
        self.counts.error = f"{type(error).__name__}: {error}".removesuffix(": ")


def _failure(future: asyncio.Future[Any]) -> BaseException | None:
    return asyncio.CancelledError() if future.cancelled() else future.exception()
