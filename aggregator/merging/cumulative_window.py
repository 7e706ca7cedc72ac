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
        self.window = interval.window
        self.since = interval.since
        self.until = interval.until
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
        needed_from = self.needed_from
        if (needed_from is not None and pane < needed_from) or pane >= self.until:
            return

        new_groups = _groups_of(snapshot, self._cells) - self._groups
        # The first pane with reports of a definition always begins at a mark.
        is_first = self._position is None and self.since == -FOR_EVER and not self._has_begun
        if not is_first:
            # From another start, the difference to other windows could be a group that is too small.
            excluded_groups = {group for group in new_groups if not self._is_mark(pane, group)}
            if excluded_groups:
                snapshot = without(snapshot, excluded_groups, self._cells)
                new_groups -= excluded_groups

        if self._has_begun or snapshot.n:
            self._groups |= new_groups
            self._queue.append(pane, snapshot)

    @property
    def _has_begun(self) -> bool:
        return bool(len(self._queue)) or (self._position is not None and self._position.start is not None)

    def advance(self, limit: int) -> Iterator[ClosedWindow]:
        """Yield the windows that end at `limit` or before, in order."""
        limit = min(limit, self.until)
        end = self._next(self._queue.first_with_reports())
        while end is not None and end <= limit:
            position = self._enter(end)
            if position.start is not None and position.total is not None:
                yield ClosedWindow(Span(self.window, position.start, end), position.total, position)
            end = self._next(self._queue.first_with_reports())

        # Every later window holds these panes, and without reports a long idle time would fill the memory with them.
        while len(self._queue) and not self._queue.n():
            self._sum.add(self._queue.popleft())

    def count_due(self, limit: int, waiting: Sequence[int]) -> int:
        """Return the number of windows that end at `limit` or before, and are not yielded yet. See SizedWindows."""
        starts = [*self._newest_pane(), *self._queue.starts_with_reports(), *self._entering(waiting)]
        return count_ends(
            starts,
            size=(IDLE + 1) * self._pane,
            step=self._pane,
            last_end=self._last_end,
            limit=min(limit, self.until),
        )

    def next_end(self, waiting: Iterable[int]) -> int | None:
        """Return the end of the next window with reports, due or not, or None if there is none. See SizedWindows."""
        starts = chain(self._newest_pane(), self._queue.lazy_starts(), self._entering(waiting))
        return first_end(
            starts, size=(IDLE + 1) * self._pane, step=self._pane, last_end=self._last_end, limit=self.until
        )

    def _newest_pane(self) -> list[int]:
        """Return the start of the newest pane with reports in `all`, if there is one."""
        if self._position is None or self._position.newest is None:
            return []
        return [self._position.newest - self._pane]

    def _entering(self, waiting: Iterable[int]) -> Iterable[int]:
        """Return the panes that will enter `all`, or none if it lacks a start."""
        return waiting if self._has_begun or self._position is None else ()

    @property
    def _last_end(self) -> int:
        """The end of the newest window that was yielded."""
        return -FOR_EVER if self._position is None else self._position.end

    def _next(self, pane: int | None) -> int | None:
        """Return the end of the next window, if `pane` is the next one with reports."""
        position = self._position
        if position is not None and position.newest is not None and position.end < position.newest + IDLE * self._pane:
            return position.end + self._pane
        return None if pane is None else self._end_after(pane)

    def _enter(self, end: int) -> Position:
        """Add the panes up to `end`, and return the new position."""
        start = self._position.start if self._position else None
        newest_end = self._position.newest if self._position else None
        while len(self._queue) and self._queue.start() < end:
            pane = self._queue.start()
            snapshot = self._queue.popleft()
            self._sum.add(snapshot)
            if snapshot.n:
                start = pane if start is None else start
                newest_end = pane + self._pane
        self._position = Position(end, start, newest_end, self._sum.snapshot())
        return self._position


class SearchWindow(CumulativeWindow):
    """The window `all`, which is final at each search for names before which new reports came."""

    def count_due(self, limit: int, waiting: Sequence[int]) -> int:
        """Return the number of windows that end at `limit` or before, and are not yielded yet."""
        return len({end for end in self._ends(waiting) if end <= limit})

    def next_end(self, waiting: Iterable[int]) -> int | None:
        """Return the end of the next window with reports, due or not, or None if there is none."""
        return min(self._ends(waiting), default=None)

    def _ends(self, waiting: Iterable[int]) -> set[int]:
        """Return the ends of the windows with reports that are not yielded. `waiting` are panes to come, in order."""
        panes = [*self._queue.starts_with_reports(), *self._entering(waiting)]
        ends = {self._end_after(pane) for pane in panes}
        return {end for end in ends if self._last_end < end <= self.until}

    def _next(self, pane: int | None) -> int | None:
        return None if pane is None else self._end_after(pane)


def _groups_of(snapshot: Snapshot, cells: int) -> set[int]:
    return {group for group, n in enumerate(report_counts(snapshot, cells)) if n}
