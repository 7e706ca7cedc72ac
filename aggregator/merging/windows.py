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
        self.window = interval.window
        self.since = interval.since
        self.until = interval.until
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
        needed_from = self.needed_from
        if (needed_from is not None and pane < needed_from) or pane >= self.until:
            return

        if not self._inside and not len(self._queue):
            self._end = self._end_after(pane)
        enters = len(self._queue) == self._next_place and pane < self._end
        # A pane inside a tumbling window is never subtracted. The queue would only hold its memory.
        if self._hops or not enters:
            self._queue.append(pane, snapshot)
        if enters:
            self._count(pane, snapshot)

    def advance(self, limit: int) -> Iterator[ClosedWindow]:
        """Yield the windows with reports that end at `limit` or before, in order."""
        while self._inside or len(self._queue):
            self._move()
            if self._end > self.until:
                # No whole window of this interval holds these panes. They belong to the next interval.
                self._clear()
                self._queue.clear()
            if self._end > min(limit, self.until):
                break

            self._last = self._end
            if self._sum.n:
                yield ClosedWindow(self._span(self._end), self._sum.snapshot(), Position(self._end))

    def count_due(self, limit: int, waiting: Sequence[int]) -> int:
        """Return the number of windows with reports that end at `limit` or before, and are not yielded yet.

        `waiting` are the starts of closed panes with reports that are not put here yet.
        """
        return count_ends(
            [*self._summed_pane(), *self._queue.starts_with_reports(), *waiting],
            size=self.window.size,
            step=self.window.step,
            last_end=self._last_end,
            limit=min(limit, self.until),
        )

    def next_end(self, waiting: Iterable[int]) -> int | None:
        """Return the end of the next window with reports, due or not, or None if there is none. See `count_due`."""
        return first_end(
            chain(self._summed_pane(), self._queue.lazy_starts(), waiting),
            size=self.window.size,
            step=self.window.step,
            last_end=self._last_end,
            limit=self.until,
        )

    def _summed_pane(self) -> list[int]:
        """Return the start of the oldest pane of a tumbling window, if it has reports. The queue has no such panes."""
        return [self._oldest] if self._inside and not self._hops and self._sum.n else []

    @property
    def _last_end(self) -> int:
        """The end of the last final window, or of the window before the first one."""
        return self._first + self.window.size - self.window.step if self._last is None else self._last

    def current(self) -> tuple[Span, Sum] | None:
        """Return the next window with its panes so far, if it has reports. `advance` has yielded all finals."""
        if not self._sum.n or self._end > self.until:
            return None
        return self._span(self._end), self._sum

    def _move(self) -> None:
        """Move `_sum` to the next window that holds a pane."""
        self._end = self._end_after(self._oldest if self._inside else self._queue.start())
        self._leave(self._end - self.window.size)
        self._enter()

    def _leave(self, start: int) -> None:
        """Subtract the panes before `start`."""
        if not self._hops:
            # Tumbling windows do not overlap, so all panes leave at once, and nothing is subtracted.
            if self._inside and self._oldest < start:
                self._clear()
            return

        while self._inside and self._queue.start() < start:
            self._sum.add(self._queue.popleft(), -1)
            self._inside -= 1
        if self._inside:
            self._oldest = self._queue.start()

    def _enter(self) -> None:
        """Add the panes of the queue that are in the window."""
        while len(self._queue) > self._next_place:
            index = self._next_place
            pane = self._queue.start(index)
            if pane >= self._end:
                break
            self._count(pane, self._queue[index] if self._hops else self._queue.popleft())

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
        step = self.window.step
        end = max(self._first + self.window.size, _end_behind(pane, self.window.size, step))
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


def count_ends(starts: Iterable[int], *, size: int, step: int, last_end: int, limit: int) -> int:
    """Return the number of ends in (last_end, limit] of windows [k step, k step + size) with these panes.

    `starts` are the starts of the panes in rising order.
    """
    newest_end = (limit - size) // step * step + size
    runs = _runs_of_ends(starts, size, step, last_end)
    return sum((min(end, newest_end) - start) // step + 1 for start, end in runs if start <= newest_end)


def first_end(starts: Iterable[int], *, size: int, step: int, last_end: int, limit: int) -> int | None:
    """Return the first of the ends that `count_ends` counts, or None if there is none."""
    run = next(_runs_of_ends(starts, size, step, last_end), None)
    return None if run is None or run[0] > limit else run[0]


def _runs_of_ends(starts: Iterable[int], size: int, step: int, last_end: int) -> Iterator[tuple[int, int]]:
    """Yield the first and the last end of each run of windows with these panes, for ends after `last_end`."""
    for start in starts:
        # Runs of neighbouring panes overlap. Counted from each pane alone, their windows would count twice.
        run_start = max(_end_behind(start, size, step), _end_behind(last_end, size, step))
        run_end = start // step * step + size
        if run_end >= run_start:
            yield run_start, run_end
            last_end = run_end


def _end_behind(time: int, size: int, step: int) -> int:
    """Return the first end of a window after a time."""
    return (time - size) // step * step + step + size
