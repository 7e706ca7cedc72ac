"""Windows that are not final, with their panes up to a mark."""

from collections.abc import Iterator, Sequence

import numpy as np

from aggregator.merging.marks import QueryMarks, Withheld
from aggregator.merging.place_counts import answer_counts, fewest
from aggregator.merging.windows import OpenWindow
from aggregator.records.span import Span
from aggregator.tallies.group_cells import subtract
from aggregator.tallies.snapshot import PARTIAL, Snapshot, Sum
from hubbub.definitions.versions import Versions


class OpenWindows:
    """For each group the sum of the panes since each newest mark of an attribute that has reports after it.

    An open window without these panes ends at a mark.
    """

    def __init__(self, marks: QueryMarks, cells: int, attributes: int) -> None:
        self._marks = marks
        self._cells = cells
        self._attributes = attributes
        self._sums: dict[tuple[int, int], Sum] = {}

    def add(self, pane: int, parts: Sequence[Snapshot]) -> None:
        """Add a pane by the parts of its groups. The marks have counted it."""
        places = enumerate(self._marks.places)
        keys = {(place // self._attributes, marks.newest_mark) for place, marks in places if marks.threshold}
        # A sum of an older mark goes, because no open window ends there any more.
        self._sums = {key: self._sums.get(key) or Sum(np.zeros(self._cells, np.int64)) for key in keys}
        for (group, mark), panes in self._sums.items():
            if pane >= mark and group < len(parts):
                panes.add(parts[group])

    def up_to_marks(self, span: Span, sums: Sum, versions: Versions) -> Iterator[OpenWindow]:
        """Yield a window once for each mark at which an attribute shows values. `sums` has its panes so far."""
        newest_marks = self._marks.newest_after(span.start)
        crowd = versions.at(span.end - versions.query.pane).query.crowd

        stretches: list[tuple[int, Snapshot, list[bool]]] = []
        ends: dict[int, int] = {}
        """The newest mark at which each attribute of any group is shown."""
        for mark in sorted({newest_mark for newest_mark in newest_marks if newest_mark is not None}):
            total = self._up_to(mark, sums)
            counts = answer_counts(versions.query, total)
            is_visible = [
                newest_mark == mark and fewest(n) >= crowd for newest_mark, n in zip(newest_marks, counts, strict=False)
            ]
            if any(is_visible):
                stretches.append((mark, flagged(total, span.start, mark, versions), is_visible))
                ends |= {place % self._attributes: mark for place, is_shown in enumerate(is_visible) if is_shown}

        for mark, total, is_visible in stretches:
            reasons: list[Withheld | None] = [None if is_shown else "held" for is_shown in is_visible]
            totals = [ends.get(attribute) == mark for attribute in range(self._attributes)]
            yield OpenWindow(span, mark, total, reasons, totals)

    def _up_to(self, mark: int, sums: Sum) -> Snapshot:
        """Return a sum without the panes after a mark. Only groups whose newest mark it is lose them."""
        excluded = {group: panes for (group, newest_mark), panes in self._sums.items() if newest_mark == mark}
        return subtract(sums, excluded, self._cells)


def flagged(total: Snapshot, start: int, end: int, versions: Versions) -> Snapshot:
    """Return a total with the flag of a stretch in which the rules of counting changed."""
    return total.with_flags(PARTIAL) if versions.is_partial(start, end) else total
