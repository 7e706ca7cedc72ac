"""The clock of this machine against those of the brokers, and the partitions whose clocks differ from all others."""

import logging
from collections.abc import Iterable, Iterator, Mapping
from statistics import median
from typing import Any, NamedTuple

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from hubbub import outside

log = logging.getLogger(__name__)

MAX_SKEW = 2.0
"""Seconds by which a clock may be wrong before the worker raises the alarm."""
MEMORY = 300.0
"""Seconds for which the offset of a tick counts. With traffic there are no ticks, and somebody may set the clock."""


class TickTimes(NamedTuple):
    """The times of one acknowledged tick, in Unix seconds."""

    send_time: float
    """On the clock of this machine."""
    ack_time: float
    """On the clock of this machine."""
    log_time: float
    """On the clock of the broker."""

    @property
    def offset(self) -> float:
        """The seconds that the clock of this machine is certainly ahead of the broker's, negative if it is behind.

        The broker stamps the tick between the two other times. So a slow answer alone gives 0.
        """
        if self.send_time > self.log_time:
            return self.send_time - self.log_time
        return min(0.0, self.ack_time - self.log_time)


class OwnClock(Collector):
    """The offset of this machine's clock: the median over the partitions that got ticks."""

    def __init__(self) -> None:
        self._offsets: dict[int, tuple[float, float]] = {}
        """The offset of each partition's newest tick, after the monotonic time of its acknowledgement."""
        self._is_reported = False

    def note(self, partition: int, times: TickTimes) -> None:
        """Note a tick that the broker has stamped."""
        self._offsets[partition] = outside.monotonic(), times.offset

    @property
    def offset(self) -> float | None:
        """Seconds by which this machine's clock is ahead of the brokers', or None without ticks."""
        oldest = outside.monotonic() - MEMORY
        return middle(offset for moment, offset in self._offsets.values() if moment > oldest)

    def look(self) -> None:
        """Report once in the log that the clock is wrong, and once that it is right again."""
        offset = self.offset
        is_wrong = offset is not None and abs(offset) > MAX_SKEW
        if offset is not None and is_wrong and not self._is_reported:
            side = "ahead of" if offset > 0 else "behind"
            message = "the clock of this machine is %s s %s the brokers': set it right, and keep it right with NTP"
            log.warning(message, f"{abs(offset):,.0f}", side)
        elif offset is not None and not is_wrong and self._is_reported:
            log.info("the clock of this machine agrees with the brokers' again")
        # Without ticks nobody knows, so the last report stays true.
        self._is_reported = self._is_reported if offset is None else is_wrong

    def collect(self) -> Iterator[Metric]:
        text = "Seconds by which this machine's clock is ahead of the brokers'; negative if behind"
        gauge = GaugeMetricFamily("hubbub_clock_offset_seconds", text)
        offset = self.offset
        if offset is not None:
            gauge.add_metric([], offset)
        yield gauge


class PartitionClocks:
    """The partitions whose clocks are too far ahead. The log reports each of them once."""

    def __init__(self, gauge: Any) -> None:
        self._gauge = gauge
        self._partitions: set[int] = set()

    def look(self, clocks: Mapping[int, float], offset: float | None) -> None:
        """Compare the clocks of all own partitions. `offset` is that of this machine's clock, if it is known."""
        present = outside.wall() - (offset or 0.0)
        for partition, clock in clocks.items():
            reference = present
            if offset is None and len(clocks) > 1:
                # A wrong clock of this machine shows in all partitions. One that only reads slowly shows in none.
                reference = max(present, median(value for other, value in clocks.items() if other != partition))
            self._note(partition, clock - reference)

    def _note(self, partition: int, seconds_ahead: float) -> None:
        self._gauge.labels(str(partition)).set(seconds_ahead)
        if seconds_ahead > MAX_SKEW and partition not in self._partitions:
            self._partitions.add(partition)
            message = "clock of partition %s is %.0f s ahead of the others: reports that come in time are late"
            log.critical(message, partition, seconds_ahead)
        elif seconds_ahead <= MAX_SKEW:
            self._partitions.discard(partition)


def middle(values: Iterable[float]) -> float | None:
    """Return the median. Of two middle values it is the one nearer to 0, because one wrong broker must not decide.

    >>> middle([-600.0, 0.0]), middle([0.0, 0.0, 3600.0]), middle([])
    (0.0, 0.0, None)
    """
    numbers = sorted(values)
    if not numbers:
        return None
    return min(numbers[(len(numbers) - 1) // 2], numbers[len(numbers) // 2], key=abs)
