"""The marks of a query: the times at which windows with values may begin and end, for each attribute and group.

Between two marks lie no reports, or at least `crowd`. A window shows its values only if it begins and ends at
marks. Every sum over published windows and groups is then about whole stretches between marks. The marks depend
only on the number of reports in each pane, in the order of time.

An edge is a time that may become a mark: a multiple of a span. The spans are the sizes and steps of the windows.
"""

import math
from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain, pairwise
from typing import Any, Literal

import orjson

from aggregator.merging.place_counts import Count, fewest, has_reports, sum_counts
from aggregator.tallies.group_cells import further_groups
from hubbub.definitions.versions import FOR_EVER, Versions
from hubbub.next_window import all_step
from oracles.errors import ReportError
from oracles.query import Query

Withheld = Literal["small", "held"]
"""The reason why a window shows no values: it has too few reports, or it does not begin and end at marks."""


def spans(query: Query) -> list[int]:
    """Return the lengths of time whose multiples are the edges of a query, the longest first."""
    lengths: set[int] = set()
    for window in query.windows:
        if window.step:
            lengths |= {window.size, window.step, math.gcd(window.size, window.step)}
        else:
            lengths.add(all_step(query))
    return sorted(lengths, reverse=True)


@dataclass
class Marks:
    """The marks of one attribute of one group."""

    pane: int
    newest_mark: int = -FOR_EVER
    """The mark before the newest reports. With `-FOR_EVER` it is unknown."""
    count: Count = 0
    """Number of reports since the newest mark."""
    threshold: int = 0
    """Number of reports that the next mark needs. 0 if no report came since the newest mark."""
    recent: dict[int, Count] = field(default_factory=dict)
    """Number of reports since the newest multiple of each span."""
    stretches: list[tuple[int, int]] = field(default_factory=list)
    """Stretches of several panes without a mark inside, from mark to mark, in the order of time."""

    def add(self, start: int, n: Count, crowd: int, lengths: Sequence[int]) -> None:
        """Count the reports of a pane."""
        if not has_reports(n):
            return

        if not self.threshold:
            self.newest_mark = self.newest_until(start, lengths)
        # A stretch over several versions needs the largest crowd of them. With the newest one, a lower crowd revealed
        # smaller groups of older panes in 486 of 2,000 simulations.
        self.threshold = max(self.threshold, crowd)
        self.count = sum_counts(self.count, n)
        self.recent = {span: sum_counts(self.recent.get(span, 0), n) for span in lengths}

    def walk(self, start: int, end: int, lengths: Sequence[int]) -> None:
        """Look for a mark among the edges in (start, end], if no report came since `start`."""
        recent = {span: self.recent.get(span, 0) for span in lengths}
        # Stretches that end at later multiples of a span have no reports, so only the next multiple can be a mark.
        edges = sorted({start // span * span + span for span in lengths}) if self.threshold else []
        for edge in edges:
            if edge <= end and self._is_new_mark(edge, recent, lengths):
                if edge - self.newest_mark > self.pane:
                    self.stretches.append((self.newest_mark, edge))
                self.newest_mark = edge
                self.count = 0
                self.threshold = 0
                break

        self.recent = {span: n if start // span == end // span else 0 for span, n in recent.items()}

    def _is_new_mark(self, edge: int, recent: Mapping[int, Count], lengths: Sequence[int]) -> bool:
        """Whether enough reports came since the newest mark.

        The span that ends at the edge needs as many, because a short window must not take the marks of a long one.
        The longest span does not need them.
        """
        span = next(span for span in lengths if edge % span == 0)
        is_enough = fewest(self.count) >= self.threshold
        return is_enough and (span == lengths[0] or fewest(recent[span]) >= self.threshold)

    def newest_until(self, time: int, lengths: Sequence[int]) -> int:
        """Return the newest mark, if all reports up to a time are counted."""
        if self.threshold:
            return self.newest_mark
        return max(self.newest_mark, *(time // span * span for span in lengths))

    def __contains__(self, edge: int) -> bool:
        """Whether an edge is a mark. Later reports do not change it."""
        if self.threshold and edge > self.newest_mark:
            return False

        index = bisect_right(self.stretches, edge, key=lambda stretch: stretch[1])
        return index == len(self.stretches) or edge <= self.stretches[index][0]


class QueryMarks:
    """The marks of a query. They follow from the panes, each counted once, in the order of time.

    A place is one attribute of one group. The places of group 0 come first, then those of group 1, and so on.
    """

    def __init__(self, versions: Versions, counted_through: int | None = None, places: Sequence[Marks] = ()) -> None:
        self.versions = versions
        self.counted_through = counted_through
        """The end of the newest pane that is counted, or None before the first pane with reports."""
        self.places = list(places) or [Marks(versions.query.pane) for _ in versions.query.domains]
        """The marks of each place. Groups that are not here had no reports yet."""

    @classmethod
    def lost(cls, versions: Versions, time: int) -> "QueryMarks":
        """Return marks that begin at a time, since nobody knows the earlier ones.

        The next mark needs enough reports after that time. With `crowd = 1` every edge was a mark.
        """
        crowds = (version.query.crowd for version in versions.versions if version.first < max(time, 1))
        crowd = max(crowds, default=1)  # no version came before, so no report did
        # Nobody knows the reports before this time. In simulations, marks without new reports revealed small groups.
        threshold = crowd if crowd > 1 else 0
        places = (1 + further_groups(versions.query)) * len(versions.query.domains)
        return cls(versions, time, [Marks(versions.query.pane, threshold=threshold) for _ in range(places)])

    def restart(self, edge: int, place: int) -> None:
        """Take an edge as a mark of one place, and no earlier one. All reports before it are counted."""
        self.advance(edge)
        marks = self.places[place]
        marks.newest_mark = edge
        marks.count = 0
        marks.threshold = 0
        marks.stretches = [(-FOR_EVER, edge)]

    def count(self, pane: int, counts: Sequence[Count]) -> None:
        """Count a pane by the number of reports of each place. Nothing happens if it is counted already."""
        if self.counted_through is None and any(has_reports(n) for n in counts):
            self.counted_through = pane
        if self.counted_through is None or pane < self.counted_through:
            return

        self.advance(pane)
        query = self.versions.at(pane).query
        lengths = spans(query)
        self.places += [Marks(query.pane) for _ in counts[len(self.places) :]]
        for marks, n in zip(self.places, counts, strict=False):
            marks.add(pane, n, query.crowd, lengths)
        self.advance(pane + query.pane)

    def advance(self, time: int) -> None:
        """Find the marks up to a time. All reports before it are counted. An edge follows the version of its pane."""
        while self.counted_through is not None and self.counted_through < time:
            version_starts = (version.first for version in self.versions.versions)
            end = min([time, *(start for start in version_starts if start > self.counted_through)])
            lengths = spans(self.versions.at(self.counted_through).query)
            for marks in self.places:
                marks.walk(self.counted_through, end, lengths)
            self.counted_through = end

    def withheld(self, start: int | None, end: int, counts: Sequence[Count]) -> tuple[Withheld | None, ...]:
        """Return for each place why a window with so many reports shows no values, or None if it shows them.

        `start` is None for `all`, which always begins at a mark.
        """
        crowd = self.versions.at(end - self.versions.query.pane).query.crowd
        reasons: list[Withheld | None] = []
        for marks, n in zip(self.places, counts, strict=False):
            if fewest(n) < crowd:
                reasons.append("small")
            elif end in marks and (start is None or start in marks):
                reasons.append(None)
            else:
                reasons.append("held")
        return tuple(reasons)

    def newest_after(self, start: int) -> list[int | None]:
        """Return the newest mark of each place, or None if `start` is no mark or no later time is one."""
        time = 0 if self.counted_through is None else self.counted_through
        lengths = spans(self.versions.at(time - self.versions.query.pane).query)

        result: list[int | None] = []
        for marks in self.places:
            newest_mark = marks.newest_until(time, lengths)
            result.append(newest_mark if start in marks and newest_mark > start else None)
        return result

    def forget(self, start: int, end: int, steps: Collection[int]) -> None:
        """Forget stretches that matter to no window to come.

        These windows start at `start` or later, at multiples of `steps`. They end at `end` or later.
        """

        def matters(stretch: tuple[int, int]) -> bool:
            # Only a stretch with an edge inside can withhold a window.
            stretch_start, stretch_end = stretch
            has_start = any(stretch_start // step * step + step < stretch_end for step in steps)
            return stretch_end > start and (stretch_end > end or has_start)

        for marks in self.places:
            marks.stretches = [stretch for stretch in marks.stretches if matters(stretch)]

    def encode(self) -> bytes:
        """Return the marks as bytes. The times of stretches are differences, which take less space."""
        rows = []
        for marks in self.places:
            times = [time - previous for previous, time in pairwise([0, *chain.from_iterable(marks.stretches)])]
            rows.append([marks.newest_mark, marks.count, marks.threshold, sorted(marks.recent.items()), times])
        return orjson.dumps({"through": self.counted_through, "marks": rows})


class _OtherForm(Exception):
    """Marks whose counts have no parts, as an older release wrote them of numbers."""


def decode(data: bytes, versions: Versions) -> QueryMarks | None:
    """Return the marks that `encode` has written, or raise a ReportError.

    None if they count reports in another form. They begin again then, like lost ones.
    """
    attributes = len(versions.query.domains)
    parts = versions.query.oracle.count_parts
    try:
        head = orjson.loads(data)
        counted_through = head["through"]
        rows = head["marks"]
        _check_whole(0 if counted_through is None else counted_through)
        marks = [_read(row, versions.query.pane, parts[place % attributes]) for place, row in enumerate(rows)]
    except _OtherForm:
        return None
    except (ValueError, TypeError, KeyError) as error:
        raise ReportError(f"the marks are unreadable: {error!r}") from error

    if len(rows) % attributes or not 0 < len(rows) <= attributes * (1 + further_groups(versions.query)):
        raise ReportError(f"the marks have {len(rows)} places, which query {versions.query.name} does not have")
    return QueryMarks(versions, counted_through, marks)


def _read(row: list[Any], pane: int, parts: int) -> Marks:
    newest_mark, stored_count, threshold, recent, differences = row
    _check_whole(newest_mark, threshold, *(span for span, _ in recent), *differences)
    count = _count_of(stored_count, parts)
    recent_counts = {span: _count_of(n, parts) for span, n in recent}
    if threshold < 0 or any(fewest(n) < 0 for n in (count, *recent_counts.values())):
        raise ValueError("counts below 0")

    # `__contains__` looks for a stretch by halves, which finds the wrong one if they are out of order.
    times = list(accumulate(differences))
    if len(times) % 2 or times != sorted(times):
        raise ValueError("times out of order")
    stretches = list(zip(times[::2], times[1::2], strict=True))
    return Marks(pane, newest_mark, count, threshold, recent_counts, stretches)


def _count_of(value: Any, parts: int) -> Count:
    """Return the count of reports, one number or one for each part."""
    if isinstance(value, list):
        _check_whole(*value)
        if len(value) != parts:
            raise ValueError(f"a count of {parts} parts is expected")
        return tuple(value)

    _check_whole(value)
    number: int = value
    # A count begins with 0 before it has parts.
    if number and parts > 1:
        raise _OtherForm
    return number


def _check_whole(*numbers: object) -> None:
    if any(type(number) is not int or abs(number) > 2 * FOR_EVER for number in numbers):
        raise TypeError("a whole number is expected")
