"""Windows are unions of panes: which become final as panes close, and what each holds.

A window is kept as a running sum: each pane is added once, and taken away once where windows hop; a tumbling
one begins anew. The sums are integers, so that they are exact for ever. The panes of a hopping window
stand in a line until it has left them; of all others only those that are not added yet. What a window
kind needs to go on after a restart is a Position and the panes from `needed_from` on.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from aggregator.counting.tally import Snapshot, Sum, merged
from aggregator.merging.line import Answering, Line, PaneStore, everyone
from hubbub.definitions.versions import FOR_EVER, Tenure
from oracles.query import Query
from oracles.query.settings import Window
from oracles.types import Ints

NO_PANES: Ints = np.zeros((0, 2), np.int64)
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
    panes: Ints = NO_PANES
    """Of a hopping window a row for each pane: its start, and how many answered for each attribute."""


Panes = Mapping[int, Snapshot]
"""By start."""


class Rolling:
    """Tumbling and hopping windows: [k step, k step + size)."""

    def __init__(
        self,
        tenure: Tenure,
        cells: int,
        position: Position | None = None,
        store: PaneStore | None = None,
        answering: Answering = everyone,
    ) -> None:
        self.window, self.since, self.until = tenure
        self._first = -(-self.since // self.window.step) * self.window.step
        """No window starts before."""
        self._last = position.end if position else None
        self._cells = cells
        self._hops = self.window.kind == "hopping"
        self._line = Line(store, answering)
        """The panes to come; where windows hop, those inside before them."""
        self._inside = 0
        """How many panes `_sum` holds."""
        self._oldest = 0
        """The first one inside."""
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
            if not self._inside and not len(self._line):
                self._end = self._end_after(pane)
            enters = len(self._line) == self._passed and pane < self._end
            if self._hops or not enters:
                self._line.append(pane, snapshot)
            if enters:
                self._count(pane, snapshot)

    def advance(self, through: int) -> Iterator[ClosedWindow]:
        """The windows with reports that end at `through` or before, in order."""
        while self._inside or len(self._line):
            self._move()
            if self._end > self.until:
                self._clear()
                self._line.clear()
            if self._end > min(through, self.until):
                break
            self._last = self._end
            if self._sum.n:
                position = Position(self._end)
                panes = self._line.answered(self._inside) if self._hops else NO_PANES
                yield ClosedWindow(self._span(self._end), self._sum.snapshot(), position, panes)

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
        return span, _with_known(Sum(np.zeros_like(self._sum.counts)), {**self._stale(), **panes}, span)

    def _stale(self) -> Panes:
        """The panes inside, none of which has reports: windows that tumble hold none of them later."""
        return {self._line.start(at): self._line[at] for at in range(self._inside)} if self._hops else {}

    def _move(self) -> None:
        """Make `_sum` that of the next window that holds a pane."""
        self._end = self._end_after(self._oldest if self._inside else self._line.start())
        self._leave(self._end - self.window.size)
        self._enter()

    def _leave(self, start: int) -> None:
        """Take away what lies before."""
        if not self._hops and self._inside and self._oldest < start:
            self._clear()
        while self._hops and self._inside and self._line.start() < start:
            self._sum.add(self._line.popleft(), -1)
            self._inside -= 1
        if self._hops and self._inside:
            self._oldest = self._line.start()

    def _enter(self) -> None:
        """Add what is to come and lies in the window."""
        while len(self._line) > (at := self._passed) and (pane := self._line.start(at)) < self._end:
            self._count(pane, self._line[at] if self._hops else self._line.popleft())

    @property
    def _passed(self) -> int:
        """How many of the line are inside."""
        return self._inside if self._hops else 0

    def _count(self, pane: int, snapshot: Snapshot) -> None:
        """The next pane of the window."""
        if not self._inside:
            self._oldest = pane
        self._sum.add(snapshot)
        self._inside += 1

    def _clear(self) -> None:
        self._inside = 0
        self._sum = Sum(np.zeros(self._cells, np.int64))

    def _end_after(self, pane: int) -> int:
        """The end of the first window to come that holds this pane."""
        size, step = self.window.size, self.window.step
        end = max(self._first + size, (pane - size) // step * step + step + size)
        return end if self._last is None else max(end, self._last + step)

    def _span(self, end: int) -> Span:
        return Span(self.window, end - self.window.size, end)


class Since:
    """The windows since the first pane with reports: one at the end of each pane."""

    def __init__(
        self, tenure: Tenure, pane: int, cells: int, position: Position | None = None, store: PaneStore | None = None
    ) -> None:
        self.window, self.since, self.until = tenure
        self._pane = pane
        self._ahead = Line(store)
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
        started, needed = self._at is not None or bool(len(self._ahead)), self.needed_from
        if (snapshot.n or started) and (needed is None or pane >= needed) and pane < self.until:
            self._ahead.append(pane, snapshot)

    def advance(self, through: int) -> Iterator[ClosedWindow]:
        through = min(through, self.until)
        while (end := self._next(self._ahead.first_with_reports())) is not None and end <= through:
            at = self._enter(end)
            if at.start is not None and at.total is not None:
                yield ClosedWindow(Span(self.window, at.start, end), at.total, at)
        while len(self._ahead) and not self._ahead.n():
            self._sum.add(self._ahead.popleft())  # every window to come holds it; in a long rest they would pile up

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
        while len(self._ahead) and (pane := self._ahead.start()) < end:
            snapshot = self._ahead.popleft()
            self._sum.add(snapshot)
            if snapshot.n:
                start = pane if start is None else start
                newest = pane + self._pane
        self._at = Position(end, start, newest, self._sum.snapshot())
        return self._at


Windowing = Rolling | Since


IN_MEMORY = 1 << 20
"""Bytes that the panes of a window may come to; those of longer ones stand in the store that is given."""
TRAVELS = 2
"""Bytes of a tally's integer as it travels, about: 1 to 4."""


def stands_apart(window: Window, pane: int, cells: int) -> bool:
    """Whether the panes of a kind of window are too much for memory."""
    return TRAVELS * cells * max(1, window.size // pane) > IN_MEMORY


def kind(
    tenure: Tenure,
    pane: int,
    cells: int,
    position: Position | None = None,
    store: PaneStore | None = None,
    answering: Answering = everyone,
) -> Windowing:
    """One kind of window of a query, from where it stood."""
    store = store if stands_apart(tenure.window, pane, cells) else None
    if tenure.window.kind == "all":
        return Since(tenure, pane, cells, position, store)
    return Rolling(tenure, cells, position, store, answering)


def _within(panes: Panes, since: int, until: int) -> Panes:
    return {pane: snapshot for pane, snapshot in panes.items() if since <= pane < until}


def _first_pane(panes: Iterable[tuple[int, Snapshot]]) -> int | None:
    """The first pane with reports."""
    return next((pane for pane, snapshot in panes if snapshot.n), None)


def _with_known(known: Sum, panes: Panes, span: Span) -> Snapshot:
    """All that is known of a window, and those of `panes` that lie in it."""
    inside = (snapshot for pane, snapshot in panes.items() if span.start <= pane < span.end)
    return merged([known.snapshot(), *inside], len(known.counts))
