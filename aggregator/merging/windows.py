"""The windows of a query. They are unions of panes, and become final as panes close.

A window is a running sum. Each pane is added once. A hopping window subtracts a pane that it has left, and a
tumbling window starts again from zero. The sums are integers, so they stay exact. The panes of a hopping
window stay in a queue until the window has left them. For other windows the queue holds only the panes
that are not added yet. After a restart a kind of window needs a Position and the panes from `needed_from` on.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from aggregator.merging.pane_queue import AnswerCounts, PaneQueue, PaneStore, report_count
from aggregator.tallies.snapshot import Snapshot, Sum, merge_snapshots
from hubbub.definitions.versions import FOR_EVER, PublicationInterval
from oracles.query import Query
from oracles.query.settings import Window
from oracles.types import Ints

NO_PANES: Ints = np.zeros((0, 2), np.int64)
IDLE = 360
"""Panes without reports after which `all` publishes nothing until the next report."""
MEMORY_LIMIT = 1 << 20
"""Most bytes of the panes of a window in memory. The panes of longer windows go to the store."""
ENCODED_BYTES = 2
"""Approximate bytes of an integer in an encoded tally, which has 1 to 4."""
PUBLISH_SECONDS = 10
"""Seconds that workers may need from the time when a window can be final to its record."""


class Span(NamedTuple):
    """One window: [start, end) in Unix seconds."""

    window: Window
    start: int
    end: int

    def independent(self, n: int, query: Query) -> int:
        """Return how many of the window's n reports are independent, whatever values the clients have."""
        return n // query.repeats(self.start, self.end)


@dataclass(frozen=True, eq=False)
class Position:
    """The position of one kind of window. All windows that end at `end` or before are done."""

    end: int
    start: int | None = None
    """The start of `all`. None for other kinds."""
    newest: int | None = None
    """The end of the newest pane with reports in `all`. None for other kinds."""
    total: Snapshot | None = None
    """The total of `all` up to `end`. None for other kinds."""


class ClosedWindow(NamedTuple):
    """A window that is final."""

    span: Span
    total: Snapshot
    position: Position
    """The position after it."""
    panes: Ints = NO_PANES
    """A row for each pane of a hopping window: its start, and the answer count of each attribute."""


Panes = Mapping[int, Snapshot]
"""Snapshots by the start of their pane."""


class SizedWindows:
    """Tumbling and hopping windows: [k step, k step + size)."""

    def __init__(
        self,
        interval: PublicationInterval,
        cells: int,
        position: Position | None = None,
        store: PaneStore | None = None,
        answer_counts: AnswerCounts = report_count,
    ) -> None:
        self.window, self.since, self.until = interval
        self._first = -(-self.since // self.window.step) * self.window.step
        """The start of the first window."""
        self._last = position.end if position else None
        """The end of the last final window."""
        self._cells = cells
        self._hops = self.window.kind == "hopping"
        self._queue = PaneQueue(store, answer_counts)
        """The panes to come. For hopping windows the panes inside are before them."""
        self._inside = 0
        """Number of panes in `_sum`."""
        self._oldest = 0
        """The start of the first pane inside."""
        self._sum = Sum(np.zeros(cells, np.int64))
        self._end = 0
        """The end of the window of `_sum`."""

    @property
    def needed_from(self) -> int | None:
        """The start of the first pane that a window to come needs, or None if it is unknown."""
        if self._last is None:
            return self._first if self.since > -FOR_EVER else None
        return max(self._first, self._last + self.window.step - self.window.size)

    def put(self, pane: int, snapshot: Snapshot) -> None:
        """Add a pane that is closed on all partitions. It is later than all panes before it."""
        first = self.needed_from
        if (first is None or pane >= first) and pane < self.until:
            if not self._inside and not len(self._queue):
                self._end = self._end_after(pane)
            enters = len(self._queue) == self._next_place and pane < self._end
            if self._hops or not enters:
                self._queue.append(pane, snapshot)
            if enters:
                self._count(pane, snapshot)

    def advance(self, through: int) -> Iterator[ClosedWindow]:
        """Yield the windows with reports that end at `through` or before, in order."""
        while self._inside or len(self._queue):
            self._move()
            if self._end > self.until:
                self._clear()
                self._queue.clear()
            if self._end > min(through, self.until):
                break
            self._last = self._end
            if self._sum.n:
                position = Position(self._end)
                panes = self._queue.answers(self._inside) if self._hops else NO_PANES
                yield ClosedWindow(self._span(self._end), self._sum.snapshot(), position, panes)

    def count_due(self, through: int, later: Sequence[int]) -> int:
        """Return the number of windows with reports that end at `through` or before, and are not yielded yet.

        `later` are the starts of closed panes with reports that are not put here yet.
        """
        size, step = self.window.size, self.window.step
        last = self._first + size - step if self._last is None else self._last
        starts = [self._oldest] if self._inside and not self._hops and self._sum.n else []
        starts += [*self._queue.starts_with_reports(), *later]
        return _count_ends(starts, size, step, last, min(through, self.until))

    def provisional(self, through: int | None, panes: Panes) -> tuple[Span, Snapshot] | None:
        """Return the next window with reports, and its tally so far. `panes` are the panes that are not closed yet."""
        panes = _within(panes, self._first, self.until)
        end = self._end
        if not self._sum.n:
            first = _first_pane(sorted(panes.items()))
            if first is None:
                return None
            end = self._end_after(first if through is None else max(first, through))
        if end > self.until:
            return None
        span = self._span(end)
        if end == self._end:
            return span, _with_panes(self._sum, panes, span)
        return span, _with_panes(Sum(np.zeros_like(self._sum.counts)), {**self._queued_inside(), **panes}, span)

    def _queued_inside(self) -> Panes:
        """Return the panes inside, which have no reports. Later tumbling windows hold none of them."""
        return {self._queue.start(at): self._queue[at] for at in range(self._inside)} if self._hops else {}

    def _move(self) -> None:
        """Move `_sum` to the next window that holds a pane."""
        self._end = self._end_after(self._oldest if self._inside else self._queue.start())
        self._leave(self._end - self.window.size)
        self._enter()

    def _leave(self, start: int) -> None:
        """Subtract the panes before `start`."""
        if not self._hops and self._inside and self._oldest < start:
            self._clear()
        while self._hops and self._inside and self._queue.start() < start:
            self._sum.add(self._queue.popleft(), -1)
            self._inside -= 1
        if self._hops and self._inside:
            self._oldest = self._queue.start()

    def _enter(self) -> None:
        """Add the panes of the queue that are in the window."""
        while len(self._queue) > (at := self._next_place) and (pane := self._queue.start(at)) < self._end:
            self._count(pane, self._queue[at] if self._hops else self._queue.popleft())

    @property
    def _next_place(self) -> int:
        """The place in the queue of the first pane that is not in `_sum`."""
        return self._inside if self._hops else 0

    def _count(self, pane: int, snapshot: Snapshot) -> None:
        """Add the next pane of the window to `_sum`."""
        if not self._inside:
            self._oldest = pane
        self._sum.add(snapshot)
        self._inside += 1

    def _clear(self) -> None:
        self._inside = 0
        self._sum = Sum(np.zeros(self._cells, np.int64))

    def _end_after(self, pane: int) -> int:
        """Return the end of the first window to come that holds this pane."""
        size, step = self.window.size, self.window.step
        end = max(self._first + size, (pane - size) // step * step + step + size)
        return end if self._last is None else max(end, self._last + step)

    def _span(self, end: int) -> Span:
        return Span(self.window, end - self.window.size, end)


class CumulativeWindow:
    """The window `all`, from the first pane with reports on. It is final at the end of each pane."""

    def __init__(
        self,
        interval: PublicationInterval,
        pane: int,
        cells: int,
        position: Position | None = None,
        store: PaneStore | None = None,
    ) -> None:
        self.window, self.since, self.until = interval
        self._pane = pane
        self._queue = PaneQueue(store)
        """The panes to come."""
        self._sum = Sum(np.zeros(cells, np.int64))
        # An earlier position belongs to an earlier publication interval.
        self._position = position if position is not None and position.end > self.since else None
        if self._position is not None and self._position.total is not None:
            self._sum.add(self._position.total)

    @property
    def needed_from(self) -> int | None:
        """The start of the first pane that a window to come needs, or None if it is unknown."""
        if self._position is None:
            return self.since if self.since > -FOR_EVER else None
        return self._position.end

    def put(self, pane: int, snapshot: Snapshot) -> None:
        """Add a pane that is closed on all partitions. It is later than all panes before it."""
        has_panes, first = self._position is not None or bool(len(self._queue)), self.needed_from
        if (snapshot.n or has_panes) and (first is None or pane >= first) and pane < self.until:
            self._queue.append(pane, snapshot)

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
        starts += [*self._queue.starts_with_reports(), *later]
        last = -FOR_EVER if at is None else at.end
        return _count_ends(starts, (IDLE + 1) * pane, pane, last, min(through, self.until))

    def provisional(self, through: int | None, panes: Panes) -> tuple[Span, Snapshot] | None:
        """Return the next window, and its tally so far. `panes` are the panes that are not closed yet."""
        del through
        panes = _within(panes, self.since, self.until)
        end = self._next(_first_pane(sorted(panes.items())))
        if end is None or end > self.until:
            return None
        start = self._position.start if self._position is not None else None
        span = Span(self.window, end - self._pane if start is None else start, end)
        return span, _with_panes(self._sum, panes, span)

    def _next(self, pane: int | None) -> int | None:
        """Return the end of the next window, if `pane` is the next one with reports."""
        at = self._position
        if at is not None and at.newest is not None and at.end < at.newest + IDLE * self._pane:
            return at.end + self._pane
        return None if pane is None else pane + self._pane

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


Windows = SizedWindows | CumulativeWindow


def needs_store(window: Window, pane: int, cells: int) -> bool:
    """Whether the panes of a kind of window are too large for memory."""
    return ENCODED_BYTES * cells * max(1, window.size // pane) > MEMORY_LIMIT


def make_windows(
    interval: PublicationInterval,
    pane: int,
    cells: int,
    position: Position | None = None,
    store: PaneStore | None = None,
    answer_counts: AnswerCounts = report_count,
) -> Windows:
    """Return one kind of window of a query, which continues from a position."""
    store = store if needs_store(interval.window, pane, cells) else None
    if interval.window.kind == "all":
        return CumulativeWindow(interval, pane, cells, position, store)
    return SizedWindows(interval, cells, position, store, answer_counts)


def _count_ends(starts: Iterable[int], size: int, step: int, last: int, through: int) -> int:
    """Return the number of ends after `last` and up to `through` of windows [k step, k step + size) with these panes.

    `starts` are the starts of the panes in rising order.
    """
    number = 0
    for start in starts:
        first = max((start - size) // step * step + step + size, (last - size) // step * step + step + size)
        end = min(start // step * step, (through - size) // step * step) + size
        if end >= first:
            number, last = number + (end - first) // step + 1, end
    return number


def _within(panes: Panes, since: int, until: int) -> Panes:
    return {pane: snapshot for pane, snapshot in panes.items() if since <= pane < until}


def _first_pane(panes: Iterable[tuple[int, Snapshot]]) -> int | None:
    """Return the first pane with reports."""
    return next((pane for pane, snapshot in panes if snapshot.n), None)


def _with_panes(total: Sum, panes: Panes, span: Span) -> Snapshot:
    """Return the sum of a window's total and of those `panes` that are in the window."""
    inside = (snapshot for pane, snapshot in panes.items() if span.start <= pane < span.end)
    return merge_snapshots([total.snapshot(), *inside], len(total.counts))


def expected_age(query: Query, window: Window) -> int:
    """Return the age in seconds that the newest final of a kind of window reaches in normal operation."""
    return (window.step or query.pane) + query.lateness + PUBLISH_SECONDS


def shortest_expected_age(query: Query) -> int:
    """Return the age in seconds that the newest final of any kind reaches in normal operation."""
    return min(expected_age(query, window) for window in query.windows)
