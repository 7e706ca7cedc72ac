"""The rule for small groups: two final windows of one kind never reveal a group that is smaller than `crowd`.

A window with too few reports shows no values. A window may overlap the last visible one. Then it shows its own
values if the reports that came, and the reports that left, are each either none or enough. Otherwise it shows
the last visible window again.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
import orjson

from aggregator.merging.windows import NO_PANES, ClosedWindow, Span
from aggregator.tallies.snapshot import Snapshot, decode_snapshot, encode_snapshot
from oracles.errors import ReportError
from oracles.multi.attributes import Multi
from oracles.query import Query
from oracles.query.settings import Window
from oracles.types import Ints


@dataclass(frozen=True, eq=False)
class LastVisible:
    """The last window of a kind that showed its own values of an attribute."""

    start: int
    end: int
    total: Snapshot
    panes: Ints = field(default_factory=lambda: NO_PANES)
    """A row for each pane of a hopping window: its start, and how many reports answer the attribute."""


class VisibleWindow(NamedTuple):
    """The values that a window shows of an attribute: its own, none, or those of an earlier window."""

    kind: Literal["own", "small", "held"]
    span: Span
    total: Snapshot
    """The tally of these values. It is empty if the window shows none."""


def own(query: Query, span: Span, total: Snapshot) -> list[VisibleWindow]:
    """Return a window that withholds nothing, for each attribute."""
    return [VisibleWindow("own", span, total)] * len(query.domains)


def answer_counts(query: Query, total: Snapshot) -> list[int]:
    """Return how many reports answer each attribute."""
    if isinstance(query.oracle, Multi):
        return query.oracle.answering(total.counts.astype(np.int64, copy=False), total.n)
    return [total.n]


def visible_windows(
    query: Query, final: ClosedWindow, before: Sequence[LastVisible | None]
) -> tuple[list[VisibleWindow], list[LastVisible | None]]:
    """Return what a final shows of each attribute, and the last visible windows after it."""
    windows: list[VisibleWindow] = []
    after: list[LastVisible | None] = []
    counts = answer_counts(query, final.total)
    for attribute, (n, last) in enumerate(zip(counts, before or [None] * len(counts), strict=True)):
        if n < query.crowd:
            windows.append(VisibleWindow("small", final.span, empty_tally(final.total)))
            after.append(last)
        elif last is None or _is_safe(query, final, n, last, attribute):
            windows.append(VisibleWindow("own", final.span, final.total))
            after.append(LastVisible(final.span.start, final.span.end, final.total, _answer_panes(final, attribute)))
        else:
            windows.append(VisibleWindow("held", Span(final.span.window, last.start, last.end), last.total))
            after.append(last)
    return windows, after if final.span.window.kind != "tumbling" else []


def _answer_panes(final: ClosedWindow, attribute: int) -> Ints:
    """Return the panes with answers to an attribute, as in `LastVisible.panes`."""
    if not len(final.panes):
        return NO_PANES
    rows = final.panes[:, [0, 1 + attribute]]
    return np.ascontiguousarray(rows[rows[:, 1] > 0])


def empty_tally(total: Snapshot) -> Snapshot:
    """Return a tally of the same length and with the same flags, but without reports."""
    return Snapshot(0, 0, 0, total.flags, total.counts * 0)


def _is_safe(query: Query, final: ClosedWindow, n: int, last: LastVisible, attribute: int) -> bool:
    """Whether the reports that came since the last visible window, and those that left, are each none or enough."""
    new, lost = turnover(query, final.span, n, last, attribute)
    return all(count == 0 or count >= query.crowd for count in (new, lost))


def turnover(query: Query, span: Span, n: int, last: LastVisible, attribute: int) -> tuple[int, int]:
    """Return how many of a window's `n` reports are not in the last visible window, and the reverse."""
    before = answer_counts(query, last.total)[attribute]
    both = before
    if span.window.kind == "hopping":
        starts, counts = last.panes.T
        both = int(counts[(starts >= span.start) & (starts < span.end)].sum())
    elif span.start >= last.end:  # `all` was removed from the query and added again, so it starts again
        both = 0
    return n - both, before - both


def encode(visible: Sequence[LastVisible | None], total: Snapshot | None) -> bytes:
    """Return the last visible windows as bytes. They omit the tally `total`, which the reader already has."""
    totals: list[Snapshot] = []
    lanes: list[dict[str, object] | None] = []
    for last in visible:
        if last is None:
            lanes.append(None)
            continue
        if total is not None and last.total is total:
            place = -1
        else:
            place = next((i for i, each in enumerate(totals) if each is last.total), len(totals))
            totals += [last.total] if place == len(totals) else []
        lanes.append({"start": last.start, "end": last.end, "panes": last.panes, "total": place})
    bodies = [encode_snapshot(each) for each in totals]
    head = orjson.dumps({"shown": lanes, "lengths": list(map(len, bodies))}, option=orjson.OPT_SERIALIZE_NUMPY)
    return b"".join([head, b"\n", *bodies])


def decode(data: bytes, total: Snapshot | None, cells: int) -> list[LastVisible | None]:
    """Return the last visible windows, or raise a ReportError. `total` is the tally that `encode` has omitted."""
    line, _, body = data.partition(b"\n")
    try:
        head = orjson.loads(line)
        totals, at = [], 0
        for length in head["lengths"]:
            totals.append(decode_snapshot(body[at : at + length], cells))
            at += length
        if at != len(body):
            raise ReportError(f"the visible windows have {len(body)} bytes of tallies, but claim {at}")
        return [None if lane is None else _read_lane(lane, [*totals, total]) for lane in head["shown"]]
    except (ValueError, TypeError, KeyError, IndexError, OverflowError) as error:
        raise ReportError(f"the visible windows are unreadable: {error!r}") from error


def _read_lane(lane: dict[str, object], totals: Sequence[Snapshot | None]) -> LastVisible:
    start, end, place, panes = lane["start"], lane["end"], lane["total"], lane["panes"]
    if not (isinstance(start, int) and isinstance(end, int) and isinstance(place, int) and isinstance(panes, list)):
        raise TypeError("a visible window needs a start, an end, panes and a tally")
    total = totals[place]
    if total is None or any(type(number) is not int for pane in panes for number in pane):
        raise TypeError("a visible window needs a tally, and whole numbers in its panes")
    return LastVisible(start, end, total, np.array([(pane, count) for pane, count in panes], np.int64).reshape(-1, 2))


class ProvisionalGuard:
    """The states of one query's windows for provisional records, each with enough reports before and after it.

    The guard shows nothing of the first window of each kind, because another worker may have shown part of it.
    """

    def __init__(self) -> None:
        self._first: dict[Window, Span] = {}
        """The first window of each kind."""
        self._waiting: dict[Window, tuple[Span, Snapshot]] = {}
        """The next state to show, once enough reports have come after it."""
        self._published: dict[Window, tuple[Span, Snapshot]] = {}
        """The last state that was shown."""

    def next(
        self, query: Query, span: Span, total: Snapshot, visible: Sequence[LastVisible | None]
    ) -> tuple[Span, Snapshot] | None:
        """Return a new state to show of a window that now holds `total`, or None."""
        if query.crowd == 1:
            return span, total
        window = span.window
        if self._first.setdefault(window, span) == span:
            return None
        waiting = self._waiting.get(window)
        if waiting is None or waiting[0] != span or not self._is_enough(query, *waiting, visible):
            self._waiting[window] = span, total
            return None
        if not _is_apart(query, waiting[1], total):
            return None
        self._published[window], self._waiting[window] = waiting, (span, total)
        return waiting

    def _is_enough(self, query: Query, span: Span, total: Snapshot, visible: Sequence[LastVisible | None]) -> bool:
        """Whether enough reports came since the last state, and since the last visible window."""
        last = self._published.get(span.window)
        if not _is_apart(query, last[1] if last is not None and last[0] == span else empty_tally(total), total):
            return False
        counts = answer_counts(query, total)
        for attribute, (n, before) in enumerate(zip(counts, visible or [None] * len(counts), strict=True)):
            if before is not None:
                new, lost = turnover(query, span, n, before, attribute)
                if new < query.crowd or 0 < lost < query.crowd:
                    return False
        return True


def _is_apart(query: Query, before: Snapshot, now: Snapshot) -> bool:
    """Whether enough reports of each attribute came between two states."""
    counts = zip(answer_counts(query, before), answer_counts(query, now), strict=True)
    return all(new - old >= query.crowd for old, new in counts)
