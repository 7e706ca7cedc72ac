"""The gate, which accepts or refuses each record of the topic `reports`, or takes it as a tick.

The checks have a fixed order, so every reader gives the same reason. The last check, whether a
frame's id was counted before, is in `Tally.add`: only the tally knows that a frame which is read
again after a crash is no duplicate.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import NamedTuple

import numpy as np

from aggregator.tallies.clock import Clock, advance
from aggregator.tallies.frame_batch import FrameBatch
from aggregator.tallies.keys import Pane
from hubbub.definitions.versions import Versions
from hubbub.kafka.columns import UnreadableBatch
from oracles.errors import FrameError
from oracles.frame import HEADER_SIZE, MAX_FRAME, NONE, Frame, decode, header, split
from oracles.query import Query
from oracles.types import Reports

Data = bytes | UnreadableBatch | None
_Piece = tuple[int, bytes, bytes]
"""The offset of a frame, its id or zeros, and its reports."""

MOST_VERDICTS = 1024
"""The most verdicts that a gate keeps. Strangers can send any number of kinds."""
_FOR_EVER = 1 << 62
"""A clock that no partition reaches."""


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


LASTING = (Reason.LATE, Reason.EXPIRED)
"""Reasons that hold for all later frames of the same pane."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """The refusal of one record."""

    reason: Reason
    detail: str
    query: str | None
    """The name of the query, or None if it is unknown."""
    reports: int
    """The number of refused reports: n of the header if it fits the length of the record, otherwise 1."""
    pane: Pane | None = field(default=None, compare=False)
    """The digest and pane of a well-formed frame that comes at the wrong time."""


@dataclass(frozen=True, slots=True, eq=False)
class AcceptedFrame:
    """A frame that passes all checks of the gate. Its id may still be a duplicate."""

    query: Query
    pane: int
    id: bytes | None
    reports: Reports
    group: int
    """The number of its group in the query of its pane."""


class Tick(Enum):
    """A record that only moves the clock."""

    TICK = "tick"


TICK = Tick.TICK
Outcome = AcceptedFrame | Refusal | Tick


class KindVerdict(NamedTuple):
    """The acceptance of all frames with the same header, except for the id, for as long as the pane is open."""

    query: Query
    pane: int
    size: int
    """The bytes of a frame."""
    reports: int
    """The number of reports of a frame."""
    since: int
    """The clock at which the first of them was judged. A frame that was in the future before is not any more."""
    until: int
    """The last clock at which the pane is open."""
    group: int

    @property
    def bare(self) -> bool:
        """Whether frames may have no id."""
        return not self.query.require_id


@dataclass(frozen=True)
class Gate:
    """The checks of one partition before its tallies."""

    partition: int
    partitions: int
    definitions: Mapping[bytes, Versions]
    """The definitions by digest, with retired ones, because reports of their earlier panes may still come."""
    log_has_time: bool = True
    """Whether the broker stamps each record. If not, only ticks move the clock."""
    limit: int = MAX_FRAME
    """The most bytes of a frame."""
    over: Mapping[bytes, str] = field(default_factory=dict)
    """The names by digest of forgotten definitions: they are retired, and none of their panes is open."""
    _verdicts: dict[bytes, KindVerdict] = field(default_factory=dict, init=False, repr=False, compare=False)
    """The newest verdicts by kind, so that a frame of every query is not judged anew in each fetch."""

    def admit(self, data: Data, timestamp: Clock, clock: Clock) -> tuple[Outcome, Clock]:
        """Return the outcome of one record, and the clock after it. The timestamp moves the clock before the checks."""
        if self.log_has_time:
            clock = advance(clock, timestamp)
        outcome, clock = self.judge(data, timestamp, clock)
        if isinstance(outcome, AcceptedFrame):
            outcome = _check_reports(outcome) or outcome
        return outcome, clock

    def admit_records(self, run: Iterable[tuple[int, Clock, Data]], clock: Clock) -> "Admission":
        """Admit a run of (offset, timestamp, data), thousands of records at a time.

        The outcome is that of `admit`. Most records differ from an earlier one only in id and
        reports. The gate recognises these by the header, and checks all reports of a pane at once.
        """
        pane_batches: dict[Pane, PaneBatch] = {}
        untimely: list[PaneBatch] = []
        kinds: dict[bytes, tuple[int, int, bool, int, PaneBatch]] = {}
        refusals: list[tuple[int, Refusal]] = []
        for offset, timestamp, data in run:
            if self.log_has_time and timestamp is not None and (clock is None or timestamp > clock):
                clock = timestamp
            raw = data if isinstance(data, bytes) else b""
            kind, frame_id, reports = split(raw)
            match = kinds.get(kind)
            if match is None and (verdict := self.recall(kind, clock)) is not None:
                batch = pane_batches.setdefault((verdict.query.digest, verdict.pane), PaneBatch(verdict.query))
                match = kinds[kind] = verdict.size, verdict.until, verdict.bare, verdict.group, batch
            if raw and match is not None:
                size, last, bare, group, batch = match
                fits = len(raw) == size and (clock is None or clock <= last)
                if fits and (bare if frame_id == NONE else self._home(frame_id) == self.partition):
                    if group:
                        batch.groups[len(batch.frames)] = group
                    batch.frames.append((offset, frame_id, reports))
                    batch.clock = clock
                    continue
            outcome, after = self.judge(data, timestamp, clock)
            if after != clock:
                kinds.clear()  # before the first timestamp no frame was in the future
                clock = after
            if isinstance(outcome, Refusal):
                refusals.append((offset, outcome))
                head = header(raw) if outcome.reason in LASTING else None
                if head is not None:
                    query = self.definitions[head.digest].at(head.pane).query
                    untimely.append(PaneBatch(query, outcome))
                    kinds[kind] = len(raw), _FOR_EVER, not query.require_id, 0, untimely[-1]
            elif isinstance(outcome, AcceptedFrame):
                query = outcome.query
                batch = pane_batches.setdefault((query.digest, outcome.pane), PaneBatch(query))
                if outcome.group:
                    batch.groups[len(batch.frames)] = outcome.group
                batch.frames.append((offset, outcome.id or NONE, outcome.reports.tobytes()))
                batch.clock = clock
                if header(raw) is not None:
                    verdict = self.remember(kind, outcome, clock)
                    kinds[kind] = len(raw), verdict.until, verdict.bare, verdict.group, batch
        for batch in untimely:
            refusals += batch.refusals()
        batches: dict[Pane, tuple[Query, FrameBatch]] = {}
        for pane, batch in pane_batches.items():
            if not batch.frames:
                continue  # the only frame of a known kind was refused, for its id
            frames, faults = batch.split_malformed()
            refusals += faults
            if frames is not None:
                batches[pane] = batch.query, frames
        refusals.sort(key=lambda pair: pair[0])
        return Admission(clock, batches, refusals)

    def recall(self, kind: bytes, clock: Clock) -> KindVerdict | None:
        """Return the verdict on a kind of frames, if it was accepted before and this clock is not earlier."""
        verdict = self._verdicts.get(kind)
        return verdict if verdict is not None and clock is not None and clock >= verdict.since else None

    def remember(self, kind: bytes, frame: AcceptedFrame, clock: Clock) -> KindVerdict:
        """Return the verdict on the kind of an accepted binary frame, and keep it if there is a clock."""
        query, n = frame.query, len(frame.reports)
        size, until = HEADER_SIZE + n * query.oracle.width, self.definitions[query.digest].closes_after(frame.pane)
        verdict = KindVerdict(query, frame.pane, size, n, clock or 0, until, frame.group)
        if clock is not None:
            if len(self._verdicts) >= MOST_VERDICTS:
                self._verdicts.clear()
            self._verdicts[kind] = verdict
        return verdict

    def judge(self, data: Data, timestamp: Clock, clock: Clock) -> tuple[Outcome, Clock]:
        """Return the outcome of one record, and the clock after it, without a check of the reports themselves."""
        if isinstance(data, UnreadableBatch):
            return Refusal(Reason(data.reason), data.detail, None, data.records), clock
        try:
            frame = decode(data, self.limit)
        except FrameError as error:
            return Refusal(Reason(error.reason), error.detail, None, _claimed_reports(data)), clock
        if frame.is_tick:
            return TICK, advance(clock, timestamp)
        return self._judge_frame(frame, clock), clock

    def _judge_frame(self, frame: Frame, clock: Clock) -> AcceptedFrame | Refusal:
        size, versions = max(1, frame.n or 0), self.definitions.get(frame.digest)
        if versions is None and frame.digest in self.over:
            return Refusal(Reason.STALE_DIGEST, f"{frame.digest.hex()} is retired", self.over[frame.digest], size)
        if versions is None:
            return Refusal(Reason.UNKNOWN_QUERY, f"no query has the digest {frame.digest.hex()}", None, size)
        first, query, retired = versions.at(frame.pane)
        name = query.name
        if retired:
            return Refusal(Reason.STALE_DIGEST, f"{frame.digest.hex()} is retired from pane {first} on", name, size)
        if frame.pane < first:
            detail = f"{frame.digest.hex()} is counted from pane {first} on"
            return Refusal(Reason.UNKNOWN_QUERY, detail, name, size)
        try:
            frame = frame.shaped(query.oracle.width)
            group = frame.group_in(query.groups)
        except FrameError as error:
            return Refusal(Reason(error.reason), error.detail, name, size)
        size = len(frame.reports)
        fault = self._find_fault(frame, query)
        if fault is not None:
            return Refusal(Reason.MALFORMED, fault, name, size)
        acceptance = AcceptedFrame(query, frame.pane, frame.id, frame.reports, group)
        timing = _timing_fault(frame.pane, versions, clock)
        if timing is None:
            return acceptance
        return _check_reports(acceptance) or Refusal(*timing, name, size, (frame.digest, frame.pane))

    def _find_fault(self, frame: Frame, query: Query) -> str | None:
        """Return the fault in the pane or the id of a frame, or None."""
        if frame.pane % query.pane:
            return f"pane {frame.pane} is not a multiple of {query.pane}"
        if frame.id is None:
            return "the frame has no id, but the query requires one" if query.require_id else None
        home = self._home(frame.id)
        if home != self.partition:
            return f"id {frame.id.hex()} belongs on partition {home}"
        return None

    def _home(self, frame_id: bytes) -> int:
        """Return the partition of an id, like `partition_of` but without its checks."""
        return int.from_bytes(frame_id, "little") % self.partitions


@dataclass(frozen=True, slots=True, eq=False)
class Admission:
    """The outcomes of a run of records."""

    clock: Clock
    """The clock after the run."""
    batches: dict[Pane, tuple[Query, FrameBatch]]
    """The accepted frames by pane."""
    refusals: list[tuple[int, Refusal]]
    """The refusals with the offsets of their records, ascending."""


@dataclass(slots=True, eq=False)
class PaneBatch:
    """Frames of one pane, collected in the order of the log."""

    query: Query
    refusal: Refusal | None = None
    """The refusal of all well-formed frames of the pane, if they are late or expired."""
    frames: list[_Piece] = field(default_factory=list)
    groups: dict[int, int] = field(default_factory=dict)
    """The groups of frames by their index. Other frames are of group 0."""
    clock: Clock = None
    """The clock after the last frame."""

    def refusals(self) -> list[tuple[int, Refusal]]:
        """Return the refusals of the frames, if they are late or expired."""
        if self.refusal is None or not self.frames:
            return []
        refusal, (frames, faults) = self.refusal, self.split_malformed()
        return faults + [(offset, refusal) for offset in (frames.offsets if frames else ())]

    def split_malformed(self) -> tuple[FrameBatch | None, list[tuple[int, Refusal]]]:
        """Return the frames of well-formed reports, or None, and the refusals of the other frames."""
        width = self.query.oracle.width
        offsets, ids, pieces = map(list, zip(*self.frames, strict=True))
        reports = np.frombuffer(b"".join(pieces), np.uint8).reshape(-1, width)
        sizes = np.array([len(piece) // width for piece in pieces])
        names = [None if name == NONE else name for name in ids] if any(map(NONE.__ne__, ids)) else None
        groups = None
        if self.groups:
            groups = np.zeros(len(offsets), np.uint8)
            groups[list(self.groups)] = list(self.groups.values())
        frames = FrameBatch(offsets, sizes, names, reports, offsets[-1] + 1, self.clock, groups)
        return split_malformed(self.query, frames)


def split_malformed(query: Query, frames: FrameBatch) -> tuple[FrameBatch | None, list[tuple[int, Refusal]]]:
    """Return the frames of well-formed reports, or None, and the refusals of the other frames."""
    wrong = query.oracle.malformed(frames.reports)
    if wrong is None:
        return frames, []
    sizes = np.asarray(frames.sizes)
    ends = np.cumsum(sizes)
    at = np.flatnonzero(wrong)
    bad, firsts = np.unique(np.searchsorted(ends, at, side="right"), return_index=True)
    places = at[firsts] - ends[bad] + sizes[bad]
    faults = [
        (int(frames.offsets[index]), _malformed_refusal(query, report, int(sizes[index])))
        for index, report in zip(bad.tolist(), places.tolist(), strict=True)
    ]
    good = np.ones(len(sizes), np.bool_)
    good[bad] = False
    return (frames.select(good) if good.any() else None), faults


def duplicate_refusal(query: Query, frames: FrameBatch, index: int) -> Refusal:
    """Return the refusal of the frame at `index`, whose id was counted before."""
    detail = f"id {(frames.id_at(index) or NONE).hex()} was counted before"
    return Refusal(Reason.DUPLICATE, detail, query.name, int(frames.sizes[index]))


def _timing_fault(pane: int, versions: Versions, clock: Clock) -> tuple[Reason, str] | None:
    """Return why reports of a pane do not count at this clock, or None if they count."""
    query = versions.at(pane).query
    match versions.untimely(pane, clock):
        case "expired":
            return Reason.EXPIRED, f"pane {pane} is outside of {query.starts} to {query.until} (None: no limit)"
        case "late":
            return Reason.LATE, f"pane {pane} closed at log time {versions.closes_after(pane)} ms"
        case "future":
            return Reason.FUTURE, f"pane {pane} starts more than {query.skew} s after the log time {clock} ms"
    return None


def _check_reports(frame: AcceptedFrame) -> Refusal | None:
    index = frame.query.oracle.check(frame.reports)
    return None if index is None else _malformed_refusal(frame.query, index, len(frame.reports))


def _malformed_refusal(query: Query, report: int, size: int) -> Refusal:
    return Refusal(Reason.MALFORMED, f"report {report} of {size} is malformed", query.name, size)


def _claimed_reports(data: bytes | None) -> int:
    """Return the number of reports to count for a record that is no valid frame."""
    head = header(data)
    return max(1, head.n) if head is not None and head.width and head.fits else 1
