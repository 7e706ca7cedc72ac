"""The windows of a query. They are unions of panes, and become final as panes close.

A window is a running sum. Each pane is added once. A hopping window subtracts a pane that it has left, and a
tumbling window starts again from zero. The sums are integers, so they stay exact. The panes of a hopping
window stay in a queue until the window has left them. For other windows the queue holds only the panes
that are not added yet. After a restart a kind of window needs a Position and the panes from `needed_from` on.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np

from aggregator.merging.blocks import BlockSpan
from aggregator.merging.marks import Withheld
from aggregator.merging.pane_queue import PaneQueue, PaneStore
from aggregator.records.span import Span
from aggregator.tallies.snapshot import Snapshot, Sum
from hubbub.definitions.versions import FOR_EVER, PublicationInterval
from oracles.query.settings import Window

MEMORY_LIMIT = 1 << 20
"""Most bytes of the panes of a window in memory. The panes of longer windows go to the store."""
ENCODED_BYTES = 2
"""Approximate bytes of an integer in an encoded tally, which has 1 to 4."""


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
    withheld: Sequence[Withheld | None] = ()
    """The reason for which the window shows no values, for each place. See QueryMarks."""
    blocks: Sequence[BlockSpan] = ()
    """The blocks that it completes, the shorter ones first."""


class OpenWindow(NamedTuple):
    """A window that is not final, with its panes up to a mark."""

    span: Span
    through: int
    """The mark."""
    total: Snapshot
    withheld: Sequence[Withheld | None]
    """None for each place of which it shows values."""
    totals: Sequence[bool]
    """Whether the total of each attribute ends at this mark. Without groups it does if its values are shown."""


class SizedWindows:
    """Tumbling and hopping windows: [k step, k step + size)."""

    def __init__(
        self,
        interval: PublicationInterval,
        cells: int,
        position: Position | None = None,
        store: PaneStore | None = None,
    ) -> None:
        self.window, self.since, self.until = interval
        self._first = -(-self.since // self.window.step) * self.window.step
        """The start of the first window."""
        self._last = position.end if position else None
        """The end of the last final window."""
        self._cells = cells
        self._hops = self.window.kind == "hopping"
        self._queue = PaneQueue(store)
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
                yield ClosedWindow(self._span(self._end), self._sum.snapshot(), Position(self._end))

    def count_due(self, through: int, later: Sequence[int]) -> int:
        """Return the number of windows with reports that end at `through` or before, and are not yielded yet.

        `later` are the starts of closed panes with reports that are not put here yet.
        """
        size, step = self.window.size, self.window.step
        last = self._first + size - step if self._last is None else self._last
        starts = [self._oldest] if self._inside and not self._hops and self._sum.n else []
        starts += [*self._queue.starts_with_reports(), *later]
        return count_ends(starts, size, step, last, min(through, self.until))

    def next_end(self, later: Iterable[int]) -> int | None:
        """Return the end of the next window with reports, due or not, or None if there is none. See `count_due`."""
        size, step = self.window.size, self.window.step
        last = self._first + size - step if self._last is None else self._last
        starts = [self._oldest] if self._inside and not self._hops and self._sum.n else []
        return first_end(chain(starts, self._queue.lazy_starts(), later), size, step, last, self.until)

    def current(self) -> tuple[Span, Sum] | None:
        """Return the next window with its panes so far, if it has reports. `advance` has yielded all finals."""
        return (self._span(self._end), self._sum) if self._sum.n and self._end <= self.until else None

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


def order(span: Span) -> tuple[int, bool, int, int]:
    """Return the place of a final: by its end, then `all` first, then the larger size, then the larger step."""
    window = span.window
    return span.end, window.kind != "all", -window.size, -window.step


def needs_store(window: Window, pane: int, cells: int) -> bool:
    """Whether the panes of a kind of window are too large for memory."""
    return ENCODED_BYTES * cells * max(1, window.size // pane) > MEMORY_LIMIT


def count_ends(starts: Iterable[int], size: int, step: int, last: int, through: int) -> int:
    """Return the number of ends after `last` and up to `through` of windows [k step, k step + size) with these panes.

    `starts` are the starts of the panes in rising order.
    """
    newest = (through - size) // step * step + size
    runs = _runs_of_ends(starts, size, step, last)
    return sum((min(end, newest) - first) // step + 1 for first, end in runs if first <= newest)


def first_end(starts: Iterable[int], size: int, step: int, last: int, through: int) -> int | None:
    """Return the first of the ends that `count_ends` counts, or None if there is none."""
    first = next((first for first, _ in _runs_of_ends(starts, size, step, last)), None)
    return None if first is None or first > through else first


def _runs_of_ends(starts: Iterable[int], size: int, step: int, last: int) -> Iterator[tuple[int, int]]:
    """Yield the first and the last end of each run of windows with these panes, for ends after `last`."""
    for start in starts:
        first = max((start - size) // step * step + step + size, (last - size) // step * step + step + size)
        end = start // step * step + size
        if end >= first:
            yield first, end
            last = end
