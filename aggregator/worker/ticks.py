"""Ticks: empty frames that move the clocks of idle partitions."""

import logging
import time
from collections.abc import Mapping

from aiokafka.errors import TopicAuthorizationFailedError

from hubbub.kafka.outbox import Ack, Outbox
from hubbub.kafka.settings import REPORTS
from oracles.frame import TICK as EMPTY_FRAME

log = logging.getLogger(__name__)

TICK = 1.0
"""Seconds without a record after which the owner of a partition appends a tick."""


class IdlePartitions:
    """The partitions of one worker, with the time of the last tick of each."""

    def __init__(self, *, always: bool) -> None:
        self._always = always
        """Whether partitions with traffic need ticks too. On the embedded broker only ticks move a clock."""
        self._ticks: dict[int, float] = {}

    def due(self, arrivals: Mapping[int, float], now: float) -> list[int]:
        """Return the partitions that need a tick now, given the arrival time of the newest record of each."""
        partitions = []
        for partition, arrival in arrivals.items():
            last = self._ticks.get(partition, 0.0)
            if now - (last if self._always else max(last, arrival)) >= TICK:
                self._ticks[partition] = now
                partitions.append(partition)
        return partitions


class TickWriter:
    """Appends ticks. A lost tick is followed by the next one, but a forbidden one is an error."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._forbidden: BaseException | None = None

    async def write(self, partition: int) -> None:
        """Append a tick to a partition. Raise the error of an earlier tick that Kafka's access lists refused."""
        if self._forbidden is not None:
            raise self._forbidden
        now = time.time_ns() // 1_000_000
        ack = await self._outbox.send(REPORTS, None, EMPTY_FRAME, partition=partition, timestamp_ms=now)
        ack.add_done_callback(self._check)

    def _check(self, ack: Ack) -> None:
        error = None if ack.cancelled() else ack.exception()
        if error is not None:
            log.warning("tick not sent: %r", error)
        if isinstance(error, TopicAuthorizationFailedError):
            self._forbidden = error
