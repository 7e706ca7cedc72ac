"""The merged tallies of one query: the newest snapshot of each pane and source partition, added once.

Snapshots replace, so it does not matter how often or in which order they come, nor who sends them.
A pane is final when the watermarks of all source partitions have passed it; a partition that sent
no closed snapshot of it had no reports then. A reader takes in all that stood in the topic when it
began before it asks for finals: compaction may have kept a later copy of a snapshot than its watermark.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from aggregator.counting.tally import INCOMPLETE, PARTIAL, Snapshot, decode_snapshot, encode_snapshot, merged
from aggregator.merging import crowd
from aggregator.merging.crowd import Shown, answering
from aggregator.merging.line import PaneStore
from aggregator.merging.windows import ClosedWindow, Position, Span, Windowing, kind
from hubbub.definitions.versions import Tenure, Versions
from oracles.errors import ReportError
from oracles.query.settings import Window


class _Part(NamedTuple):
    """One source partition's part of a pane."""

    offset: int | None
    """Of an open tally, the offset that it is complete up to; None: it is closed."""
    snapshot: Snapshot
    unread: bool = False
    """Whether it is closed, and nobody can read what it holds."""


ALL = -1
"""Stands for the partition of a merged snapshot: the total of a pane that was closed on all of them."""


class Merger:
    """One query over all source partitions, from the states of its windows on."""

    def __init__(
        self,
        versions: Versions,
        partitions: int,
        states: Iterable[tuple[Window, Position]] = (),
        store: PaneStore | None = None,
    ) -> None:
        self.versions = versions
        self.cells = versions.query.oracle.state_size
        self._pane = versions.query.pane
        self._store = store
        self._watermarks: list[int | None] = [None] * partitions
        self.through: int | None = None
        """The end of the newest pane that is closed on all partitions."""
        self._panes: dict[int, dict[int, _Part]] = {}
        self._through: int | None = None
        """Up to which panes are in their windows."""
        self._seen: int | None = None
        """Up to which `finals` has looked."""
        self.totals: list[tuple[int, bytes]] = []
        """By pane merged snapshots, which nobody has written yet."""
        newest: dict[Window, Position] = {}
        for window, position in states:
            if window not in newest or position.end > newest[window].end:
                newest[window] = position
        self._kinds = [self._kind(tenure, newest.get(tenure.window)) for tenure in versions.tenures]

    def define(self, versions: Versions) -> None:
        """Go on by these versions: what is new in them speaks for panes that are not closed yet."""
        self.versions = versions
        before = {(windows.window, windows.since): windows for windows in self._kinds}
        self._kinds = []
        for tenure in versions.tenures:
            windows = before.get((tenure.window, tenure.since)) or self._kind(tenure)
            windows.until = tenure.until
            self._kinds.append(windows)

    def _kind(self, tenure: Tenure, position: Position | None = None) -> Windowing:
        return kind(tenure, self._pane, self.cells, position, self._store, self._answering)

    def _answering(self, snapshot: Snapshot) -> Sequence[int]:
        return answering(self.versions.query, snapshot)

    def take(self, pane: int, partition: int, snapshot: Snapshot, offset: int | None) -> bool:
        """A snapshot, closed where `offset` is None; False where it says nothing new.

        One of `ALL` stands for those of all partitions: they may have been deleted since.
        That alone is no leave to delete it: it may be the copy that the next reader needs.
        """
        if self._is_done(pane):
            return False
        parts = self._panes.setdefault(pane, {})
        total = parts.get(ALL)
        if total is not None and not total.unread:
            return False
        known = parts.get(partition)
        if known is not None and known.unread and offset is None:
            known = None
        if known is not None and (known.offset is None or (offset is not None and offset < known.offset)):
            return False
        if partition == ALL:
            parts.clear()
        parts[partition] = _Part(offset, snapshot)
        return True

    def spoil(self, pane: int, partition: int) -> None:
        """A closed snapshot that cannot be read: until one comes that can, the windows of its pane are incomplete."""
        if self._is_done(pane):
            return
        parts = self._panes.setdefault(pane, {})
        known, total = parts.get(partition), parts.get(ALL)
        if (known is None or known.offset is not None) and (total is None or total.unread):
            nothing = Snapshot(0, 0, 0, INCOMPLETE, np.zeros(self.cells, np.uint8))
            parts[partition] = _Part(None, nothing, unread=True)

    def mark(self, partition: int, closed_through: int) -> None:
        """A source partition's watermark; it never falls."""
        known = self._watermarks[partition]
        self._watermarks[partition] = closed_through if known is None else max(known, closed_through)
        marks = [mark for mark in self._watermarks if mark is not None]
        self.through = min(marks) if len(marks) == len(self._watermarks) else None

    @property
    def owes(self) -> bool:
        """Whether more is closed than `finals` has looked at."""
        return self.through != self._seen

    def collect(self, through: int, *, keep: bool = False) -> None:
        """Have the panes that end here or before, and are closed on all partitions, in their windows.

        Where their totals are to be kept, those that a restart needs are added to `totals`.
        """
        closed_through = self.through
        if closed_through is None:
            return
        through = min(through, closed_through)
        for pane in sorted(pane for pane in self._panes if pane + self._pane <= through):
            closed = [part for part in self._panes.pop(pane).values() if part.offset is None]
            if closed:
                total = closed[0].snapshot
                if len(closed) > 1:
                    total = merged((part.snapshot for part in closed), self.cells)
                    if keep and self._outlast and not any(part.unread for part in closed):
                        self.totals.append((pane, encode_snapshot(total)))
                for windows in self._kinds:
                    windows.put(pane, total)
        self._through = through if self._through is None else max(through, self._through)

    def finals(self) -> Iterator[ClosedWindow]:
        """The windows that have become final by now, each kind in the order of time."""
        through = self.through
        if through is None:
            return iter(())
        self.collect(through, keep=True)
        self._seen = through
        return self._advance(through)

    def _advance(self, through: int) -> Iterator[ClosedWindow]:
        for windows in tuple(self._kinds):  # which may change before the last final is taken
            for final in windows.advance(through):
                yield final._replace(total=self._flagged(final.span, final.total))

    def provisional(self) -> Iterator[tuple[Span, Snapshot]]:
        """Of each kind the next window to become final, as far as it is known."""
        panes = {pane: merged(self._current(pane), self.cells) for pane in self._panes}
        shown: set[Window] = set()
        for windows in self._kinds:
            found = windows.provisional(self._through, panes) if windows.window not in shown else None
            if found is not None:
                span, total = found
                shown.add(span.window)
                yield span, self._flagged(span, total)

    @property
    def needed_from(self) -> int | None:
        """Panes that start before are in every window that will ever hold them; None: nothing is known yet.

        What may be deleted follows from the states that are acknowledged, not from this.
        """
        starts = [windows.needed_from for windows in self._kinds]
        known = [start for start in starts if start is not None]
        return min(known) if len(known) == len(starts) else None

    @property
    def _outlast(self) -> bool:
        """Whether panes are needed once they are closed: by windows of several, but for `all`, whose state has them."""
        kinds = (windows.window for windows in self._kinds)
        return any(window.kind != "all" and window.size > self._pane for window in kinds)

    def _flagged(self, span: Span, total: Snapshot) -> Snapshot:
        partial = self.versions.is_partial(span.start, span.end)
        return total.flagged(PARTIAL) if partial else total

    def _is_done(self, pane: int) -> bool:
        if self._through is not None and pane + self._pane <= self._through:
            return True
        needed = self.needed_from
        return needed is not None and pane < needed

    def _current(self, pane: int) -> list[Snapshot]:
        """The parts of a pane that still count: an open one does not once its partition has closed the pane."""
        end = pane + self._pane
        return [
            part.snapshot
            for partition, part in self._panes[pane].items()
            if part.offset is None or (mark := self._watermarks[partition]) is None or mark < end
        ]


_SHOWN, _TOTALS = 2, 3
"""Versions of a state: one of version 1 says nothing of what was shown. Those of windows that roll have version 3,
which a worker that knows of no merged snapshots cannot read: it would miss what they stand for.
"""
_STATE = struct.Struct("<B?xxIqqqq")
_LENGTH = struct.Struct("<Q")


def encode_state(position: Position, alerts: Sequence[bytes] = (), shown: Sequence[Shown | None] = ()) -> bytes:
    """The state that one kind of window goes on from: its position; an attribute, its alerts and the last shown.

    Its key should hold the position's end, and a reader takes the newest: so a zombie's older one
    takes nothing back after the panes between the two are deleted.
    """
    total = encode_snapshot(position.total) if position.total else b""
    head = _STATE.pack(
        *(_SHOWN if position.total else _TOTALS, position.total is not None, len(alerts), position.end),
        *(position.start or 0, position.newest or 0, len(total)),
    )
    pieces = [*alerts, crowd.encode(shown, position.total)]
    return head + total + b"".join(_LENGTH.pack(len(piece)) + piece for piece in pieces)


def decode_state(data: bytes, cells: int) -> tuple[Position, list[bytes], list[Shown | None]]:
    """The position, the alerts' states and the windows last shown in `data`; a ReportError where there are none."""
    if len(data) < _STATE.size or data[0] not in (1, _SHOWN, _TOTALS) or data[1] > 1 or any(data[2:4]):
        raise ReportError(f"{len(data)} bytes are no state of version {_TOTALS} or before")
    _, has_total, alerts, end, start, newest, length = _STATE.unpack_from(data)
    at = _STATE.size + length
    if not _STATE.size <= at <= len(data) or has_total != bool(length) or (not has_total and (start or newest)):
        raise ReportError(f"a state of {len(data)} bytes with a total of {length}")
    total = decode_snapshot(data[_STATE.size : at], cells) if has_total else None
    position = Position(end, start, newest, total) if has_total else Position(end)
    if data[0] == 1:
        return position, _pieces(data, at, alerts), []
    *pieces, shown = _pieces(data, at, alerts + 1)
    return position, pieces, crowd.decode(shown, total, cells)


def knows_totals(data: bytes) -> bool:
    """Whether the writer of a state knew of merged snapshots, or needs none: that of `all` has a total of its own."""
    return data[0] >= _TOTALS or bool(data[1])


def _pieces(data: bytes, at: int, count: int) -> list[bytes]:
    """So many pieces, each after its length, up to the end of `data`."""
    pieces: list[bytes] = []
    for _ in range(count):
        if len(data) - at < _LENGTH.size:
            raise ReportError(f"a state of {len(data)} bytes ends within its {count} alerts")
        (length,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size + length
        pieces.append(data[at - length : at])
        if at > len(data):
            break
    if at != len(data):
        raise ReportError(f"a state of {len(data)} bytes is {at} bytes long")
    return pieces
