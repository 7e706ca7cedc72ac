"""The windows and alerts that `hubbub tail` knows: of each query the newest window and those before it. Pure."""

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise

from aggregator.publishing.alert import decode as decode_alert
from aggregator.publishing.record_reader import decode as decode_record
from aggregator.reading.tail.summary import Heading, Notice, Summary
from oracles.query.settings import Window

HISTORY = 30
"""Windows whose shares are kept."""
PUBLISHED = 30
"""Seconds from the end of a window to its record, at the most while all is well."""
NOTICES = 500
"""Changes that are kept, to know those that are told again."""


@dataclass
class Track:
    """One kind of window of one definition of a query or attribute."""

    newest: Summary
    """The newest final; a provisional one until there is any."""
    finals: dict[int, dict[str, float]] = field(default_factory=dict)
    """Shares by value, by the window's end."""

    def gives_way(self, summary: Summary) -> bool:
        """To a newer definition, and to a shorter window."""
        new, old = summary.heading, self.newest.heading
        if new.digest != old.digest:
            return new.end > old.end
        return _length(new.window) < _length(old.window)

    def take(self, summary: Summary) -> bool:
        """Whether it is the newest."""
        new, old = summary.heading, self.newest.heading
        if (new.digest, new.window) != (old.digest, old.window):
            return False
        if summary.final:
            self.finals[new.end] = {row.value: row.share for row in summary.rows}
            for end in sorted(self.finals)[:-HISTORY]:
                del self.finals[end]
        if summary is not self.newest and (summary.final, new.end, summary.n) <= (
            self.newest.final,
            old.end,
            self.newest.n,
        ):
            return False
        self.newest = summary
        return True

    def late(self, now: float) -> float:
        """By how many seconds the next final is late: one that holds no report is not missed."""
        ends = sorted(self.finals)
        step = self.newest.heading.window.step or min((b - a for a, b in pairwise(ends)), default=0)
        return now - (ends[-1] + 2 * step + PUBLISHED) if ends and step else 0.0

    def history(self, value: str) -> list[float | None]:
        """The shares of a value in the finals, the oldest first; None where it was not published."""
        return [self.finals[end].get(value) for end in sorted(self.finals)]


def _length(window: Window) -> tuple[float, int]:
    return (math.inf if window.kind == "all" else window.size), window.step


@dataclass
class Overview:
    """All that is known. Records and alerts come in any order, and more than once."""

    query: str | None = None
    window: Window | None = None
    """Only these are shown; None: all queries, and of each the shortest window."""
    tracks: dict[tuple[str, str], Track] = field(default_factory=dict)
    """By query and attribute."""
    notices: deque[Notice] = field(default_factory=lambda: deque(maxlen=NOTICES))
    """In the order in which they were heard."""
    others: set[str] = field(default_factory=set)
    """Queries that there are records of, but not asked for."""
    unreadable: int = 0

    def take(self, record: bytes) -> list[Summary]:
        """The summaries of a record that are now the newest of what is shown."""
        try:
            summaries = list(map(Summary.of, decode_record(record)))
        except ValueError:
            self.unreadable += 1
            return []
        return [summary for summary in summaries if self._asked_for(summary.heading) and self._is_newest(summary)]

    def hear(self, alert: bytes) -> Notice | None:
        """The notice of an alert that is shown and was not heard before."""
        try:
            notice = Notice.of(decode_alert(alert))
        except ValueError:
            self.unreadable += 1
            return None
        if not self._asked_for(notice.heading) or any(notice.id == known.id for known in self.notices):
            return None
        self.notices.append(notice)
        return notice

    def _asked_for(self, heading: Heading) -> bool:
        if self.query not in (None, heading.query):
            self.others.add(heading.query)
            return False
        return self.window in (None, heading.window)

    def _is_newest(self, summary: Summary) -> bool:
        place = (summary.heading.query, summary.heading.attribute or "")
        track = self.tracks.get(place)
        if track is None or track.gives_way(summary):
            track = self.tracks[place] = Track(summary)
        return track.take(summary)


def last_notices(notices: Iterable[Notice], count: int) -> list[Notice]:
    """The last notices by the time that they speak of, the newest first."""
    return sorted(notices, key=lambda notice: notice.heading.end, reverse=True)[:count]
