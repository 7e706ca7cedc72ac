"""The window `all`. It holds every report since the first one, and so it grows."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain

import numpy as np

from aggregator.merging.pane_queue import PaneQueue, PaneStore
from aggregator.merging.windows import ClosedWindow, Position, count_ends, first_end
from aggregator.records.span import Span
from aggregator.tallies.group_cells import report_counts, without
from aggregator.tallies.snapshot import Snapshot, Sum
from hubbub.definitions.versions import FOR_EVER, PublicationInterval

IDLE = 360
"""Panes without reports after which `all` publishes nothing until the next report."""

IsMark = Callable[[int, int], bool]
"""Whether an edge is a mark of all attributes of a group."""
EndAfter = Callable[[int], int]
"""Returns the end of the first window that holds a pane."""


class CumulativeWindow:
    """The window `all`, from the first pane with reports that begins at a mark. It is final at the end of each pane.

    Its methods are those of SizedWindows. See SearchWindow for unknown strings.
    """

    def __init__(
        self,
        interval: PublicationInterval,
        pane: int,
        cells: int,
        end_after: EndAfter,
        position: Position | None = None,
        store: PaneStore | None = None,
        is_mark: IsMark = lambda _edge, _group: True,
    ) -> None:
        self.window, self.since, self.until = interval
        self._pane = pane
        self._cells = cells
        self._end_after = end_after
        self._is_mark = is_mark
        self._queue = PaneQueue(store)
        """The panes to come."""
        self._sum = Sum(np.zeros(cells, np.int64))
        # An earlier position belongs to an earlier publication interval.
        self._position = position if position is not None and position.end > self.since else None
        self._groups: set[int] = set()
        """The groups with reports in `all`. Another group may only enter at a mark of its own."""
        if self._position is not None and self._position.total is not None:
            self._sum.add(self._position.total)
            self._groups = _groups_of(self._position.total, cells)

    @property
    def needed_from(self) -> int | None:
        """The start of the first pane that a window to come needs, or None if it is unknown."""
        if self._position is None:
            return self.since if self.since > -FOR_EVER else None
        return self._position.end

    def put(self, pane: int, snapshot: Snapshot) -> None:
        """Add a pane that is closed on all partitions. It is later than all panes before it."""
        first = self.needed_from
        if (first is not None and pane < first) or pane >= self.until:
            return
        new = _groups_of(snapshot, self._cells) - self._groups
        # The first pane with reports of a definition always begins at a mark.
        is_first = self._position is None and self.since == -FOR_EVER and not self._has_begun
        late: set[int] = set() if is_first else {group for group in new if not self._is_mark(pane, group)}
        if late:
            snapshot = without(snapshot, late, self._cells)
        if self._has_begun or snapshot.n:
            self._groups |= new - late
            self._queue.append(pane, snapshot)

    @property
    def _has_begun(self) -> bool:
        return bool(len(self._queue)) or (self._position is not None and self._position.start is not None)

    def advance(self, through: int) -> Iterator[ClosedWindow]:
        """Yield the windows that end at `through` or before, in order."""
        through = min(through, self.until)
        while (end := self._next(self._queue.first_with_reports())) is not None and end <= through:
            position = self._enter(end)
            if position.start is not None and position.total is not None:
                yield ClosedWindow(Span(self.window, position.start, end), position.total, position)
        while len(self._queue) and not self._queue.n():
            self._sum.add(self._queue.popleft())  # every later window holds it, and a long idle time would fill memory

    def count_due(self, through: int, later: Sequence[int]) -> int:
        """Return the number of windows that end at `through` or before, and are not yielded yet. See SizedWindows."""
        at, pane = self._position, self._pane
        starts = [] if at is None or at.newest is None else [at.newest - pane]
        starts += [*self._queue.starts_with_reports(), *(later if self._has_begun or at is None else ())]
        last = -FOR_EVER if at is None else at.end
        return count_ends(starts, (IDLE + 1) * pane, pane, last, min(through, self.until))

    def next_end(self, later: Iterable[int]) -> int | None:
        """Return the end of the next window with reports, due or not, or None if there is none. See SizedWindows."""
        at, pane = self._position, self._pane
        starts = [] if at is None or at.newest is None else [at.newest - pane]
        later = later if self._has_begun or at is None else ()
        last = -FOR_EVER if at is None else at.end
        return first_end(chain(starts, self._queue.lazy_starts(), later), (IDLE + 1) * pane, pane, last, self.until)

    def _next(self, pane: int | None) -> int | None:
        """Return the end of the next window, if `pane` is the next one with reports."""
        at = self._position
        if at is not None and at.newest is not None and at.end < at.newest + IDLE * self._pane:
            return at.end + self._pane
        return None if pane is None else self._end_after(pane)

    def _enter(self, end: int) -> Position:
        """Add the panes up to `end`, and return the new position."""
        start, newest = (self._position.start, self._position.newest) if self._position else (None, None)
        while len(self._queue) and (pane := self._queue.start()) < end:
            snapshot = self._queue.popleft()
            self._sum.add(snapshot)
            if snapshot.n:
                start = pane if start is None else start
                newest = pane + self._pane
        self._position = Position(end, start, newest, self._sum.snapshot())
        return self._position


class SearchWindow(CumulativeWindow):
    """The window `all`, which is final at each search for names before which new reports came."""

    def count_due(self, through: int, later: Sequence[int]) -> int:
        """Return the number of windows that end at `through` or before, and are not yielded yet."""
        return len({end for end in self._ends(later) if end <= through})

    def next_end(self, later: Iterable[int]) -> int | None:
        """Return the end of the next window with reports, due or not, or None if there is none."""
        return min(self._ends(later), default=None)

    def _ends(self, later: Iterable[int]) -> set[int]:
        """Return the ends of the windows with reports that are not yielded. `later` are panes to come, in order."""
        at = self._position
        panes = [*self._queue.starts_with_reports(), *(later if self._has_begun or at is None else ())]
        ends = {self._end_after(pane) for pane in panes}
        return {end for end in ends if end <= self.until and (at is None or end > at.end)}

    def _next(self, pane: int | None) -> int | None:
        return None if pane is None else self._end_after(pane)


def _groups_of(snapshot: Snapshot, cells: int) -> set[int]:
    return {group for group, n in enumerate(report_counts(snapshot, cells)) if n}
