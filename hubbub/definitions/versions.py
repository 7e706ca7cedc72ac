"""The versions of one definition: which of them speaks for a pane, and when a pane closes under all of them.

A version speaks from its first pane on, until the next one does. All versions of a digest give a
report the same meaning (domain, oracle, epsilon, pane); all else may differ from one to the next.
"""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

from oracles.query import Query
from oracles.query.settings import Window

FOR_EVER = 1 << 62

Untimely = Literal["expired", "late", "future"]
"""Why a report does not count that a version speaks for."""


class Version(NamedTuple):
    first: int
    """The first pane that it speaks for; 0: all panes."""
    query: Query
    retired: bool = False
    """Whether reports of its panes are refused."""


class Tenure(NamedTuple):
    """A stretch of time in which a kind of window is published: whole windows that lie in it."""

    window: Window
    since: int = -FOR_EVER
    until: int = FOR_EVER


@dataclass(frozen=True)
class Versions:
    """All versions of one digest, in the order of their first panes; there is at least one."""

    versions: tuple[Version, ...]

    @classmethod
    def of(cls, query: Query, retired: int | None = None) -> "Versions":
        """One version for all panes, or for those that start before `retired`."""
        first = cls((Version(0, query),))
        return first if retired is None else first.followed(Version(retired, query, retired=True))

    def followed(self, version: Version) -> "Versions":
        """With one more version; of two with the same first pane the later one speaks."""
        first = max(version.first, self.versions[-1].first)
        kept = tuple(before for before in self.versions if before.first < first)
        return Versions((*kept, version._replace(first=first)))

    @property
    def newest(self) -> Version:
        return self.versions[-1]

    @property
    def query(self) -> Query:
        """The newest; name, digest, pane and oracle are those of all."""
        return self.versions[-1].query

    @property
    def first(self) -> int:
        """No version speaks for panes before."""
        return self.versions[0].first

    @property
    def retired(self) -> int | None:
        """The first pane for which the definition is retired, where it is."""
        return self.newest.first if self.newest.retired else None

    @property
    def owed_until(self) -> int | None:
        """The end of the last window that can hold a report of a definition that is retired."""
        if self.retired is None:
            return None
        last = self.retired - self.query.pane
        ends = (last // window.step * window.step + window.size for window, *_ in self.tenures if window.step)
        return max([self.retired, *ends])

    def at(self, pane: int) -> Version:
        """The version that speaks for a pane; for panes before all of them the first one."""
        return self.versions[self._index(pane)]

    def closes_after(self, pane: int) -> int:
        """The last millisecond at which a report of the pane is still in time: no pane closes before an earlier one."""
        index = self._index(pane)
        query = self.versions[index].query
        return 1000 * max(pane + query.pane + query.lateness, self._floors[index])

    def is_late(self, pane: int, clock: int) -> bool:
        """Whether a report of the pane comes too late at this time of the log, in milliseconds: the pane is closed."""
        return clock > self.closes_after(pane)

    def is_future(self, pane: int, clock: int) -> bool:
        return 1000 * (pane - self.at(pane).query.skew) > clock

    def is_expired(self, pane: int) -> bool:
        """Whether the pane is outside of what is counted, whatever the time is."""
        query = self.at(pane).query
        return (query.starts is not None and pane < query.starts) or (query.until is not None and pane >= query.until)

    def untimely(self, pane: int, clock: int) -> Untimely | None:
        """Why a report of the pane does not count at this time of the log; None where it does."""
        if self.is_expired(pane):
            return "expired"
        if self.is_late(pane, clock):
            return "late"
        return "future" if self.is_future(pane, clock) else None

    def closed_through(self, clock: int) -> int:
        """The end of the newest pane that is closed at this time: it and all before it are."""
        seconds = (clock - 1) // 1000
        index = next(index for index in reversed(range(len(self._floors))) if seconds >= self._floors[index])
        first, query, _ = self.versions[index]
        end = (seconds - query.lateness) // query.pane * query.pane
        return max(end, first) if index else end

    @property
    def most_open(self) -> int:
        """How many panes can be open on a partition at once."""
        lateness = max(version.query.lateness for version in self.versions)
        return (lateness + self.skew) // self.query.pane + 2

    @property
    def skew(self) -> int:
        return max(version.query.skew for version in self.versions)

    def is_partial(self, start: int, end: int) -> bool:
        """Whether within [start, end) something changed that decides what is counted."""
        return any(start < first < end for first in self._recounted)

    @cached_property
    def tenures(self) -> tuple[Tenure, ...]:
        """When each kind of window is published, in the order of time."""
        return tuple(sorted(self._tenures(), key=lambda tenure: tenure.since))

    def _tenures(self) -> Iterator[Tenure]:
        since: dict[Window, int] = {}
        for version in self.versions:
            # What is retired publishes `all` no more; windows of a size still hold what was reported before.
            windows = [window for window in version.query.windows if window.step or not version.retired]
            for window in [window for window in since if window not in windows]:
                yield Tenure(window, since.pop(window), version.first)
            for window in windows:
                since.setdefault(window, version.first or -FOR_EVER)
        yield from (Tenure(window, first, FOR_EVER) for window, first in since.items())

    def _index(self, pane: int) -> int:
        if len(self.versions) == 1:
            return 0  # as nearly always, and each request asks several times
        return max(0, bisect_right(self.versions, pane, key=lambda version: version.first) - 1)

    @cached_property
    def _floors(self) -> tuple[int, ...]:
        """Of each version the second until which panes before its first are open."""
        floors = [-FOR_EVER]
        for before, version in zip(self.versions, self.versions[1:], strict=False):
            floors.append(max(floors[-1], version.first + before.query.lateness))
        return tuple(floors)

    @cached_property
    def _recounted(self) -> tuple[int, ...]:
        """The first panes at which something changed that decides what is counted."""
        pairs = zip(self.versions, self.versions[1:], strict=False)
        return tuple(version.first for before, version in pairs if _rules(before) != _rules(version))


def _rules(version: Version) -> tuple[object, ...]:
    query = version.query
    return query.lateness, query.skew, query.starts, query.until, query.require_id, query.max_ids, version.retired
