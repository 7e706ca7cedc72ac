"""The newest window of each query, its history, and the alerts, for `hubbub tail`. Pure."""

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from aggregator.reading.tail.notation import clock, label, lateness, moment, plain
from aggregator.reading.tail.notice import Notice
from aggregator.reading.tail.summary import Heading, Summary
from aggregator.records.alert import decode as decode_alert
from aggregator.records.decoder import decode as decode_record
from aggregator.records.round_privacy import round_sentences
from aggregator.records.span import shortest_expected_age
from aggregator.records.status import QueryStatus, State, lack_of, lack_text, state_of
from aggregator.records.status import decode as decode_status
from hubbub.definitions.catalog import DefinitionLog, TopicRecord
from hubbub.next_window import next_window
from oracles.query import Query
from oracles.query.settings import Window

HISTORY = 30
"""Maximum number of windows in the history."""
STATUSES = 10_000
"""Number of statuses in memory from which on those of unknown definitions are dropped."""
_DAY = 43_200
"""Seconds from which on a time of day alone may be misread."""
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
        heading = summary.heading
        present = self.newest.heading
        # A changed query has another digest, and its old windows may still arrive.
        if heading.digest != present.digest:
            return heading.end > present.end
        return _length(heading.window) < _length(present.window)

    def add(self, summary: Summary) -> bool:
        """Add a window, and return whether it is the newest now, or the newest final."""
        heading = summary.heading
        if heading.digest != self.newest.heading.digest or heading.window != self.newest.heading.window:
            return False

        if summary.final:
            self.finals[heading.end] = {row.value: row.amount for row in summary.rows}
            if summary.withheld:
                self.withheld[heading.end] = summary.withheld
            for end in sorted(self.finals)[:-HISTORY]:
                del self.finals[end]
                self.withheld.pop(end, None)

        if summary is not self.newest and self._rank(summary) <= self._rank(self.newest):
            return bool(summary.withheld) and heading.end == max(self.finals)
        self.newest = summary
        return True

    def _rank(self, summary: Summary) -> tuple[bool, bool, int, int]:
        """Return a key that is larger for a window to show in preference."""
        is_over = not summary.final and any(end >= summary.heading.end for end in self.finals)
        # A withheld window does not hide the values of an older one.
        return summary.withheld is None and not is_over, summary.final, summary.heading.end, summary.n

    @property
    def is_withheld(self) -> bool:
        """Whether the newest final shows no values."""
        return bool(self.finals) and max(self.finals) in self.withheld

    @property
    def gap(self) -> str:
        """Return since when the windows after the newest one are withheld, and why. Empty if they are not."""
        ends = sorted(end for end in self.withheld if self.newest.withheld or end > self.newest.heading.end)
        return f"windows since {clock(ends[0])} are {self.withheld[ends[-1]]}" if ends else ""

    def history(self, value: str) -> list[float | None]:
        """Return the shares of a value in the finals, the oldest first, with None if a final does not publish it."""
        return [self.finals[end].get(value) for end in sorted(self.finals)]


class QueryPulse(NamedTuple):
    """The state of a query at a time."""

    state: State
    age: float | None
    """Seconds since the end of its newest final."""
    text: str
    """What the reader should know about it, in words. Empty if all is well."""
    lack: str
    """What is missing for its next result, in words. Empty if nothing is."""
    outlook: str
    """When its next window closes, in words. Empty if it has no next one."""

    @property
    def whole_text(self) -> str:
        """All three in one line."""
        return "; ".join(filter(None, (self.text, self.lack, self.outlook)))


def _length(window: Window) -> tuple[float, int]:
    return (math.inf if window.kind == "all" else window.size), window.step


@dataclass
class Overview:
    """The newest windows and the alerts. Records and alerts may arrive in any order and repeatedly."""

    query: str | None = None
    window: Window | None = None
    """The only query and kind of window to show, or None for all queries and their shortest windows."""
    group: str | None = None
    """The only group to show, or None for totals."""
    tracks: dict[tuple[str, str], Track] = field(default_factory=dict)
    """The tracks by query and attribute."""
    notices: deque[Notice] = field(default_factory=lambda: deque(maxlen=NOTICES))
    """The notices in order of arrival."""
    others: set[str] = field(default_factory=set)
    """Names of queries with records that are not shown."""
    unreadable: int = 0
    """The number of invalid records."""
    latest: dict[str, int] = field(default_factory=dict)
    """The end of the newest final of each query, of any kind of window."""
    _definitions: DefinitionLog = field(default_factory=DefinitionLog)
    _statuses: dict[str, QueryStatus] = field(default_factory=dict)
    """The newest status of each digest."""

    def add_record(self, record: bytes) -> list[Summary]:
        """Add a record, and return its summary if it is visible and now the newest."""
        try:
            content = decode_record(record)
        except ValueError:
            self.unreadable += 1
            return []
        if content.group != self.group:
            return []

        query = self._definitions.definitions.queries.get(bytes.fromhex(content.digest))
        summary = Summary.of(content, query)
        if not self._is_visible(summary.heading):
            return []

        if summary.final:
            name = summary.heading.query
            end = summary.heading.end
            self.latest[name] = max(end, self.latest.get(name, end))
        return [summary] if self._add(summary) else []

    def add_alert(self, alert: bytes) -> Notice | None:
        """Add an alert, and return its notice if it is visible and new."""
        try:
            notice = Notice.of(decode_alert(alert))
        except ValueError:
            self.unreadable += 1
            return None

        # A worker that restarts publishes its last alerts again, with the same ids.
        if not self._is_visible(notice.heading) or any(notice.id == present.id for present in self.notices):
            return None
        self.notices.append(notice)
        return notice

    def add_status(self, value: bytes) -> None:
        """Add the status of a query."""
        try:
            status = decode_status(value)
        except ValueError:
            self.unreadable += 1
            return
        # Statuses of definitions that nobody knows could fill the memory.
        has_definition = bytes.fromhex(status.digest) in self._definitions.definitions.queries
        if has_definition or status.digest in self._statuses or len(self._statuses) < STATUSES:
            self._statuses[status.digest] = status

    def define(self, key: bytes | None, value: bytes | None, timestamp: int) -> None:
        """Add a record of the topic `queries`."""
        self.unreadable += self._definitions.take(TopicRecord(key or b"", value, timestamp)) is not None

    @property
    def names(self) -> list[str]:
        """Return the names of the queries to show: the active ones, and those with records."""
        active = (name for name in self._definitions.definitions.active if self.query in (None, name))
        return sorted({*active, *(query for query, _ in self.tracks)})

    @property
    def waiting_text(self) -> str:
        """The text to show before the first record."""
        subject = "records" if self.query is None else f"records of {self.query}"
        hint = f"; there are records of {', '.join(sorted(self.others))}" if self.others else ""
        return f"waiting for {subject}{hint}"

    def tracks_of(self, name: str) -> list[Track]:
        """Return the tracks of the attributes of a query."""
        return [self.tracks[place] for place in sorted(self.tracks) if place[0] == name]

    def promise(self, name: str) -> str:
        """Return what all windows of a query reveal of a person, or no text if its definition is unknown."""
        query = self._query(name)
        return "" if query is None else " ".join(round_sentences(query))

    def pulse(self, name: str, clock_time: float) -> QueryPulse | None:
        """Return the state of a query, or None if its definition is unknown."""
        query = self._query(name)
        if query is None:
            return None

        tracks = self.tracks_of(name)
        # An earlier version of the query may have published windows that this one has not.
        if self.window not in (None, *query.windows) and not tracks:
            windows = ", ".join(map(label, query.windows))
            return QueryPulse("waiting", None, f"it has no windows of this kind, only {windows}", "", "")

        retired = name not in self._definitions.definitions.active
        latest = self.latest.get(name)
        status = self._statuses.get(query.digest.hex())
        withheld = bool(tracks) and all(track.is_withheld for track in tracks)
        state = state_of(query, status, latest, clock_time, retired=retired, withheld=withheld)
        age = None if latest is None else max(0.0, clock_time - latest)
        lack = lack_text(query, status, lack_of(query, status, state, clock_time))
        outlook = "" if retired else outlook_text(query, clock_time)
        text = _state_text(query, state, status, latest, clock_time)
        stop = self._definitions.definitions.stops.get(name)
        if stop is not None:
            # The reason is an operator's, but whoever may write to the topic could put controls of a terminal there.
            text = f"stopped since {moment(stop.since)} {plain(stop.reason)}".rstrip()
        return QueryPulse(state, age, text, lack, outlook)

    def _query(self, name: str) -> Query | None:
        """Return the newest known definition of a query."""
        definitions = self._definitions.definitions
        query = definitions.active.get(name)
        if query is None:  # the newest records tell which of the retired definitions
            tracks = self.tracks_of(name)
            digest = bytes.fromhex(tracks[0].newest.heading.digest) if tracks else b""
            query = definitions.queries.get(digest)
        return query if query is not None and query.name == name else None

    def _is_visible(self, heading: Heading) -> bool:
        if self.query not in (None, heading.query):
            self.others.add(heading.query)
            return False
        return self.window in (None, heading.window)

    def _add(self, summary: Summary) -> bool:
        place = (summary.heading.query, summary.heading.attribute or "")
        track = self.tracks.get(place)
        if track is None or track.is_replaced_by(summary):
            track = Track(summary)
            self.tracks[place] = track
        return track.add(summary)


def outlook_text(query: Query, clock_time: float) -> str:
    """Return when the next window of a query closes, and when its result comes. Empty if it has ended."""
    arrival = next_window(query, clock_time)
    if arrival is None:
        return ""
    # A day of windows needs the date as well.
    write = clock if arrival.due - clock_time < _DAY else moment
    window = "the next window" if arrival.window.kind == "all" else f"the next window of {label(arrival.window)}"
    return (
        f"{window} {arrival.ends(clock_time)} at {write(arrival.end)}, its result comes soon after {write(arrival.due)}"
    )


def _state_text(query: Query, state: State, status: QueryStatus | None, latest: int | None, clock_time: float) -> str:
    if state == "late" and latest is not None:
        delay = lateness(max(1.0, clock_time - latest - shortest_expected_age(query)))
        hint = "check that workers run (/readyz, hubbub_lag_seconds)"
        return f"no final since {clock(latest)}, late by {delay}: {hint}"

    if state == "quiet":
        newest_report = latest if status is None or status.newest_report is None else status.newest_report
        return "no reports yet" if newest_report is None else f"no reports since {clock(newest_report)}"

    if state == "waiting":
        # A definition may be published before it counts.
        begins = query.starts is not None and query.starts > clock_time
        return f"begins at {moment(query.starts or 0)}" if begins else "no final yet"
    return "no longer counted" if state == "retired" else ""


def last_notices(notices: Iterable[Notice], count: int) -> list[Notice]:
    """Return the notices of the latest windows, the newest first."""
    return sorted(notices, key=lambda notice: notice.heading.end, reverse=True)[:count]
