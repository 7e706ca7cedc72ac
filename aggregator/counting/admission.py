"""What becomes of each record of the reports topic: it is counted, refused for a reason, or a tick.

The checks stand in one order, so every reader gives the same reason. The last of them, whether a
frame's id was counted before, is its tally's to answer (`Tally.add`): a frame that is read again
after a crash is no duplicate of itself.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum

import numpy as np

from aggregator.counting.clock import Clock, closes_after, is_future, is_late, moved
from aggregator.counting.tally import Frames
from oracles.errors import FrameError
from oracles.frame import MAX_FRAME, Frame, decode
from oracles.pure import Reports
from oracles.query import Query

Data = bytes | None
Key = tuple[bytes, int]
"""Digest and pane."""
_Piece = tuple[int, bytes, bytes]
"""Of a frame its offset, its id or zeros, and its reports."""

_HEADER = 40
_NO_ID = bytes(8)
_NEVER_ENDS = 1 << 62


class Reason(StrEnum):
    """Why a record is refused."""

    TOO_LARGE = "too_large"
    MALFORMED = "malformed"
    UNKNOWN_QUERY = "unknown_query"
    STALE_DIGEST = "stale_digest"
    EXPIRED = "expired"
    LATE = "late"
    FUTURE = "future"
    DUPLICATE = "duplicate"


_FOR_EVER = (Reason.LATE, Reason.EXPIRED)
"""What is refused for its time once is refused for it always."""


@dataclass(frozen=True, slots=True)
class Refused:
    reason: Reason
    detail: str
    query: str | None
    """None where it is not known."""
    reports: int
    """How many it counts for: the header's n where that fits the length, else 1; never 0."""


@dataclass(frozen=True, slots=True, eq=False)
class Accepted:
    """A frame in which all is well, but perhaps for its id."""

    query: Query
    pane: int
    id: bytes | None
    reports: Reports


class Tick(Enum):
    """A record that only moves the clock."""

    TICK = "tick"


TICK = Tick.TICK
Outcome = Accepted | Refused | Tick


@dataclass(frozen=True)
class Gate:
    """What stands before one partition's tallies."""

    partition: int
    partitions: int
    queries: Mapping[bytes, Query]
    """By digest; retired ones too, as long as earlier panes of theirs may come."""
    retired: Mapping[bytes, int] = field(default_factory=dict)
    """By digest, the first pane that it no longer speaks for."""
    embedded: bool = False
    limit: int = MAX_FRAME

    def admit(self, data: Data, timestamp: int, clock: Clock) -> tuple[Outcome, Clock]:
        """What becomes of one record, and the clock after it; every record moves the clock first."""
        if not self.embedded:
            clock = moved(clock, timestamp)
        outcome, clock = self._weigh(data, timestamp, clock)
        if isinstance(outcome, Accepted):
            outcome = _malformed_report(outcome) or outcome
        return outcome, clock

    def sift(self, run: Iterable[tuple[int, int, Data]], clock: Clock) -> "Sifted":
        """`admit` for a run of (offset, timestamp, data), thousands of records at a time.

        Most records differ from one before them only in id and reports. Those are told by their
        header alone, and the reports of a pane are checked all at once.
        """
        piles: dict[Key, _Pile] = {}
        untimely: list[_Pile] = []
        known: dict[bytes, tuple[int, int, bool, _Pile]] = {}
        refused: list[tuple[int, Refused]] = []
        for offset, timestamp, data in run:
            if not self.embedded and (clock is None or timestamp > clock):
                clock = timestamp
            header = data[:24] + data[32:_HEADER] if data else b""
            same = known.get(header)
            if data and same is not None:
                size, last, bare, pile = same
                name = data[24:32]
                fits = len(data) == size and (clock is None or clock <= last)
                if fits and (bare if name == _NO_ID else self._place(name) == self.partition):
                    pile.frames.append((offset, name, data[_HEADER:]))
                    pile.clock = clock
                    continue
            outcome, after = self._weigh(data, timestamp, clock)
            if after != clock:
                known.clear()  # without a clock nothing was in the future
                clock = after
            if isinstance(outcome, Refused):
                refused.append((offset, outcome))
                if data and outcome.reason in _FOR_EVER and data.startswith(b"HBB1"):
                    query = self.queries[data[8:16]]
                    untimely.append(_Pile(query, outcome))
                    known[header] = len(data), _NEVER_ENDS, not query.require_id, untimely[-1]
            elif isinstance(outcome, Accepted):
                query = outcome.query
                pile = piles.setdefault((query.digest, outcome.pane), _Pile(query))
                pile.frames.append((offset, outcome.id or _NO_ID, outcome.reports.tobytes()))
                pile.clock = clock
                if data and data.startswith(b"HBB1"):
                    known[header] = len(data), closes_after(outcome.pane, query), not query.require_id, pile
        for pile in untimely:
            refused += pile.refusals()
        accepted: dict[Key, tuple[Query, Frames]] = {}
        for key, pile in piles.items():
            frames, faults = pile.sorted_out()
            refused += faults
            if frames is not None:
                accepted[key] = pile.query, frames
        refused.sort(key=lambda pair: pair[0])
        return Sifted(clock, accepted, refused)

    def _weigh(self, data: Data, timestamp: int, clock: Clock) -> tuple[Outcome, Clock]:
        """`admit`, but for the check of reports that are otherwise welcome."""
        try:
            frame = decode(data, self.limit)
        except FrameError as error:
            return Refused(Reason(error.reason), error.detail, None, _claimed(data)), clock
        if frame.is_tick:
            return TICK, moved(clock, timestamp)
        return self._judge(frame, clock), clock

    def _judge(self, frame: Frame, clock: Clock) -> Accepted | Refused:
        query = self.queries.get(frame.digest)
        name, size = query.name if query else None, max(1, frame.n or 0)
        retired = self.retired.get(frame.digest)
        if retired is not None and (query is None or frame.pane >= retired):
            return Refused(Reason.STALE_DIGEST, f"{frame.digest.hex()} is retired from {retired} on", name, size)
        if query is None:
            return Refused(Reason.UNKNOWN_QUERY, f"no query has the digest {frame.digest.hex()}", None, size)
        try:
            frame = frame.shaped(query.oracle.width)
        except FrameError as error:
            return Refused(Reason(error.reason), error.detail, name, size)
        reports = frame.reports.reshape(-1, query.oracle.width)  # a frame without reports may say another width
        size = max(1, len(reports))
        fault = self._misplaced(frame, query)
        if fault is not None:
            return Refused(Reason.MALFORMED, fault, name, size)
        accepted = Accepted(query, frame.pane, frame.id, reports)
        untimely = _untimely(frame.pane, query, clock)
        if untimely is None:
            return accepted
        return _malformed_report(accepted) or Refused(*untimely, name, size)

    def _misplaced(self, frame: Frame, query: Query) -> str | None:
        """What is wrong with a frame's pane or id."""
        if frame.pane % query.pane:
            return f"pane {frame.pane} is no multiple of {query.pane}"
        if frame.id is None:
            return "it has no id, which the query requires" if query.require_id else None
        right = self._place(frame.id)
        if right != self.partition:
            return f"id {frame.id.hex()} belongs on partition {right}"
        return None

    def _place(self, name: bytes) -> int:
        """`partition_of` for an id that is one, at once."""
        return int.from_bytes(name, "little") % self.partitions


@dataclass(frozen=True, slots=True, eq=False)
class Sifted:
    """What became of a run of records."""

    clock: Clock
    accepted: dict[Key, tuple[Query, Frames]]
    refused: list[tuple[int, Refused]]
    """With their offsets, ascending."""


@dataclass(slots=True, eq=False)
class _Pile:
    """Frames of one pane, as they come."""

    query: Query
    refused: Refused | None = None
    """What is said of all whose reports are well-formed."""
    frames: list[_Piece] = field(default_factory=list)
    clock: Clock = None
    """After the last of them."""

    def refusals(self) -> list[tuple[int, Refused]]:
        """What is said of frames that come too late."""
        if self.refused is None or not self.frames:
            return []
        late, (frames, faults) = self.refused, self.sorted_out()
        return faults + [(offset, late) for offset in (frames.offsets if frames else ())]

    def sorted_out(self) -> tuple[Frames | None, list[tuple[int, Refused]]]:
        """The good frames, if there are any, and what is said of those with a malformed report."""
        next_offset = self.frames[-1][0] + 1
        bad = self._malformed(0, len(self.frames))
        faults: list[tuple[int, Refused]] = []
        for index in bad:
            offset, _, piece = self.frames[index]
            fault = _malformed_report(Accepted(self.query, 0, None, self._rows([piece])))
            faults += [(offset, fault)] if fault else []
        if bad:
            left_out = set(bad)
            self.frames = [frame for index, frame in enumerate(self.frames) if index not in left_out]
        if not self.frames:
            return None, faults
        offsets, names, pieces = zip(*self.frames, strict=True)
        ids = [None if name == _NO_ID else name for name in names] if any(map(_NO_ID.__ne__, names)) else None
        sizes = [len(piece) // self.query.oracle.width for piece in pieces]
        return Frames(offsets, sizes, ids, self._rows(pieces), next_offset, self.clock), faults

    def _malformed(self, start: int, stop: int) -> list[int]:
        """Which frames hold a malformed report: halves are looked into only where there is one."""
        if self.query.oracle.check(self._rows([piece for _, _, piece in self.frames[start:stop]])) is None:
            return []
        if stop - start == 1:
            return [start]
        middle = (start + stop) // 2
        return self._malformed(start, middle) + self._malformed(middle, stop)

    def _rows(self, pieces: Iterable[bytes]) -> Reports:
        return np.frombuffer(b"".join(pieces), np.uint8).reshape(-1, self.query.oracle.width)


def duplicate(query: Query, frames: Frames, index: int) -> Refused:
    """The refusal of one of `frames` whose id was counted before."""
    name = frames.ids[index] if frames.ids else None
    detail = f"id {(name or _NO_ID).hex()} is counted already"
    return Refused(Reason.DUPLICATE, detail, query.name, max(1, frames.sizes[index]))


def _untimely(pane: int, query: Query, clock: Clock) -> tuple[Reason, str] | None:
    """Why a pane is not counted now."""
    if query.starts is not None and pane < query.starts:
        return Reason.EXPIRED, f"pane {pane} starts before {query.starts}"
    if query.until is not None and pane >= query.until:
        return Reason.EXPIRED, f"pane {pane} starts at {query.until} or later"
    if is_late(clock, pane, query):
        return Reason.LATE, f"pane {pane} is closed since the log's time {closes_after(pane, query)} ms"
    if is_future(clock, pane, query):
        return Reason.FUTURE, f"pane {pane} starts more than {query.skew} s after the log's time, {clock} ms"
    return None


def _malformed_report(frame: Accepted) -> Refused | None:
    wrong = frame.query.oracle.check(frame.reports)
    if wrong is None:
        return None
    size = max(1, len(frame.reports))
    return Refused(Reason.MALFORMED, f"report {wrong} of {size} is malformed", frame.query.name, size)


def _claimed(data: Data) -> int:
    """How many reports a record counts for whose structure is refused."""
    if data is None or len(data) < _HEADER or not data.startswith(b"HBB1"):
        return 1
    width, n = int.from_bytes(data[6:8], "little"), int.from_bytes(data[32:36], "little")
    return max(1, n) if width and _HEADER + n * width == len(data) else 1
