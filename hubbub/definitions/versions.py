"""The versions of one definition: which version applies to a pane, and when a pane closes.

A version applies from its first pane until the first pane of the next version. All versions of a digest give a report
the same meaning: domain, oracle, epsilon and pane are equal. All other settings may differ.
"""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from typing import Literal, NamedTuple

from oracles.query import Query
from oracles.query.settings import Window

FOR_EVER = 1 << 62
MOST_SECONDS = 1 << 53
"""No pane starts here or later, or before 0, even without a log time. So the times of every window fit in a record."""

Untimely = Literal["expired", "late", "future"]
"""The reason for which a report does not count although a version applies to its pane."""


def open_panes(query: Query) -> int:
    """Return the maximum number of open panes of a query on one partition."""
    return (query.lateness + query.skew) // query.pane + 2


class Version(NamedTuple):
    first: int
    """The first pane that the version applies to; 0 means all panes."""
    query: Query
    retired: bool = False
    """Whether the query file has ended the query, so that reports of these panes are refused."""
    is_stopped: bool = False
    """Whether `hubbub stop` holds the query, so that reports of these panes are refused. Its windows go on."""


class PublicationInterval(NamedTuple):
    """A stretch of time in which a kind of window is published: whole windows that lie in it."""

    window: Window
    since: int = -FOR_EVER
    until: int = FOR_EVER


@dataclass(frozen=True)
class Versions:
    """All versions of one digest, at least one, in the order of their first panes."""

    versions: tuple[Version, ...]

    @classmethod
    def of(cls, query: Query, retired: int | None = None) -> "Versions":
        """Return a version for all panes, or for the panes that start before `retired`."""
        versions = cls((Version(0, query),))
        return versions if retired is None else versions.with_version(Version(retired, query, retired=True))

    def with_version(self, version: Version) -> "Versions":
        """Return these versions and one more. It replaces a version that has the same first pane."""
        # Panes find their version by bisection, which needs rising first panes.
        first_pane = max(version.first, self.versions[-1].first)
        earlier = tuple(old for old in self.versions if old.first < first_pane)
        return Versions((*earlier, version._replace(first=first_pane)))

    @property
    def newest(self) -> Version:
        return self.versions[-1]

    @property
    def query(self) -> Query:
        """The newest query. All versions share its name, digest, pane and oracle."""
        return self.versions[-1].query

    @property
    def first(self) -> int:
        """The first pane that any version applies to."""
        return self.versions[0].first

    @property
    def retired(self) -> int | None:
        """The first pane of the retirement, or None if the definition is not retired."""
        return self.newest.first if self.newest.retired else None

    @property
    def last_window_end(self) -> int | None:
        """The end of the last window with reports of a retired definition, or None if it is not retired."""
        if self.retired is None:
            return None
        last_pane = self.retired - self.query.pane
        ends = (last_pane // window.step * window.step + window.size for window, *_ in self.intervals if window.step)
        return max([self.retired, *ends])

    def at(self, pane: int) -> Version:
        """Return the version that applies to a pane, and the first version for earlier panes."""
        return self.versions[self._index(pane)]

    def known_at(self, clock: int | None) -> "Versions | None":
        """Return the versions that all readers know at this log time in milliseconds, or None if there may be none.

        A version begins further ahead of its record than its own skew and that of the version before. Until the clock
        is so near, a reader may not know it, and reports of its panes are in the future for all readers.
        """
        if clock is None:
            return self
        for count in range(len(self.versions), 0, -1):
            skew = max(version.query.skew for version in self.versions[max(0, count - 2) : count])
            if 1000 * (self.versions[count - 1].first - skew) <= clock:
                return self if count == len(self.versions) else Versions(self.versions[:count])
        return None

    def is_settled(self, clock: int | None) -> bool:
        """Whether a refusal of a pane that is late or expired holds at all later clocks."""
        return self.known_at(clock) is self and self.retired is None

    def is_over(self, clock: int | None) -> bool:
        """Whether the definition is retired and all its panes are closed at this log time in milliseconds."""
        return self.retired is not None and clock is not None and self.closed_through(clock) >= self.retired

    def closes_after(self, pane: int) -> int:
        """Return the last millisecond of log time for reports of the pane. No pane closes before an earlier one."""
        index = self._index(pane)
        query = self.versions[index].query
        return 1000 * max(pane + query.pane + query.lateness, self._floors[index])

    def due(self, end: int) -> float:
        """Return when a window with this end is due, in Unix seconds: its lateness is over then."""
        return self.closes_after(end - self.query.pane) / 1000

    def is_late(self, pane: int, clock: int | None) -> bool:
        """Whether the pane is closed at this log time in milliseconds, so that its reports are too late.

        Without a log time only panes before 0 are late.
        """
        return pane < 0 if clock is None else clock > self.closes_after(pane)

    def is_future(self, pane: int, clock: int | None) -> bool:
        """Whether the pane starts further after this log time in milliseconds than the skew allows.

        Without a log time only panes from `MOST_SECONDS` on are in the future.
        """
        return pane >= MOST_SECONDS if clock is None else 1000 * (pane - self.at(pane).query.skew) > clock

    def is_expired(self, pane: int) -> bool:
        """Whether the pane is outside of the query's `from` and `until`."""
        query = self.at(pane).query
        return (query.starts is not None and pane < query.starts) or (query.until is not None and pane >= query.until)

    def untimely(self, pane: int, clock: int | None) -> Untimely | None:
        """Return the reason for which a report of the pane does not count at this log time, or None if it counts."""
        if self.is_expired(pane):
            return "expired"
        if self.is_late(pane, clock):
            return "late"
        return "future" if self.is_future(pane, clock) else None

    def closed_through(self, clock: int) -> int:
        """Return the end of the newest closed pane at this log time in milliseconds. All earlier panes are closed."""
        # A pane closes past its last millisecond, so the millisecond of the clock itself does not count.
        seconds = (clock - 1) // 1000
        index = next(index for index in reversed(range(len(self._floors))) if seconds >= self._floors[index])
        first_pane, query, *_ = self.versions[index]
        end = (seconds - query.lateness) // query.pane * query.pane
        return max(end, first_pane) if index else end

    @property
    def most_open(self) -> int:
        """The maximum number of open panes on one partition."""
        lateness = max(version.query.lateness for version in self.versions)
        return (lateness + self.skew) // self.query.pane + 2

    @property
    def skew(self) -> int:
        return max(version.query.skew for version in self.versions)

    def is_partial(self, start: int, end: int) -> bool:
        """Whether the rules of counting changed within [start, end)."""
        return any(start < edge < end for edge in self._recounted)

    @cached_property
    def spreads(self) -> tuple[tuple[int, int | None], ...]:
        """The first panes from which on the query has another spread, each with this spread."""
        spreads: list[tuple[int, int | None]] = []
        for first, query, *_ in self.versions:
            if not spreads or spreads[-1][1] != query.spread:
                spreads.append((first, query.spread))
        return tuple(spreads)

    def spread_at(self, pane: int) -> int | None:
        """Return the spread that applies to a pane, or None if all partitions take its frames."""
        spreads = self.spreads
        return spreads[0][1] if len(spreads) == 1 else self.at(pane).query.spread

    @cached_property
    def intervals(self) -> tuple[PublicationInterval, ...]:
        """The intervals in which each kind of window is published, in the order of time."""
        return tuple(sorted(self._intervals(), key=lambda interval: interval.since))

    def first_window_end(self, pane: int) -> int | None:
        """Return the end of the first window that holds a pane, or None if no window does."""
        ends = []
        for window, since, until in self.intervals:
            if not window.step:
                end = self.all_end(pane)
                ends += [end] if since <= pane and end <= until else []
                continue
            size, step = window.size, window.step
            start = max((pane - size) // step * step + step, -(-since // step) * step)
            if start <= pane and start + size <= until:
                ends.append(start + size)
        return min(ends, default=None)

    def all_end(self, pane: int) -> int:
        """Return the end of the first window `all` that holds a pane: of the pane, or of the next search for names."""
        index = self._index(pane)
        for version, next_version in zip_longest(self.versions[index:], self.versions[index + 1 :]):
            step = version.query.search or self.query.pane
            end = max(pane, version.first) // step * step + step
            if next_version is None or end - self.query.pane < next_version.first:
                break
        return end

    def _intervals(self) -> Iterator[PublicationInterval]:
        since: dict[Window, int] = {}
        for version in self.versions:
            # A retired query no longer publishes `all`. Windows of a fixed size still hold earlier reports.
            windows = [window for window in version.query.windows if window.step or not version.retired]
            for window in [window for window in since if window not in windows]:
                yield PublicationInterval(window, since.pop(window), version.first)
            for window in windows:
                since.setdefault(window, version.first or -FOR_EVER)
        yield from (PublicationInterval(window, start, FOR_EVER) for window, start in since.items())

    def _index(self, pane: int) -> int:
        if len(self.versions) == 1:
            return 0  # the usual case, asked several times per request
        return max(0, bisect_right(self.versions, pane, key=lambda version: version.first) - 1)

    @cached_property
    def _floors(self) -> tuple[int, ...]:
        """For each version, the second until which panes before its first pane stay open."""
        floors = [-FOR_EVER]
        for earlier, version in zip(self.versions, self.versions[1:], strict=False):
            floors.append(max(floors[-1], version.first + earlier.query.lateness))
        return tuple(floors)

    @cached_property
    def _recounted(self) -> tuple[int, ...]:
        """The first panes at which the rules of counting changed."""
        pairs = zip(self.versions, self.versions[1:], strict=False)
        return tuple(version.first for earlier, version in pairs if _rules(earlier) != _rules(version))


def _rules(version: Version) -> tuple[object, ...]:
    query = version.query
    is_refused = version.retired or version.is_stopped
    return query.lateness, query.skew, query.starts, query.until, query.require_id, query.max_ids, is_refused
