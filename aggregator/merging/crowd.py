"""Small crowds: what a final window may show, so that no group smaller than `crowd` can be had from two of its kind.

A window of too few reports shows nothing. One that overlaps the last one shown shows its own values
where those who came and those who went are nobody or enough; else the last one is shown again.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
import orjson

from aggregator.counting.tally import Snapshot, decode_snapshot, encode_snapshot
from aggregator.merging.windows import NO_PANES, ClosedWindow, Span
from oracles.errors import ReportError
from oracles.multi.attributes import Multi
from oracles.query import Query
from oracles.query.settings import Window
from oracles.types import Ints


@dataclass(frozen=True, eq=False)
class Shown:
    """The last window of a kind that showed the values of an attribute."""

    start: int
    end: int
    total: Snapshot
    panes: Ints = field(default_factory=lambda: NO_PANES)
    """Of a hopping one a row for each pane: its start, and how many reports of it speak of the attribute."""


class Face(NamedTuple):
    """The answer that a window shows of an attribute: its own values, none, or those of a window before it."""

    kind: Literal["own", "small", "held"]
    span: Span
    total: Snapshot
    """Whose values: its own, nobody's, or those of the one before."""


def own(query: Query, span: Span, total: Snapshot) -> list[Face]:
    """The faces of a window that withholds nothing, of each attribute."""
    return [Face("own", span, total)] * len(query.domains)


def answering(query: Query, total: Snapshot) -> list[int]:
    """How many of its reports speak of each attribute."""
    if isinstance(query.oracle, Multi):
        return query.oracle.answering(total.counts.astype(np.int64, copy=False), total.n)
    return [total.n]


def face(query: Query, final: ClosedWindow, before: Sequence[Shown | None]) -> tuple[list[Face], list[Shown | None]]:
    """The face of a final for each attribute, and the last windows shown after it; `before`, those before it."""
    faces: list[Face] = []
    after: list[Shown | None] = []
    counts = answering(query, final.total)
    for attribute, (n, shown) in enumerate(zip(counts, before or [None] * len(counts), strict=True)):
        if n < query.crowd:
            faces.append(Face("small", final.span, nobody(final.total)))
            after.append(shown)
        elif shown is None or _is_apart(query, final, n, shown, attribute):
            faces.append(Face("own", final.span, final.total))
            after.append(Shown(final.span.start, final.span.end, final.total, _speaking(final, attribute)))
        else:
            faces.append(Face("held", Span(final.span.window, shown.start, shown.end), shown.total))
            after.append(shown)
    return faces, after if final.span.window.kind != "tumbling" else []


def _speaking(final: ClosedWindow, attribute: int) -> Ints:
    """Its panes in which anybody speaks of an attribute."""
    if not len(final.panes):
        return NO_PANES
    rows = final.panes[:, [0, 1 + attribute]]
    return np.ascontiguousarray(rows[rows[:, 1] > 0])


def nobody(total: Snapshot) -> Snapshot:
    """A tally of the same length without a report; the flags stay."""
    return Snapshot(0, 0, 0, total.flags, total.counts * 0)


def _is_apart(query: Query, final: ClosedWindow, n: int, shown: Shown, attribute: int) -> bool:
    """Whether those who came since the last window shown, and those who went, are nobody or enough."""
    came, went = turnover(query, final.span, n, shown, attribute)
    return all(count == 0 or count >= query.crowd for count in (came, went))


def turnover(query: Query, span: Span, n: int, shown: Shown, attribute: int) -> tuple[int, int]:
    """How many of a window's `n` reports are not in the last one shown, and how many of its are not in this one."""
    before = answering(query, shown.total)[attribute]
    both = before
    if span.window.kind == "hopping":
        starts, counts = shown.panes.T
        both = int(counts[(starts >= span.start) & (starts < span.end)].sum())
    elif span.start >= shown.end:  # `all` was taken out and put back: it begins anew
        both = 0
    return n - both, before - both


def encode(shown: Sequence[Shown | None], known: Snapshot | None) -> bytes:
    """The last windows shown, as bytes; a tally that is `known` to who reads them is left out."""
    totals: list[Snapshot] = []
    lanes: list[dict[str, object] | None] = []
    for one in shown:
        if one is None:
            lanes.append(None)
            continue
        if known is not None and one.total is known:
            place = -1
        else:
            place = next((i for i, total in enumerate(totals) if total is one.total), len(totals))
            totals += [one.total] if place == len(totals) else []
        lanes.append({"start": one.start, "end": one.end, "panes": one.panes, "total": place})
    bodies = [encode_snapshot(total) for total in totals]
    head = orjson.dumps({"shown": lanes, "lengths": list(map(len, bodies))}, option=orjson.OPT_SERIALIZE_NUMPY)
    return b"".join([head, b"\n", *bodies])


def decode(data: bytes, known: Snapshot | None, cells: int) -> list[Shown | None]:
    """The last windows shown that `encode` wrote; a ReportError where there are none."""
    line, _, body = data.partition(b"\n")
    try:
        head = orjson.loads(line)
        totals, at = [], 0
        for length in head["lengths"]:
            totals.append(decode_snapshot(body[at : at + length], cells))
            at += length
        if at != len(body):
            raise ReportError(f"{len(body)} bytes of tallies where {at} are said")
        return [None if one is None else _read_shown(one, [*totals, known]) for one in head["shown"]]
    except (ValueError, TypeError, KeyError, IndexError, OverflowError) as error:
        raise ReportError(f"no windows that were shown: {error!r}") from error


def _read_shown(said: dict[str, object], totals: Sequence[Snapshot | None]) -> Shown:
    start, end, place, panes = said["start"], said["end"], said["total"], said["panes"]
    if not (isinstance(start, int) and isinstance(end, int) and isinstance(place, int) and isinstance(panes, list)):
        raise TypeError("a window that was shown has a start, an end, panes and a tally")
    total = totals[place]
    if total is None or any(type(number) is not int for pane in panes for number in pane):
        raise TypeError("a window that was shown has a tally, and whole numbers in its panes")
    return Shown(start, end, total, np.array([(pane, count) for pane, count in panes], np.int64).reshape(-1, 2))


class Foretelling:
    """The states of one query's windows for provisional records: each with enough reports before it and after.

    The first window of each kind that is met may have been shown by another worker, nobody knows how
    far: nothing is said of it.
    """

    def __init__(self) -> None:
        self._first: dict[Window, Span] = {}
        self._waiting: dict[Window, tuple[Span, Snapshot]] = {}
        self._said: dict[Window, tuple[Span, Snapshot]] = {}

    def next(
        self, query: Query, span: Span, total: Snapshot, shown: Sequence[Shown | None]
    ) -> tuple[Span, Snapshot] | None:
        """The state that may be shown of a window that holds `total` by now, if there is anything new."""
        if query.crowd == 1:
            return span, total
        window = span.window
        if self._first.setdefault(window, span) == span:
            return None
        waiting = self._waiting.get(window)
        if waiting is None or waiting[0] != span or not self._is_enough(query, *waiting, shown):
            self._waiting[window] = span, total
            return None
        if not _more(query, waiting[1], total):
            return None
        self._said[window], self._waiting[window] = waiting, (span, total)
        return waiting

    def _is_enough(self, query: Query, span: Span, total: Snapshot, shown: Sequence[Shown | None]) -> bool:
        said = self._said.get(span.window)
        if not _more(query, said[1] if said is not None and said[0] == span else nobody(total), total):
            return False
        counts = answering(query, total)
        for attribute, (n, one) in enumerate(zip(counts, shown or [None] * len(counts), strict=True)):
            if one is not None:
                came, went = turnover(query, span, n, one, attribute)
                if came < query.crowd or 0 < went < query.crowd:
                    return False
        return True


def _more(query: Query, before: Snapshot, now: Snapshot) -> bool:
    """Whether enough reports of each attribute came in between."""
    counts = zip(answering(query, before), answering(query, now), strict=True)
    return all(new - old >= query.crowd for old, new in counts)
