"""Windows are unions of panes: which become final as panes close, and what each holds.

A hopping window is kept as a running sum: each pane is added once and taken away once. The sums are
integers, so that they are exact for ever. What a window kind needs to go on after a restart is a
Position and the panes from `needed_from` on.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from aggregator.counting.tally import Snapshot, Sum, merged
from hubbub.definitions.versions import FOR_EVER, Tenure
from oracles.query import Query
from oracles.query.settings import Window

IDLE = 360
"""Panes without reports after which `all` rests until the next report: else a silent year would be written out."""


class Span(NamedTuple):
    """One window: [start, end) in Unix seconds."""

    window: Window
    start: int
    end: int

    def independent(self, n: int, query: Query) -> int:
        """How many of its n reports are independent, whatever their clients' values did."""
        return n // query.repeats(self.start, self.end)


@dataclass(frozen=True, eq=False)
class Position:
    """Where one kind of window stands: all windows that end at `end` or before are done."""

    end: int
    start: int | None = None
    """Of `all`."""
    newest: int | None = None
    """Of `all`: the end of the newest pane with reports."""
    total: Snapshot | None = None
    """Of `all`: everything up to `end`."""


class ClosedWindow(NamedTuple):
    span: Span
    total: Snapshot
    position: Position
    """After it."""
    panes: tuple[tuple[int, Snapshot], ...] = ()
    """Of a hopping window: those that it holds, by start."""


Panes = Mapping[int, Snapshot]
"""By start."""


class Rolling:
    """Tumbling and hopping windows: [k step, k step + size)."""

    def __init__(self, tenure: Tenure, cells: int, position: Position | None = None) -> None:
        self.window, self.since, self.until = tenure
        self._first = -(-self.since // self.window.step) * self.window.step
        """No window starts before."""
        self._last = position.end if position else None
        self._ahead: deque[tuple[int, Snapshot]] = deque()
        self._inside: deque[tuple[int, Snapshot]] = deque()
        self._sum = Sum(np.zeros(cells, np.int64))
        self._end = 0
        """Of the window that `_sum` is about."""

    @property
    def needed_from(self) -> int | None:
        """No window to come holds a pane that starts before; None: nothing is known yet."""
        if self._last is None:
            return self._first if self.since > -FOR_EVER else None
        return max(self._first, self._last + self.window.step - self.window.size)

    def put(self, pane: int, snapshot: Snapshot) -> None:
        """A pane that is closed everywhere, later than all before it."""
        needed = self.needed_from
        if (needed is None or pane >= needed) and pane < self.until:
            self._ahead.append((pane, snapshot))

    def advance(self, through: int) -> Iterator[ClosedWindow]:
        """The windows with reports that end at `through` or before, in order."""
        while self._inside or self._ahead:
            self._move()
            if self._end > self.until:
                self._inside.clear()
                self._ahead.clear()
            if self._end > min(through, self.until):
                break
            self._last = self._end
            if self._sum.n:
                panes = tuple(self._inside) if self.window.kind == "hopping" else ()
                yield ClosedWindow(self._span(self._end), self._sum.snapshot(), Position(self._end), panes)

    def provisional(self, through: int | None, panes: Panes) -> tuple[Span, Snapshot] | None:
        """The next window with reports to become final, with what is known of it: `panes` are those not closed yet."""
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
            return span, _with_known(self._sum, panes, span)
        return span, _with_known(Sum(np.zeros_like(self._sum.counts)), {**dict(self._inside), **panes}, span)

    def _move(self) -> None:
        """Make `_sum` that of the next window that holds a pane."""
        self._end = self._end_after((self._inside or self._ahead)[0][0])
        start = self._end - self.window.size
        while self._inside and self._inside[0][0] < start:
            self._sum.add(self._inside.popleft()[1], -1)
        while self._ahead and self._ahead[0][0] < self._end:
            pane, snapshot = self._ahead.popleft()
            self._inside.append((pane, snapshot))
            self._sum.add(snapshot)

    def _end_after(self, pane: int) -> int:
        """The end of the first window to come that holds this pane."""
        size, step = self.window.size, self.window.step
        end = max(self._first + size, (pane - size) // step * step + step + size)
        return end if self._last is None else max(end, self._last + step)

    def _span(self, end: int) -> Span:
        return Span(self.window, end - self.window.size, end)


class Since:
    """The windows since the first pane with reports: one at the end of each pane."""

    def __init__(self, tenure: Tenure, pane: int, cells: int, position: Position | None = None) -> None:
        self.window, self.since, self.until = tenure
        self._pane = pane
        self._ahead: deque[tuple[int, Snapshot]] = deque()
        self._sum = Sum(np.zeros(cells, np.int64))
        # What ends before belongs to an earlier tenure.
        self._at = position if position is not None and position.end > self.since else None
        if self._at is not None and self._at.total is not None:
            self._sum.add(self._at.total)

    @property
    def needed_from(self) -> int | None:
        if self._at is None:
            return self.since if self.since > -FOR_EVER else None
        return self._at.end

    def put(self, pane: int, snapshot: Snapshot) -> None:
        started, needed = self._at is not None or bool(self._ahead), self.needed_from
        if (snapshot.n or started) and (needed is None or pane >= needed) and pane < self.until:
            self._ahead.append((pane, snapshot))

    def advance(self, through: int) -> Iterator[ClosedWindow]:
        through = min(through, self.until)
        while (end := self._next(_first_pane(self._ahead))) is not None and end <= through:
            at = self._enter(end)
            if at.start is not None and at.total is not None:
                yield ClosedWindow(Span(self.window, at.start, end), at.total, at)
        while self._ahead and not self._ahead[0][1].n:
            self._sum.add(self._ahead.popleft()[1])  # every window to come holds it; in a long rest they would pile up

    def provisional(self, through: int | None, panes: Panes) -> tuple[Span, Snapshot] | None:
        del through
        panes = _within(panes, self.since, self.until)
        end = self._next(_first_pane(sorted(panes.items())))
        if end is None or end > self.until:
            return None
        start = end - self._pane if self._at is None or self._at.start is None else self._at.start
        span = Span(self.window, start, end)
        return span, _with_known(self._sum, panes, span)

    def _next(self, pane: int | None) -> int | None:
        """The end of the next window, if `pane` is the next one with reports."""
        at = self._at
        if at is not None and at.newest is not None and at.end < at.newest + IDLE * self._pane:
            return at.end + self._pane
        return None if pane is None else pane + self._pane

    def _enter(self, end: int) -> Position:
        start, newest = (self._at.start, self._at.newest) if self._at else (None, None)
        while self._ahead and self._ahead[0][0] < end:
            pane, snapshot = self._ahead.popleft()
            self._sum.add(snapshot)
            if snapshot.n:
                start = pane if start is None else start
                newest = pane + self._pane
        self._at = Position(end, start, newest, self._sum.snapshot())
        return self._at


Windowing = Rolling | Since


def kind(tenure: Tenure, pane: int, cells: int, position: Position | None = None) -> Windowing:
    """One kind of window of a query, from where it stood."""
    if tenure.window.kind == "all":
        return Since(tenure, pane, cells, position)
    return Rolling(tenure, cells, position)


def _within(panes: Panes, since: int, until: int) -> Panes:
    return {pane: snapshot for pane, snapshot in panes.items() if since <= pane < until}


def _first_pane(panes: Iterable[tuple[int, Snapshot]]) -> int | None:
    """The first pane with reports."""
    return next((pane for pane, snapshot in panes if snapshot.n), None)


def _with_known(known: Sum, panes: Panes, span: Span) -> Snapshot:
    """All that is known of a window, and those of `panes` that lie in it."""
    inside = (snapshot for pane, snapshot in panes.items() if span.start <= pane < span.end)
    return merged([known.snapshot(), *inside], len(known.counts))
