"""The gate for runs of records: it judges one record of each kind, and unusual records one by one.

Frames of one kind differ only in ids and reports, and in the number of these. The verdict on one frame
of a kind holds for the others, if their pane is open at their clock and their ids belong on this
partition. All other records are judged one by one, each with its own clock, so both ways give the same
outcomes.
"""

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aggregator.counting.admission.gate import LASTING, AcceptedFrame, Gate, Outcome, Refusal, split_malformed
from aggregator.counting.admission.record_run import RecordRun, as_columns, records_at
from aggregator.counting.admission.verdict_cache import NOWHERE
from aggregator.tallies.clock import Clock, advance
from aggregator.tallies.frame_batch import FrameBatch
from aggregator.tallies.keys import Pane
from hubbub.kafka.columns import RecordColumns
from oracles.frame import HEADER_SIZE
from oracles.kernels import batches, c_library
from oracles.kernels.batches import MOST_KINDS, Kinds
from oracles.query import Query
from oracles.types import Flags, Ints, Reports

SINGLE_RECORDS = 16
"""The number of records from which on columns save time (benchmarks/admission.py)."""
_NO_VERDICT = -1
"""The number of kinds that have no verdict."""
_NO_CLOCK = -(1 << 62)
"""The clock of columns before the first tick of a log without times."""
_DIGEST = slice(8, 16)
_PANE = slice(16, 24)
_WIDTH = slice(6, 8)
"""The bytes of a report, in a header (docs/wire-format.md)."""
_ID = slice(24, 32)
_COUNT = slice(32, 36)
"""The number of reports."""
_ONE = (1).to_bytes(4, "little")
_FOR_EVER = 1 << 62
"""A clock that no partition reaches."""


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
    frames: list[tuple[int, AcceptedFrame]] = field(default_factory=list)
    """The offsets of the frames, and the frames."""
    clock: Clock = None
    """The clock after the last frame."""

    def join(self) -> FrameBatch:
        """Return the frames as one batch."""
        frames = [frame for _, frame in self.frames]
        offsets = [offset for offset, _ in self.frames]

        ids = [frame.id for frame in frames]
        groups = np.array([frame.group for frame in frames], np.uint8)
        return FrameBatch(
            offsets=offsets,
            sizes=[len(frame.reports) for frame in frames],
            ids=ids if any(ids) else None,
            reports=np.concatenate([frame.reports for frame in frames]),
            next_offset=offsets[-1] + 1,
            clock=self.clock,
            groups=groups if groups.any() else None,
        )


@dataclass(slots=True, eq=False)
class Outcomes:
    """The outcomes of records that are judged one by one."""

    pane_batches: dict[Pane, PaneBatch] = field(default_factory=dict)
    refusals: list[tuple[int, Refusal]] = field(default_factory=list)

    def add(self, offset: int, outcome: Outcome, clock: Clock) -> None:
        if isinstance(outcome, Refusal):
            self.refusals.append((offset, outcome))
        elif isinstance(outcome, AcceptedFrame):
            pane = outcome.query.digest, outcome.pane
            batch = self.pane_batches.setdefault(pane, PaneBatch(outcome.query))
            batch.frames.append((offset, outcome))
            batch.clock = clock

    def batches(self) -> dict[Pane, tuple[Query, FrameBatch]]:
        """Return the frames of well-formed reports by pane, and note the refusals of the others."""
        # The reports of a pane are checked together, because a check of few reports costs 4 us by itself.
        frames_by_pane: dict[Pane, tuple[Query, FrameBatch]] = {}
        for pane, batch in self.pane_batches.items():
            frames, refusals = split_malformed(batch.query, batch.join())
            self.refusals += refusals
            if frames is not None:
                frames_by_pane[pane] = batch.query, frames
        return frames_by_pane


def admit(gate: Gate, run: RecordRun, clock: Clock) -> Admission:
    """Admit the records of a run. The outcomes are those of `Gate.admit`."""
    admission = None
    if len(run) >= SINGLE_RECORDS:
        admission = admit_columns(gate, run, clock)
    return admission or _admit_singly(gate, run, clock)


def _admit_singly(gate: Gate, run: RecordRun, clock: Clock) -> Admission:
    outcomes = Outcomes()
    for offset, timestamp, data in run:
        if gate.log_has_time:
            clock = advance(clock, timestamp)
        outcome, clock = gate.judge(data, timestamp, clock)
        outcomes.add(offset, outcome, clock)

    frames_by_pane = outcomes.batches()
    refusals = sorted(outcomes.refusals, key=lambda pair: pair[0])
    return Admission(clock, frames_by_pane, refusals)


class PaneOfKinds(NamedTuple):
    """A pane whose frames are all accepted, or all refused with one refusal."""

    query: Query
    pane: int
    refusal: Refusal | None = None


class KindVerdicts:
    """The verdict on each kind of frame. The last one is for records that have no kind."""

    def __init__(self, kinds: int) -> None:
        count = kinds + 1
        self.pane: NDArray[np.int16] = np.full(count, _NO_VERDICT, np.int16)
        """The index of the pane, or _NO_VERDICT if the kind has no verdict."""
        self.group: NDArray[np.uint8] = np.zeros(count, np.uint8)
        """The group of the frames."""
        self.until: Ints = np.zeros(count, np.int64)
        """The last clock at which the verdict holds."""

        divisor, remainder = NOWHERE
        self.divisors: NDArray[np.uint64] = np.full(count, divisor, np.uint64)
        self.remainders: NDArray[np.uint64] = np.full(count, remainder, np.uint64)
        """The remainder of the ids that belong on this partition, after a division by their divisor."""
        self.bare: Flags = np.zeros(count, np.bool_)
        """Whether frames may have no id."""
        self.panes: list[PaneOfKinds] = []

    def set_place(self, kind: int, divisor: int, remainder: int) -> None:
        """Set the place of the ids of a kind."""
        self.divisors[kind] = divisor
        self.remainders[kind] = remainder


def admit_columns(gate: Gate, run: RecordRun, clock: Clock) -> Admission | None:
    """Admit at least one record by kinds. Return None if a tick moves the clock of a log without times."""
    columns = as_columns(run)
    clocks = _clocks(gate, columns, clock)
    kinds = _tell_kinds(columns)
    verdicts = _judge_kinds(gate, columns, clocks, kinds.firsts)
    has_id = kinds.ids != 0
    is_placed = kinds.ids % verdicts.divisors[kinds.kinds] == verdicts.remainders[kinds.kinds]
    fits = np.where(has_id, is_placed, verdicts.bare[kinds.kinds])
    is_open = (verdicts.pane[kinds.kinds] != _NO_VERDICT) & (clocks <= verdicts.until[kinds.kinds])
    is_usual = fits & is_open & (columns.sizes <= gate.limit)

    outcomes = Outcomes()
    unusual = np.flatnonzero(~is_usual)
    for index, (offset, timestamp, data) in zip(unusual.tolist(), records_at(run, unusual), strict=True):
        record_clock = _clock_at(clocks, index)
        outcome, later_clock = gate.judge(data, timestamp, record_clock)
        # A tick moves the clock of all records after it, so each of them needs a clock of its own.
        if later_clock != record_clock:
            return None
        outcomes.add(offset, outcome, record_clock)

    frames_by_pane = outcomes.batches()
    refusals = outcomes.refusals
    for number, indexes in _split_panes(verdicts.pane[kinds.kinds], is_usual):
        query, pane, refusal = verdicts.panes[number]
        batch = _join(columns, kinds, verdicts, indexes, query, _clock_at(clocks[indexes], -1))
        frames, frame_refusals = split_malformed(query, batch)
        refusals += frame_refusals
        if frames is None:
            continue
        if refusal is not None:
            pairs = zip(frames.offsets, frames.sizes, strict=True)
            refusals += [(int(offset), replace(refusal, reports=int(size))) for offset, size in pairs]
            continue

        key = query.digest, pane
        if key in frames_by_pane:
            frames = frames.merge(frames_by_pane[key][1])
        frames_by_pane[key] = query, frames

    # The order is that of records which are judged one by one, so both ways write the same refusals.
    refusals.sort(key=lambda pair: pair[0])
    in_order = dict(sorted(frames_by_pane.items(), key=lambda item: int(item[1][1].offsets[0])))
    return Admission(_clock_at(clocks, -1), in_order, refusals)


def _clocks(gate: Gate, columns: RecordColumns, clock: Clock) -> Ints:
    """Return the clock after each record. In a log without times it stays, as long as no tick comes."""
    if not gate.log_has_time:
        return np.full(len(columns), _NO_CLOCK if clock is None else clock, np.int64)
    clocks: Ints = np.maximum.accumulate(columns.times)
    return clocks if clock is None else np.maximum(clocks, clock)


def _clock_at(clocks: Ints, index: int) -> Clock:
    clock = int(clocks[index])
    return None if clock == _NO_CLOCK else clock


def _tell_kinds(columns: RecordColumns) -> Kinds:
    """Group the records by kind. Without compiled kernels this takes longer, with the same result."""
    if c_library.in_use():
        return batches.tell_kinds(columns.data, columns.places, columns.sizes)

    is_whole = columns.sizes >= HEADER_SIZE
    octets = np.frombuffer(columns.data, np.uint8)
    headers = octets[columns.places[is_whole, np.newaxis] + np.arange(HEADER_SIZE)]
    ids = np.zeros(len(columns), np.uint64)
    ids[is_whole] = np.ascontiguousarray(headers[:, _ID]).view("<u8")[:, 0]
    counts = np.ascontiguousarray(headers[:, _COUNT]).view("<u4")[:, 0].astype(np.int64)
    widths = np.ascontiguousarray(headers[:, _WIDTH]).view("<u2")[:, 0].astype(np.int64)
    # Frames of one kind may differ in these, so they must not tell kinds apart.
    headers[:, _ID] = 0
    headers[:, _COUNT] = 0

    numbers: dict[bytes, int] = {}
    names = headers.view(f"V{HEADER_SIZE}")[:, 0].tolist()
    has_kind = (counts > 0) & (columns.sizes[is_whole] == HEADER_SIZE + counts * widths)
    kinds = np.full(len(columns), _NO_VERDICT, np.int64)
    kinds[is_whole] = [
        numbers.setdefault(name, len(numbers)) if is_kind else _NO_VERDICT
        for name, is_kind in zip(names, has_kind.tolist(), strict=True)
    ]
    # The compiled kernels stop at so many kinds, and both ways must judge alike.
    kinds[kinds >= MOST_KINDS] = _NO_VERDICT
    firsts = np.unique(kinds, return_index=True)[1]
    return Kinds(kinds.astype(np.int16), ids, firsts[kinds[firsts] != _NO_VERDICT])


def _lasting_pane(gate: Gate, outcome: Outcome, clock: Clock) -> Pane | None:
    """Return the pane of a refusal that holds for all its later frames, or None for another outcome."""
    if not isinstance(outcome, Refusal) or outcome.reason not in LASTING or outcome.pane is None:
        return None
    return outcome.pane if gate.definitions[outcome.pane[0]].is_settled(clock) else None


def _judge_kinds(gate: Gate, columns: RecordColumns, clocks: Ints, firsts: Ints) -> KindVerdicts:
    """Judge the first frame of each kind, with one report alone and with an id that belongs on this partition."""
    verdicts = KindVerdicts(len(firsts))
    numbers: dict[Pane, int] = {}
    for kind, index in enumerate(firsts.tolist()):
        clock = _clock_at(clocks, index)
        start = int(columns.places[index])
        head = bytes(columns.data[start : start + HEADER_SIZE])
        name = head[: _ID.start] + head[_COUNT.stop :]
        verdict = gate.recall(name, clock)
        if verdict is None:
            place = gate.place_at(head[_DIGEST], int.from_bytes(head[_PANE], "little", signed=True))
            if place is None:
                continue
            outcome, _ = gate.judge(_sample(columns, start, place), clock, clock)
            refused_pane = _lasting_pane(gate, outcome, clock)
            if isinstance(outcome, Refusal) and refused_pane is not None:
                # The pane stays late or expired, so a flood of its frames gets one refusal.
                digest, pane = refused_pane
                query = gate.definitions[digest].at(pane).query
                verdicts.pane[kind] = len(verdicts.panes)
                verdicts.until[kind] = _FOR_EVER
                verdicts.bare[kind] = not query.require_id
                verdicts.set_place(kind, *place)
                verdicts.panes.append(PaneOfKinds(query, pane, outcome))
            if not isinstance(outcome, AcceptedFrame):
                continue
            verdict = gate.remember(name, outcome, clock)

        key = verdict.query.digest, verdict.pane
        if key not in numbers:
            numbers[key] = len(verdicts.panes)
            verdicts.panes.append(PaneOfKinds(verdict.query, verdict.pane))
        verdicts.pane[kind] = numbers[key]
        verdicts.group[kind] = verdict.group
        verdicts.until[kind] = verdict.until
        verdicts.bare[kind] = verdict.bare
        verdicts.set_place(kind, verdict.divisor, verdict.remainder)
    return verdicts


def _sample(columns: RecordColumns, start: int, place: tuple[int, int]) -> bytes:
    """Return the frame at a byte with its first report alone, and with an id that belongs on this partition."""
    head = bytes(columns.data[start : start + HEADER_SIZE])
    # An id of zeros means none, so the first slot takes the next id that belongs on it.
    divisor, remainder = place
    own_id = (remainder or divisor).to_bytes(8, "little")
    end = start + HEADER_SIZE + int.from_bytes(head[_WIDTH], "little")
    report = bytes(columns.data[start + HEADER_SIZE : end])
    return head[: _ID.start] + own_id + _ONE + head[_COUNT.stop :] + report


def _split_panes(panes: NDArray[np.int16], is_usual: Flags) -> list[tuple[int, "slice | Ints"]]:
    """Return the places of the usual frames by pane, in the order of the log."""
    # Most runs have one pane. A slice then saves a copy of each column.
    if is_usual.all() and (panes == panes[0]).all():
        return [(int(panes[0]), slice(None))]

    indexes = np.flatnonzero(is_usual)
    indexes = indexes[np.argsort(panes[indexes], kind="stable")]
    edges = np.flatnonzero(np.diff(panes[indexes])) + 1
    return [(int(panes[part[0]]), part) for part in np.split(indexes, edges) if len(part)]


def _join(
    columns: RecordColumns, kinds: Kinds, verdicts: KindVerdicts, indexes: "slice | Ints", query: Query, clock: Clock
) -> FrameBatch:
    """Return the frames at these places as one batch."""
    offsets = columns.offsets[indexes]
    ids = kinds.ids[indexes]
    groups = verdicts.group[kinds.kinds[indexes]]
    return FrameBatch(
        offsets=offsets,
        sizes=(columns.sizes[indexes] - HEADER_SIZE) // query.oracle.width,
        ids=ids if ids.any() else None,
        reports=_gather(columns, indexes, query.oracle.width),
        next_offset=int(offsets[-1]) + 1,
        clock=clock,
        groups=groups if groups.any() else None,
    )


def _gather(columns: RecordColumns, indexes: "slice | Ints", width: int) -> Reports:
    """Return the reports of the frames at these places, joined."""
    places = columns.places[indexes]
    sizes = columns.sizes[indexes]
    if c_library.in_use():
        return batches.gather(columns.data, places, sizes, width, HEADER_SIZE)

    ends = places + sizes
    pieces = [
        columns.data[start:end] for start, end in zip((places + HEADER_SIZE).tolist(), ends.tolist(), strict=True)
    ]
    return np.frombuffer(b"".join(pieces), np.uint8).reshape(-1, width)
