"""The gate, which accepts or refuses each record of the topic `reports`, or takes it as a tick.

The checks have a fixed order, so every reader gives the same reason. The last check, whether a
frame's id was counted before, is in `Tally.add`: only the tally knows that a frame which is read
again after a crash is no duplicate.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum

import numpy as np

from aggregator.counting.admission.verdict_cache import NOWHERE, KindVerdict, VerdictCache
from aggregator.tallies.clock import Clock, advance
from aggregator.tallies.frame_batch import FrameBatch
from aggregator.tallies.keys import Pane
from hubbub.definitions.versions import Versions
from hubbub.kafka.columns import UnreadableBatch
from hubbub.texts import few
from oracles.errors import FrameError
from oracles.frame import MAX_FRAME, NONE, Frame, decode, header, partition_of, place_in, slots
from oracles.query import Query
from oracles.types import Reports

Data = bytes | UnreadableBatch | None

TICK_STEP = 60_000
"""The most milliseconds by which a tick moves the clock of a log without times, where its writer chooses its time."""


class Reason(StrEnum):
    """Why a record is refused."""

    TOO_LARGE = "too_large"
    MALFORMED = "malformed"
    MISPLACED = "misplaced"
    UNKNOWN_QUERY = "unknown_query"
    STALE_DIGEST = "stale_digest"
    STOPPED = "stopped"
    EXPIRED = "expired"
    LATE = "late"
    FUTURE = "future"
    DUPLICATE = "duplicate"


def misplaced_reason(formats_version: int) -> Reason:
    """Return the reason for a frame on the wrong partition, as readers of this formats version know it."""
    return Reason.MISPLACED if formats_version >= 3 else Reason.MALFORMED


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
    place_reason: Reason = Reason.MISPLACED
    """The reason for frames on the wrong partition. Readers of formats below version 3 know `malformed` only."""
    _verdicts: VerdictCache = field(default_factory=VerdictCache, init=False, repr=False, compare=False)

    def admit(self, data: Data, timestamp: Clock, clock: Clock) -> tuple[Outcome, Clock]:
        """Return the outcome of one record, and the clock after it. The timestamp moves the clock before the checks."""
        if self.log_has_time:
            clock = advance(clock, timestamp)
        outcome, clock = self.judge(data, timestamp, clock)
        if isinstance(outcome, AcceptedFrame):
            outcome = _check_reports(outcome) or outcome
        return outcome, clock

    def recall(self, kind: bytes, clock: Clock) -> KindVerdict | None:
        """Return the verdict on a kind of frames, if it was accepted before and holds at this clock."""
        return self._verdicts.recall(kind, clock)

    def remember(self, kind: bytes, frame: AcceptedFrame, clock: Clock) -> KindVerdict:
        """Return the verdict on the kind of an accepted binary frame, and keep it if there is a clock."""
        divisor, remainder = self.place_of(frame.query) or NOWHERE
        verdict = KindVerdict(
            query=frame.query,
            pane=frame.pane,
            divisor=divisor,
            remainder=remainder,
            since=clock or 0,
            until=self.definitions[frame.query.digest].closes_after(frame.pane),
            group=frame.group,
        )
        # Before the first clock no frame is in the future, so the verdict could be wrong at a later clock.
        if clock is not None:
            self._verdicts.remember(kind, verdict)
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
            return TICK, self._after_tick(timestamp, clock)
        return self._judge_frame(frame, clock), clock

    def _after_tick(self, timestamp: Clock, clock: Clock) -> Clock:
        """Return the clock after a tick."""
        later_clock = advance(clock, timestamp)
        if self.log_has_time or clock is None or later_clock is None:
            return later_clock
        # One tick of a stranger could make all later reports late. The log alone decides, so a replay agrees.
        return min(later_clock, clock + TICK_STEP)

    def _judge_frame(self, frame: Frame, clock: Clock) -> AcceptedFrame | Refusal:
        # JSON states no n. Its reports can be counted only with the width of the query.
        size = max(1, frame.n or 0)
        versions = self.definitions.get(frame.digest)
        if versions is None and frame.digest in self.over:
            return Refusal(Reason.STALE_DIGEST, f"{frame.digest.hex()} is retired", self.over[frame.digest], size)
        # Otherwise a reader that knows a newer version would refuse a frame of far panes for another reason.
        versions = versions and versions.known_at(clock)
        # Workers forget a retired definition at different times, and must name the same reason.
        if versions is not None and versions.is_over(clock):
            return Refusal(Reason.STALE_DIGEST, f"{frame.digest.hex()} is retired", versions.query.name, size)
        if versions is None:
            return Refusal(Reason.UNKNOWN_QUERY, f"no query has the digest {frame.digest.hex()}", None, size)

        start, query, retired, is_stopped = versions.at(frame.pane)
        name = query.name
        if is_stopped and not retired:
            return Refusal(Reason.STOPPED, f"{name} is stopped from pane {start} on", name, size)
        if retired:
            return Refusal(Reason.STALE_DIGEST, f"{frame.digest.hex()} is retired from pane {start} on", name, size)
        if frame.pane < start:
            detail = f"{frame.digest.hex()} is counted from pane {start} on"
            return Refusal(Reason.UNKNOWN_QUERY, detail, name, size)

        try:
            frame = frame.shaped(query.oracle.width)
            group = frame.group_in(query.groups)
        except FrameError as error:
            return Refusal(Reason(error.reason), error.detail, name, size)

        size = len(frame.reports)
        fault = _find_fault(frame, query)
        if fault is not None:
            return Refusal(Reason.MALFORMED, fault, name, size)

        # A frame is misplaced or late only if nothing else is wrong with it, so its reports are checked here already.
        acceptance = AcceptedFrame(query, frame.pane, frame.id, frame.reports, group)
        is_placed = self._is_placed(frame.id, query)
        timing = _timing_fault(frame.pane, versions, clock)
        if is_placed and timing is None:
            return acceptance

        report_refusal = _check_reports(acceptance)
        if report_refusal is not None:
            return report_refusal
        if timing is None or not is_placed:
            return Refusal(self.place_reason, self._place_text(frame.id, query), name, size)
        return Refusal(*timing, name, size, (frame.digest, frame.pane))

    def place_of(self, query: Query) -> tuple[int, int] | None:
        """Return the divisor and the remainder of the ids that belong here, or None if no frame of the query does."""
        return place_in(query.digest, query.spread, self.partitions, self.partition)

    def place_at(self, digest: bytes, pane: int) -> tuple[int, int] | None:
        """Return the same for the version that applies to a pane. No frame of an unknown query belongs here."""
        versions = self.definitions.get(digest)
        return None if versions is None else self.place_of(versions.at(pane).query)

    def _is_placed(self, frame_id: bytes | None, query: Query) -> bool:
        """Whether a frame belongs on this partition. One without an id belongs on every slot."""
        place = self.place_of(query)
        if place is None:
            return False
        return frame_id is None or int.from_bytes(frame_id, "little") % place[0] == place[1]

    def _place_text(self, frame_id: bytes | None, query: Query) -> str:
        if frame_id is not None:
            return f"belongs on partition {partition_of(frame_id, self.partitions, query.digest, query.spread)}"
        places = slots(query.digest, query.spread, self.partitions)
        return f"belongs on partitions {few([str(partition) for partition in places])}"


def _find_fault(frame: Frame, query: Query) -> str | None:
    """Return the fault in the pane of a frame, or in its missing id, or None."""
    if frame.pane % query.pane:
        return f"pane {frame.pane} is not a multiple of {query.pane}"
    if frame.id is None and query.require_id:
        return "the frame has no id, but the query requires one"
    return None


def split_malformed(query: Query, frames: FrameBatch) -> tuple[FrameBatch | None, list[tuple[int, Refusal]]]:
    """Return the frames of well-formed reports, or None, and the refusals of the other frames."""
    is_malformed = query.oracle.malformed(frames.reports)
    if is_malformed is None:
        return frames, []

    # The reports of all frames lie in a row, so the sums of the sizes tell the frame of each report.
    sizes = np.asarray(frames.sizes)
    ends = np.cumsum(sizes)
    malformed_reports = np.flatnonzero(is_malformed)
    indexes, firsts = np.unique(np.searchsorted(ends, malformed_reports, side="right"), return_index=True)

    # A refusal names only the first malformed report, counted from the start of its frame.
    starts = ends[indexes] - sizes[indexes]
    places = malformed_reports[firsts] - starts
    refusals = [
        (int(frames.offsets[index]), _malformed_refusal(query, place, int(sizes[index])))
        for index, place in zip(indexes.tolist(), places.tolist(), strict=True)
    ]

    is_well_formed = np.ones(len(sizes), np.bool_)
    is_well_formed[indexes] = False
    remaining = frames.select(is_well_formed) if is_well_formed.any() else None
    return remaining, refusals


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
