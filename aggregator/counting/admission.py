"""Admission of each record of the reports topic: it is counted, refused for a reason, or a tick.

The checks stand in one order, so every reader gives the same reason. The last of them, whether a
frame's id was counted before, is its tally's to answer (`Tally.add`): a frame that is read again
after a crash is no duplicate of itself.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum

import numpy as np

from aggregator.counting.clock import Clock, is_future, is_late, moved
from aggregator.counting.frames import Frames
from hubbub.definitions.versions import Versions
from hubbub.unread import Unread
from oracles.errors import FrameError
from oracles.frame import MAX_FRAME, NONE, Frame, decode, header, split
from oracles.query import Query
from oracles.types import Reports

Data = bytes | Unread | None
Key = tuple[bytes, int]
"""Digest and pane."""
_Piece = tuple[int, bytes, bytes]
"""Of a frame its offset, its id or zeros, and its reports."""

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
"""Refused for one of these once, a frame of that pane is refused for it always."""


@dataclass(frozen=True, slots=True)
class Refused:
    reason: Reason
    detail: str
    query: str | None
    """None where it is not known."""
    reports: int
    """How many it counts for: the header's n where that fits the length, else 1; never 0."""
    pane: Key | None = field(default=None, compare=False)
    """Of a frame that is well-formed, and comes at the wrong time."""


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
    """The gate before one partition's tallies."""

    partition: int
    partitions: int
    definitions: Mapping[bytes, Versions]
    """By digest; retired ones too, since earlier panes of theirs may come."""
    embedded: bool = False
    limit: int = MAX_FRAME
    over: Mapping[bytes, str] = field(default_factory=dict)
    """By digest the names of definitions that are retired, and of which nothing is open any more."""

    def admit(self, data: Data, timestamp: Clock, clock: Clock) -> tuple[Outcome, Clock]:
        """The outcome of one record, and the clock after it; every record that has a time moves the clock first."""
        if not self.embedded:
            clock = moved(clock, timestamp)
        outcome, clock = self.weigh(data, timestamp, clock)
        if isinstance(outcome, Accepted):
            outcome = _malformed_report(outcome) or outcome
        return outcome, clock

    def sift(self, run: Iterable[tuple[int, Clock, Data]], clock: Clock) -> "Sifted":
        """`admit` for a run of (offset, timestamp, data), thousands of records at a time.

        Most records differ from one before them only in id and reports. Those are told by their
        header alone, and the reports of a pane are checked all at once.
        """
        piles: dict[Key, _PaneFrames] = {}
        untimely: list[_PaneFrames] = []
        known: dict[bytes, tuple[int, int, bool, _PaneFrames]] = {}
        refused: list[tuple[int, Refused]] = []
        for offset, timestamp, data in run:
            if not self.embedded and timestamp is not None and (clock is None or timestamp > clock):
                clock = timestamp
            raw = data if isinstance(data, bytes) else b""
            kind, name, reports = split(raw)
            same = known.get(kind)
            if raw and same is not None:
                size, last, bare, pile = same
                fits = len(raw) == size and (clock is None or clock <= last)
                if fits and (bare if name == NONE else self._place(name) == self.partition):
                    pile.frames.append((offset, name, reports))
                    pile.clock = clock
                    continue
            outcome, after = self.weigh(data, timestamp, clock)
            if after != clock:
                known.clear()  # without a clock nothing was in the future
                clock = after
            if isinstance(outcome, Refused):
                refused.append((offset, outcome))
                head = header(raw) if outcome.reason in _FOR_EVER else None
                if head is not None:
                    query = self.definitions[head.digest].at(head.pane).query
                    untimely.append(_PaneFrames(query, outcome))
                    known[kind] = len(raw), _NEVER_ENDS, not query.require_id, untimely[-1]
            elif isinstance(outcome, Accepted):
                query = outcome.query
                pile = piles.setdefault((query.digest, outcome.pane), _PaneFrames(query))
                pile.frames.append((offset, outcome.id or NONE, outcome.reports.tobytes()))
                pile.clock = clock
                if header(raw) is not None:
                    last = self.definitions[query.digest].closes_after(outcome.pane)
                    known[kind] = len(raw), last, not query.require_id, pile
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

    def weigh(self, data: Data, timestamp: Clock, clock: Clock) -> tuple[Outcome, Clock]:
        """`admit`, but for the check of reports that are otherwise welcome."""
        if isinstance(data, Unread):
            return Refused(Reason(data.reason), data.detail, None, data.records), clock
        try:
            frame = decode(data, self.limit)
        except FrameError as error:
            return Refused(Reason(error.reason), error.detail, None, _claimed(data)), clock
        if frame.is_tick:
            return TICK, moved(clock, timestamp)
        return self._judge(frame, clock), clock

    def _judge(self, frame: Frame, clock: Clock) -> Accepted | Refused:
        size, versions = max(1, frame.n or 0), self.definitions.get(frame.digest)
        if versions is None and frame.digest in self.over:
            return Refused(Reason.STALE_DIGEST, f"{frame.digest.hex()} is retired", self.over[frame.digest], size)
        if versions is None:
            return Refused(Reason.UNKNOWN_QUERY, f"no query has the digest {frame.digest.hex()}", None, size)
        first, query, retired = versions.at(frame.pane)
        name = query.name
        if retired:
            return Refused(Reason.STALE_DIGEST, f"{frame.digest.hex()} is retired from {first} on", name, size)
        if frame.pane < first:
            detail = f"{frame.digest.hex()} is counted from {first} on"
            return Refused(Reason.UNKNOWN_QUERY, detail, name, size)
        try:
            frame = frame.shaped(query.oracle.width)
        except FrameError as error:
            return Refused(Reason(error.reason), error.detail, name, size)
        size = len(frame.reports)
        fault = self._misplaced(frame, query)
        if fault is not None:
            return Refused(Reason.MALFORMED, fault, name, size)
        accepted = Accepted(query, frame.pane, frame.id, frame.reports)
        untimely = _untimely(frame.pane, versions, clock)
        if untimely is None:
            return accepted
        return _malformed_report(accepted) or Refused(*untimely, name, size, (frame.digest, frame.pane))

    def _misplaced(self, frame: Frame, query: Query) -> str | None:
        """The fault in a frame's pane or id."""
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
    """The outcome of a run of records."""

    clock: Clock
    accepted: dict[Key, tuple[Query, Frames]]
    refused: list[tuple[int, Refused]]
    """With their offsets, ascending."""


@dataclass(slots=True, eq=False)
class _PaneFrames:
    """Frames of one pane, as they come."""

    query: Query
    refused: Refused | None = None
    """The refusal of all whose reports are well-formed."""
    frames: list[_Piece] = field(default_factory=list)
    clock: Clock = None
    """After the last of them."""

    def refusals(self) -> list[tuple[int, Refused]]:
        """The refusals of frames that come too late."""
        if self.refused is None or not self.frames:
            return []
        late, (frames, faults) = self.refused, self.sorted_out()
        return faults + [(offset, late) for offset in (frames.offsets if frames else ())]

    def sorted_out(self) -> tuple[Frames | None, list[tuple[int, Refused]]]:
        """The good frames, if there are any, and what is said of those with a malformed report."""
        width = self.query.oracle.width
        offsets, names, pieces = map(list, zip(*self.frames, strict=True))
        reports = np.frombuffer(b"".join(pieces), np.uint8).reshape(-1, width)
        sizes = np.array([len(piece) // width for piece in pieces])
        ids = [None if name == NONE else name for name in names] if any(map(NONE.__ne__, names)) else None
        return sorted_out(self.query, Frames(offsets, sizes, ids, reports, offsets[-1] + 1, self.clock))


def sorted_out(query: Query, frames: Frames) -> tuple[Frames | None, list[tuple[int, Refused]]]:
    """The good ones of these frames, if there are any, and what is said of those with a malformed report."""
    wrong = query.oracle.malformed(frames.reports)
    if wrong is None:
        return frames, []
    sizes = np.asarray(frames.sizes)
    ends = np.cumsum(sizes)
    at = np.flatnonzero(wrong)
    bad, firsts = np.unique(np.searchsorted(ends, at, side="right"), return_index=True)
    said = at[firsts] - ends[bad] + sizes[bad]
    faults = [
        (int(frames.offsets[index]), _malformed(query, report, int(sizes[index])))
        for index, report in zip(bad.tolist(), said.tolist(), strict=True)
    ]
    good = np.ones(len(sizes), np.bool_)
    good[bad] = False
    return (frames.some(good) if good.any() else None), faults


def duplicate(query: Query, frames: Frames, index: int) -> Refused:
    """The refusal of one of `frames` whose id was counted before."""
    detail = f"id {(frames.name(index) or NONE).hex()} is counted already"
    return Refused(Reason.DUPLICATE, detail, query.name, int(frames.sizes[index]))


def _untimely(pane: int, versions: Versions, clock: Clock) -> tuple[Reason, str] | None:
    """Why a pane is not counted now."""
    query = versions.at(pane).query
    if versions.is_expired(pane):
        return Reason.EXPIRED, f"pane {pane} is not from {query.starts} until {query.until} (None: no limit)"
    if is_late(clock, pane, versions):
        return Reason.LATE, f"pane {pane} is closed since the log's time {versions.closes_after(pane)} ms"
    if is_future(clock, pane, versions):
        return Reason.FUTURE, f"pane {pane} starts more than {query.skew} s after the log's time, {clock} ms"
    return None


def _malformed_report(frame: Accepted) -> Refused | None:
    wrong = frame.query.oracle.check(frame.reports)
    return None if wrong is None else _malformed(frame.query, wrong, len(frame.reports))


def _malformed(query: Query, report: int, size: int) -> Refused:
    return Refused(Reason.MALFORMED, f"report {report} of {size} is malformed", query.name, size)


def _claimed(data: bytes | None) -> int:
    """How many reports a record counts for whose structure is refused."""
    head = header(data)
    return max(1, head.n) if head is not None and head.width and head.fits else 1
