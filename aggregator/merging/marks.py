"""The marks of a query: the times at which windows with values may begin and end, for each attribute and group.

Between two marks lie no reports, or at least `crowd`. A window shows its values only if it begins and ends at
marks. So everything that follows from the published windows is about whole stretches between marks, and never
about a smaller group. The marks depend only on the number of reports in each pane, in the order of time.

An edge is a time that may become a mark: a multiple of a span. The spans are the sizes and steps of the windows.
"""

import math
from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain, pairwise
from operator import add
from typing import Any, Literal

import orjson

from aggregator.records.span import all_step
from aggregator.tallies.group_cells import further_groups
from hubbub.definitions.versions import FOR_EVER, Versions
from oracles.errors import ReportError
from oracles.query import Query

Withheld = Literal["small", "held"]
"""The reason why a window shows no values: it has too few reports, or it does not begin and end at marks."""


Count = int | tuple[int, ...]
"""A number of reports, or one for each level and map of unknown strings. The smallest one counts."""


def fewest(count: Count) -> int:
    """Return the smallest number of a count."""
    return count if isinstance(count, int) else min(count)


def _sum(count: Count, other: Count) -> Count:
    if isinstance(count, int) and isinstance(other, int):
        return count + other
    one, two = ([each] if isinstance(each, int) else each for each in (count, other))
    return tuple(map(add, one * len(two) if len(one) == 1 else one, two))


def spans(query: Query) -> list[int]:
    """Return the lengths of time whose multiples are the edges of a query, the longest first."""
    lengths: set[int] = set()
    for window in query.windows:
        lengths |= {window.size, window.step, math.gcd(window.size, window.step)} if window.step else {all_step(query)}
    return sorted(lengths, reverse=True)


@dataclass
class Marks:
    """The marks of one attribute of one group."""

    pane: int
    newest: int = -FOR_EVER
    """The mark before the newest reports. With `-FOR_EVER` it is unknown."""
    count: Count = 0
    """Number of reports since the newest mark."""
    least: int = 0
    """Number of reports that the next mark needs. 0 if no report came since the newest mark."""
    recent: dict[int, Count] = field(default_factory=dict)
    """Number of reports since the newest multiple of each span."""
    stretches: list[tuple[int, int]] = field(default_factory=list)
    """Stretches of several panes without a mark inside, from mark to mark, in the order of time."""

    def add(self, start: int, n: Count, crowd: int, lengths: Sequence[int]) -> None:
        """Count the reports of a pane."""
        if n if isinstance(n, int) else any(n):
            if not self.least:
                self.newest = self.newest_until(start, lengths)
            self.least = max(self.least, crowd)
            self.count = _sum(self.count, n)
            self.recent = {span: _sum(self.recent.get(span, 0), n) for span in lengths}

    def walk(self, since: int, through: int, lengths: Sequence[int]) -> None:
        """Look for a mark among the edges in (since, through], if no report came since `since`.

        A mark needs enough reports since the newest one. The span that ends there needs as many, so that no short
        window takes the marks of a long one. The longest span does not need them.
        """
        recent = {span: self.recent.get(span, 0) for span in lengths}
        for edge in sorted({since // span * span + span for span in lengths}) if self.least else ():
            span = next(span for span in lengths if edge % span == 0)
            is_enough = fewest(self.count) >= self.least
            if edge <= through and is_enough and (span == lengths[0] or fewest(recent[span]) >= self.least):
                if edge - self.newest > self.pane:
                    self.stretches.append((self.newest, edge))
                self.newest, self.count, self.least = edge, 0, 0
                break
        self.recent = {span: n if since // span == through // span else 0 for span, n in recent.items()}

    def newest_until(self, through: int, lengths: Sequence[int]) -> int:
        """Return the newest mark, if all reports up to the time `through` are counted."""
        return self.newest if self.least else max(self.newest, *(through // span * span for span in lengths))

    def __contains__(self, edge: int) -> bool:
        """Whether an edge is a mark. Later reports do not change it."""
        if self.least and edge > self.newest:
            return False
        at = bisect_right(self.stretches, edge, key=lambda stretch: stretch[1])
        return at == len(self.stretches) or edge <= self.stretches[at][0]


class QueryMarks:
    """The marks of a query. They follow from the panes, each counted once, in the order of time.

    A place is one attribute of one group. The places of group 0 come first, then those of group 1, and so on.
    """

    def __init__(self, versions: Versions, through: int | None = None, places: Sequence[Marks] = ()) -> None:
        self.versions = versions
        self.through = through
        """The end of the newest pane that is counted, or None before the first pane with reports."""
        self.places = list(places) or [Marks(versions.query.pane) for _ in versions.query.domains]
        """The marks of each place. Groups that are not here had no reports yet."""

    @classmethod
    def lost(cls, versions: Versions, through: int) -> "QueryMarks":
        """Return marks that begin at a time, since nobody knows the earlier ones.

        The next mark needs enough reports after that time. With `crowd = 1` every edge was a mark.
        """
        crowds = (version.query.crowd for version in versions.versions if version.first < max(through, 1))
        crowd = max(crowds, default=1)  # no version came before, so no report did
        least = crowd if crowd > 1 else 0
        places = (1 + further_groups(versions.query)) * len(versions.query.domains)
        return cls(versions, through, [Marks(versions.query.pane, least=least) for _ in range(places)])

    def restart(self, edge: int, place: int) -> None:
        """Take an edge as a mark of one place, and no earlier one. All reports before it are counted."""
        self.advance(edge)
        marks = self.places[place]
        marks.newest, marks.count, marks.least, marks.stretches = edge, 0, 0, [(-FOR_EVER, edge)]

    def count(self, pane: int, counts: Sequence[Count]) -> None:
        """Count a pane by the number of reports of each place. Nothing happens if it is counted already."""
        if self.through is None and any(n if isinstance(n, int) else any(n) for n in counts):
            self.through = pane
        if self.through is None or pane < self.through:
            return
        self.advance(pane)
        query = self.versions.at(pane).query
        lengths = spans(query)
        self.places += [Marks(query.pane) for _ in counts[len(self.places) :]]
        for marks, n in zip(self.places, counts, strict=False):
            marks.add(pane, n, query.crowd, lengths)
        self.advance(pane + query.pane)

    def advance(self, through: int) -> None:
        """Find the marks up to a time. All reports before it are counted. An edge follows the version of its pane."""
        while self.through is not None and self.through < through:
            firsts = (version.first for version in self.versions.versions)
            end = min([through, *(first for first in firsts if first > self.through)])
            lengths = spans(self.versions.at(self.through).query)
            for marks in self.places:
                marks.walk(self.through, end, lengths)
            self.through = end

    def withheld(self, start: int | None, end: int, counts: Sequence[Count]) -> tuple[Withheld | None, ...]:
        """Return for each place why a window with so many reports shows no values, or None if it shows them.

        `start` is None for `all`, which always begins at a mark.
        """
        crowd = self.versions.at(end - self.versions.query.pane).query.crowd
        return tuple(
            "small" if fewest(n) < crowd else None if end in marks and (start is None or start in marks) else "held"
            for marks, n in zip(self.places, counts, strict=False)
        )

    def newest_after(self, start: int) -> list[int | None]:
        """Return the newest mark of each place, or None if `start` is no mark or no later time is one."""
        through = 0 if self.through is None else self.through
        lengths = spans(self.versions.at(through - self.versions.query.pane).query)
        newest = [marks.newest_until(through, lengths) for marks in self.places]
        return [
            mark if start in marks and mark > start else None for marks, mark in zip(self.places, newest, strict=True)
        ]

    def forget(self, start: int, end: int, steps: Collection[int]) -> None:
        """Forget stretches that matter to no window to come.

        These windows start at `start` or later, at multiples of `steps`. They end at `end` or later.
        """
        for marks in self.places:
            marks.stretches = [
                (first, last)
                for first, last in marks.stretches
                if last > start and (last > end or any(first // step * step + step < last for step in steps))
            ]

    def encode(self) -> bytes:
        """Return the marks as bytes. The times of stretches are differences, which take less space."""
        rows = []
        for marks in self.places:
            times = [later - earlier for earlier, later in pairwise([0, *chain.from_iterable(marks.stretches)])]
            rows.append([marks.newest, marks.count, marks.least, sorted(marks.recent.items()), times])
        return orjson.dumps({"through": self.through, "marks": rows})


def decode(data: bytes, versions: Versions) -> QueryMarks:
    """Return the marks that `encode` has written, or raise a ReportError."""
    try:
        head = orjson.loads(data)
        through, rows, attributes = head["through"], head["marks"], len(versions.query.domains)
        _check_whole(0 if through is None else through)
        parts = 1 if versions.query.strings is None else versions.query.strings.parts
        marks = [_read(versions.query.pane, parts, *row) for row in rows]
    except (ValueError, TypeError, KeyError) as error:
        raise ReportError(f"the marks are unreadable: {error!r}") from error
    if len(rows) % attributes or not 0 < len(rows) <= attributes * (1 + further_groups(versions.query)):
        raise ReportError(f"the marks have {len(rows)} places, which query {versions.query.name} does not have")
    return QueryMarks(versions, through, marks)


def _read(
    pane: int, parts: int, newest: int, count: Any, needed: int, recent: list[tuple[int, Any]], differences: list[int]
) -> Marks:
    _check_whole(newest, needed, *(span for span, _ in recent), *differences)
    times = list(accumulate(differences))
    count, recent_counts = _count_of(count, parts), {span: _count_of(n, parts) for span, n in recent}
    if len(times) % 2 or times != sorted(times) or min(needed, *map(fewest, (count, *recent_counts.values())), 0) < 0:
        raise ValueError("counts below 0, or times out of order")
    stretches = list(zip(times[::2], times[1::2], strict=True))
    return Marks(pane, newest, count, needed, recent_counts, stretches)


def _count_of(value: Any, parts: int) -> Count:
    """Return the count of reports, one number or one for each part."""
    if isinstance(value, list):
        _check_whole(*value)
        if len(value) != parts:
            raise ValueError(f"a count of {parts} parts is expected")
        return tuple(value)
    _check_whole(value)
    number: int = value
    return number


def _check_whole(*numbers: object) -> None:
    if any(type(number) is not int or abs(number) > 2 * FOR_EVER for number in numbers):
        raise TypeError("a whole number is expected")
