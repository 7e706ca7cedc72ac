"""How late a worker is: its gauges, one line a minute in the log, and the words of its readiness."""

import logging
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from hubbub import outside

log = logging.getLogger(__name__)

LATE = 60.0
"""Seconds above which finals are said to be late."""
PAUSE = 60.0
"""Seconds between two lines of the log."""
SLOW_WRITE = 5.0
"""Seconds above which a write without an acknowledgement is the cause. Kafka needs less while it changes a leader."""


class LatenessGauges(Collector):
    """The gauges of reading and publishing.

    They are absent until the first recovery is over. A worker does not know before what is late, and a 0 would end the
    alerts of an installation whose workers restart again and again.
    """

    def __init__(self, count_owed: Callable[[], int], oldest_due: Callable[[], float | None]) -> None:
        """Take the number of owed finals, and when the oldest of them was due, in Unix seconds."""
        self._count_owed = count_owed
        self._oldest_due = oldest_due
        self.reading_lag: float | None = None
        """Seconds by which the slowest partition's clock is behind, or None before the first recovery is over."""

    def collect(self) -> Iterator[Metric]:
        text = "Seconds by which the slowest partition's clock is behind"
        reading_lag = GaugeMetricFamily("hubbub_lag_seconds", text)
        text = "Seconds since the oldest unpublished final was due"
        publish_lag = GaugeMetricFamily("hubbub_publish_lag_seconds", text)
        owed_finals = GaugeMetricFamily("hubbub_owed_finals", "Finals that are due and not acknowledged")
        if self.reading_lag is not None:
            reading_lag.add_metric([], self.reading_lag)
            due = self._oldest_due()
            publish_lag.add_metric([], 0.0 if due is None else max(0.0, outside.wall() - due))
            owed_finals.add_metric([], self._count_owed())
        yield from (reading_lag, publish_lag, owed_finals)


class LatenessLog:
    """Says once a minute how late finals are and which part is slow, and once that they are in time again."""

    def __init__(self) -> None:
        self._last_line: float | None = None
        """The time of the last line about late finals, or None if none are late."""
        self._due: float | None = None

    @property
    def remark(self) -> str | None:
        """What a worker that is ready says beside, or None if its finals are in time."""
        late = self._late(outside.wall())
        return f"finals are {late:.0f} s late" if late > LATE else None

    def _late(self, moment: float) -> float:
        """Return by how many seconds the oldest window was late at the last look."""
        return 0.0 if self._due is None else moment - self._due

    def look(self, due: float | None, *, count_owed: Callable[[], int], reading_lag: float, write_age: float) -> None:
        """Note when the oldest window with reports was due, and what the worker waits for."""
        self._due = due
        now = outside.wall()
        late = self._late(now)
        if late <= LATE:
            if self._last_line is not None:
                self._last_line = None
                log.info("finals are in time again")
            return

        if self._last_line is not None and now - self._last_line < PAUSE:
            return
        self._last_line = now
        since = datetime.fromtimestamp(now - late, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        cause = slow_part(late, reading_lag, write_age)
        message = "finals are %.0f s late: the oldest was due at %s, %s closed windows wait, and the slow part is %s"
        log.warning(message, late, since, count_owed(), cause)


def slow_part(late: float, reading_lag: float, write_age: float) -> str:
    """Return which part of a worker makes finals late."""
    if write_age > SLOW_WRITE:
        return f"Kafka, which has not acknowledged a write for {write_age:.0f} s"
    if reading_lag > late / 2:
        return f"reading, which is {reading_lag:.0f} s behind"
    return "estimating"
