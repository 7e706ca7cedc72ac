"""The newest window of each query, its history, and the alerts, for `hubbub tail`. Pure."""

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise

from aggregator.publishing.alerts.message import decode as decode_alert
from aggregator.publishing.records.decoder import decode as decode_record
from aggregator.reading.tail.notation import clock
from aggregator.reading.tail.summary import Heading, Notice, Summary
from oracles.query.settings import Window

HISTORY = 30
"""Maximum number of windows in the history."""
PUBLISH_SECONDS = 30
"""Maximum seconds from the end of a window to its record in normal operation."""
NOTICES = 500
"""Maximum number of notices in memory, to recognise repeated alerts."""


@dataclass
class Track:
    """The windows of one kind, for one attribute of a definition."""

    newest: Summary
    """The newest final with values. If there is none, the provisional window, or the newest withheld final."""
    finals: dict[int, dict[str, float]] = field(default_factory=dict)
    """The shares by value, for each end of a window. A withheld window has none."""
    withheld: dict[int, str] = field(default_factory=dict)
    """The reason of each withheld final."""

    def is_replaced_by(self, summary: Summary) -> bool:
        """Whether a summary has a newer definition or a shorter window."""
        new, old = summary.heading, self.newest.heading
        if new.digest != old.digest:
            return new.end > old.end
        return _length(new.window) < _length(old.window)

    def add(self, summary: Summary) -> bool:
        """Add a window, and return whether it is the newest now, or the newest final."""
        new, old = summary.heading, self.newest.heading
        if (new.digest, new.window) != (old.digest, old.window):
            return False
        if summary.final:
            self.finals[new.end] = {row.value: row.share for row in summary.rows}
            if summary.withheld:
                self.withheld[new.end] = summary.withheld
            for end in sorted(self.finals)[:-HISTORY]:
                del self.finals[end]
                self.withheld.pop(end, None)
        if summary is not self.newest and self._rank(summary) <= self._rank(self.newest):
            return bool(summary.withheld) and new.end == max(self.finals)
        self.newest = summary
        return True

    def _rank(self, summary: Summary) -> tuple[bool, bool, int, int]:
        """Return a key that is larger for a window to show in preference."""
        is_over = not summary.final and any(end >= summary.heading.end for end in self.finals)
        return summary.withheld is None and not is_over, summary.final, summary.heading.end, summary.n

    @property
    def gap(self) -> str:
        """Return since when the windows after the newest one are withheld, and why. Empty if they are not."""
        ends = sorted(end for end in self.withheld if self.newest.withheld or end > self.newest.heading.end)
        return f"windows since {clock(ends[0])} are {self.withheld[ends[-1]]}" if ends else ""

    def late(self, now: float) -> float:
        """Return how late the next final is, in seconds, with time for one window without reports."""
        ends = sorted(self.finals)
        step = self.newest.heading.window.step or min((b - a for a, b in pairwise(ends)), default=0)
        return now - (ends[-1] + 2 * step + PUBLISH_SECONDS) if ends and step else 0.0

    def history(self, value: str) -> list[float | None]:
        """Return the shares of a value in the finals, the oldest first, with None if a final does not publish it."""
        return [self.finals[end].get(value) for end in sorted(self.finals)]


def _length(window: Window) -> tuple[float, int]:
    return (math.inf if window.kind == "all" else window.size), window.step


@dataclass
class Overview:
    """The newest windows and the alerts. Records and alerts may arrive in any order and repeatedly."""

    query: str | None = None
    window: Window | None = None
    """The only query and kind of window to show, or None for all queries and their shortest windows."""
    tracks: dict[tuple[str, str], Track] = field(default_factory=dict)
    """The tracks by query and attribute."""
    notices: deque[Notice] = field(default_factory=lambda: deque(maxlen=NOTICES))
    """The notices in order of arrival."""
    others: set[str] = field(default_factory=set)
    """Names of queries with records that are not shown."""
    unreadable: int = 0
    """The number of invalid records."""

    def add_record(self, record: bytes) -> list[Summary]:
        """Add a record, and return its summary if it is visible and now the newest."""
        try:
            summary = Summary.of(decode_record(record))
        except ValueError:
            self.unreadable += 1
            return []
        return [summary] if self._is_visible(summary.heading) and self._add(summary) else []

    def add_alert(self, alert: bytes) -> Notice | None:
        """Add an alert, and return its notice if it is visible and new."""
        try:
            notice = Notice.of(decode_alert(alert))
        except ValueError:
            self.unreadable += 1
            return None
        if not self._is_visible(notice.heading) or any(notice.id == other.id for other in self.notices):
            return None
        self.notices.append(notice)
        return notice

    def _is_visible(self, heading: Heading) -> bool:
        if self.query not in (None, heading.query):
            self.others.add(heading.query)
            return False
        return self.window in (None, heading.window)

    def _add(self, summary: Summary) -> bool:
        place = (summary.heading.query, summary.heading.attribute or "")
        track = self.tracks.get(place)
        if track is None or track.is_replaced_by(summary):
            track = self.tracks[place] = Track(summary)
        return track.add(summary)


def last_notices(notices: Iterable[Notice], count: int) -> list[Notice]:
    """Return the notices of the latest windows, the newest first."""
    return sorted(notices, key=lambda notice: notice.heading.end, reverse=True)[:count]
