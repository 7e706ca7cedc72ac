"""What `hubbub tail` knows: of each query the newest window and those before it, and the alerts. Pure."""

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from aggregator.reading.tail.summary import Alert, Message, Sheet, Subject, Unreadable, read_alert, read_record
from oracles.query.settings import Window

HISTORY = 30
"""Windows whose shares are kept."""
ALERTS = 500
"""Alerts that are kept, to know those that are told again."""


@dataclass
class Track:
    """One kind of window of one definition of a query or attribute."""

    newest: Sheet
    """The newest final; a provisional one until there is any."""
    finals: dict[int, dict[str, float]] = field(default_factory=dict)
    """Shares by value, by the window's end."""

    def gives_way(self, sheet: Sheet) -> bool:
        """To a newer definition, and to a shorter window."""
        new, old = sheet.subject, self.newest.subject
        if new.digest != old.digest:
            return new.end > old.end
        return _length(new.window) < _length(old.window)

    def take(self, sheet: Sheet) -> bool:
        """Whether it is the newest."""
        new, old = sheet.subject, self.newest.subject
        if (new.digest, new.window) != (old.digest, old.window):
            return False
        if sheet.final:
            self.finals[new.end] = {row.value: row.share for row in sheet.rows}
            for end in sorted(self.finals)[:-HISTORY]:
                del self.finals[end]
        if sheet is not self.newest and (sheet.final, new.end, sheet.n) <= (self.newest.final, old.end, self.newest.n):
            return False
        self.newest = sheet
        return True

    def history(self, value: str) -> list[float | None]:
        """The shares of a value in the finals, the oldest first; None where it was not published."""
        return [self.finals[end].get(value) for end in sorted(self.finals)]


def _length(window: Window) -> tuple[float, int]:
    return (math.inf if window.kind == "all" else window.size), window.step


@dataclass
class View:
    """All that is known. Records and alerts come in any order, and more than once."""

    query: str | None = None
    window: Window | None = None
    """Only these are shown; None: all queries, and of each the shortest window."""
    tracks: dict[tuple[str, str], Track] = field(default_factory=dict)
    """By query and attribute."""
    alerts: deque[Alert] = field(default_factory=lambda: deque(maxlen=ALERTS))
    """In the order in which they were heard."""
    others: set[str] = field(default_factory=set)
    """Queries that there are records of, but not asked for."""
    unreadable: int = 0

    def take(self, record: Message) -> list[Sheet]:
        """The sheets of a record that are now the newest of what is shown."""
        try:
            sheets = read_record(record)
        except Unreadable:
            self.unreadable += 1
            return []
        return [sheet for sheet in sheets if self._asked_for(sheet.subject) and self._is_newest(sheet)]

    def hear(self, message: Message) -> Alert | None:
        """An alert of what is shown that was not heard before."""
        try:
            alert = read_alert(message)
        except Unreadable:
            self.unreadable += 1
            return None
        if not self._asked_for(alert.subject) or any(alert.id == known.id for known in self.alerts):
            return None
        self.alerts.append(alert)
        return alert

    def _asked_for(self, subject: Subject) -> bool:
        if self.query not in (None, subject.query):
            self.others.add(subject.query)
            return False
        return self.window in (None, subject.window)

    def _is_newest(self, sheet: Sheet) -> bool:
        place = (sheet.subject.query, sheet.subject.attribute or "")
        track = self.tracks.get(place)
        if track is None or track.gives_way(sheet):
            track = self.tracks[place] = Track(sheet)
        return track.take(sheet)


def newest(alerts: Iterable[Alert], count: int) -> list[Alert]:
    """The last alerts by the time that they speak of, the newest first."""
    return sorted(alerts, key=lambda alert: alert.subject.end, reverse=True)[:count]
