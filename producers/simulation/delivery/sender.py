"""The sender of simulated frames: it tries each frame until Kafka acknowledges it or its pane is closed."""

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from hubbub.kafka.settings import REPORTS, TRUTH, Kafka
from oracles.query import Query
from producers.simulation.delivery.simulated_frames import SimulatedFrame
from producers.simulation.delivery.status import DeliveryCounts
from producers.simulation.delivery.true_answers import TrueAnswers, in_time


class Sender:
    """The frames of one query on their way to Kafka, with their true counts if `truth` is given.

    A worker counts a frame once by its id, so a second copy of a frame does no harm. The producer bounds
    the bytes on their way: `send` waits while a partition's batch is full.
    """

    def __init__(
        self,
        producer: AIOKafkaProducer,
        kafka: Kafka,
        query: Query,
        truth: TrueAnswers | None,
        counts: DeliveryCounts,
        now: Callable[[], float],
    ) -> None:
        self.counts = counts
        self._producer = producer
        self._reports = kafka.topic(REPORTS)
        self._truths = kafka.topic(TRUTH)
        self._query = query
        self._truth = truth
        self._now = now
        self._pending: dict[asyncio.Future[Any], float] = {}
        """The time of the first attempt for each record that is on its way, in Unix seconds."""
        self._retries: deque[tuple[SimulatedFrame, float]] = deque()
        """Frames whose last attempt failed, with the time of the first attempt."""

    def lag(self, until: float) -> float:
        """Return the age of the oldest answer that Kafka has not acknowledged, in seconds.

        All answers up to `until` were passed to `send`.
        """
        oldest_time = min([until, *self._pending.values(), *(first_time for _, first_time in self._retries)])
        return max(0.0, self._now() - oldest_time)

    async def send(self, frame: SimulatedFrame) -> None:
        if self._truth:
            self._truth.expect(frame.pane)
        await self._try(frame, self._now())

    async def retry(self) -> None:
        """Send the failed frames again, and give up those whose pane is closed."""
        # Only as many as there are now, because a frame that fails again joins the same queue.
        for _ in range(len(self._retries)):
            frame, first_time = self._retries.popleft()
            if in_time(self._query, frame.pane, int(1000 * self._now())):
                await self._try(frame, first_time)
                continue
            # Its pane is closed, so that a worker would refuse it as late.
            self.counts.losses += frame.n
            if self._truth:
                self._truth.release(frame.pane)

    async def publish_truth(self, time_s: float) -> None:
        """Publish the true counts of the panes that are over at a time, in seconds."""
        if self._truth is None:
            return
        for pane in self._truth.due_panes(time_s):
            key, record = self._truth.start_record(pane)
            try:
                future = await self._producer.send(self._truths, record, key=key)
            except KafkaError as error:
                self._count_error(error)
                self._truth.end_record(pane, success=False)
                continue
            # A record of true counts that fails is due again, so it needs no queue of its own.
            self._follow(future, self._now(), partial(self._end_record, pane))

    async def flush(self) -> None:
        """Wait until nothing is on its way, and retry meanwhile."""
        while self._pending or self._retries:
            await self.retry()
            if self._pending:
                await asyncio.wait(self._pending)

    async def _try(self, frame: SimulatedFrame, first_time: float) -> None:
        time_ms = int(1000 * self._now())
        try:
            future = await self._producer.send(
                self._reports, frame.data, partition=frame.partition, timestamp_ms=time_ms
            )
        except KafkaError as error:
            self._count_error(error)
            self._retries.append((frame, first_time))
            return
        self._follow(future, first_time, partial(self._end_frame, frame, first_time))

    def _follow(
        self, future: asyncio.Future[Any], first_time: float, end: Callable[[asyncio.Future[Any]], None]
    ) -> None:
        self._pending[future] = first_time
        future.add_done_callback(self._pending.pop)
        future.add_done_callback(end)

    def _end_frame(self, frame: SimulatedFrame, first_time: float, future: asyncio.Future[Any]) -> None:
        error = _error(future)
        if error is not None:
            self._count_error(error)
            self._retries.append((frame, first_time))
            return
        self.counts.frames += 1
        self.counts.reports += frame.n
        if self._truth:
            self._truth.count(frame.pane, frame.values, future.result().timestamp)

    def _end_record(self, pane: int, future: asyncio.Future[Any]) -> None:
        error = _error(future)
        if error is not None:
            self._count_error(error)
        if self._truth:
            self._truth.end_record(pane, success=error is None)

    def _count_error(self, error: BaseException) -> None:
        self.counts.errors += 1
        self.counts.error = f"{type(error).__name__}: {error}".removesuffix(": ")


def _error(future: asyncio.Future[Any]) -> BaseException | None:
    return asyncio.CancelledError() if future.cancelled() else future.exception()
