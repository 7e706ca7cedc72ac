"""The gate for columns of records: it judges one record of each kind, and unusual records one by one.

Frames of one kind differ only in ids and reports. The verdict on one frame of a kind holds for the
others, if their pane is open at their clock and their ids belong on this partition. All other
records go through `Gate.admit_records`, each with its own clock. So both gates give the same outcomes.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aggregator.counting.admission.gate import AcceptedFrame, Admission, Gate, Refusal, split_malformed
from aggregator.tallies.clock import Clock
from aggregator.tallies.frame_batch import FrameBatch
from aggregator.tallies.keys import Pane
from hubbub.kafka.columns import RecordColumns
from oracles.frame import HEADER_SIZE, split, with_id
from oracles.kernels import batches
from oracles.query import Query
from oracles.types import Flags, Ints

_NONE = -1
"""The pane of kinds that have no verdict."""


class KindVerdicts(NamedTuple):
    """The verdict on each kind of frame. The last one is for records that have no kind."""

    pane: NDArray[np.int16]
    """The index of the query and pane, or _NONE if the kind is not accepted."""
    group: NDArray[np.uint8]
    """The group of the frames."""
    until: Ints
    """The last clock at which the kind is in time."""
    bare: Flags
    """Whether frames may have no id."""
    size: Ints
    """The number of reports in a frame."""
    panes: list[tuple[Query, int]]
    """The queries and their panes."""


def admit_columns(gate: Gate, columns: RecordColumns, clock: Clock) -> Admission:
    """Admit columns of at least one record, whose timestamps are log times, with the outcomes of the gate."""
    clocks = np.maximum.accumulate(columns.times)
    if clock is not None:
        clocks = np.maximum(clocks, clock)
    kinds = batches.tell_kinds(columns.data, columns.places, columns.sizes)
    verdicts = _judge_kinds(gate, columns, clocks, kinds.firsts)
    has_id = kinds.ids != 0
    fits = np.where(has_id, kinds.ids % np.uint64(gate.partitions) == gate.partition, verdicts.bare[kinds.kinds])
    good = fits & (verdicts.pane[kinds.kinds] != _NONE) & (clocks <= verdicts.until[kinds.kinds])
    frames_by_pane: dict[Pane, tuple[Query, FrameBatch]] = {}
    refusals: list[tuple[int, Refusal]] = []
    has_groups = verdicts.group.any()
    for index, indexes in _split_panes(verdicts.pane[kinds.kinds], good):
        query, pane = verdicts.panes[index]
        offsets, sizes = columns.offsets[indexes], columns.sizes[indexes]
        ids = kinds.ids[indexes]
        groups = verdicts.group[kinds.kinds[indexes]] if has_groups else None
        frames = FrameBatch(
            offsets,
            verdicts.size[kinds.kinds[indexes]],
            ids if ids.any() else None,
            batches.gather(columns.data, columns.places[indexes], sizes, query.oracle.width, HEADER_SIZE),
            int(offsets[-1]) + 1,
            int(clocks[indexes][-1]),
            groups if groups is not None and groups.any() else None,
        )
        good_frames, faults = split_malformed(query, frames)
        refusals += faults
        if good_frames is not None:
            frames_by_pane[query.digest, pane] = query, good_frames
    if not good.all():
        odd = np.flatnonzero(~good)
        slow = gate.admit_records(
            [(at, now, value) for (at, _, value), now in _with_clocks(columns, clocks, odd)], clock
        )
        refusals += slow.refusals
        for key, (query, frames) in slow.batches.items():
            frames_by_pane[key] = query, frames_by_pane[key][1].merge(frames) if key in frames_by_pane else frames
    refusals.sort(key=lambda pair: pair[0])
    in_order = dict(sorted(frames_by_pane.items(), key=lambda item: int(item[1][1].offsets[0])))
    return Admission(int(clocks[-1]), in_order, refusals)


def _with_clocks(columns: RecordColumns, clocks: Ints, indexes: Ints) -> "zip[tuple[tuple[int, int, bytes], int]]":
    """Return some of the records, each with its clock."""
    return zip(columns.select(indexes).records(), clocks[indexes].tolist(), strict=True)


def _judge_kinds(gate: Gate, columns: RecordColumns, clocks: Ints, firsts: Ints) -> KindVerdicts:
    """Judge the first frame of each kind. An id that belongs on this partition replaces its own id."""
    count = len(firsts) + 1
    place, group = np.full(count, _NONE, np.int16), np.zeros(count, np.uint8)
    until, bare, size = np.zeros(count, np.int64), np.zeros(count, np.bool_), np.zeros(count, np.int64)
    numbers: dict[tuple[bytes, int], int] = {}
    panes: list[tuple[Query, int]] = []
    here = (gate.partition or gate.partitions).to_bytes(8, "little")
    for kind, first in enumerate(firsts.tolist()):
        now = int(clocks[first])
        frame = columns.value(first)
        name = split(frame)[0]
        verdict = gate.recall(name, now)
        if verdict is None or len(frame) != verdict.size:
            outcome, _ = gate.judge(with_id(frame, here), now, now)
            if not isinstance(outcome, AcceptedFrame):
                continue
            verdict = gate.remember(name, outcome, now)
        number = numbers.setdefault((verdict.query.digest, verdict.pane), len(panes))
        if number == len(panes):
            panes.append((verdict.query, verdict.pane))
        place[kind], group[kind] = number, verdict.group
        until[kind], bare[kind], size[kind] = verdict.until, verdict.bare, verdict.reports
    return KindVerdicts(place, group, until, bare, size, panes)


def _split_panes(panes: NDArray[np.int16], good: Flags) -> list[tuple[int, "slice | Ints"]]:
    """Return the places of the good frames by pane, in the order of the log."""
    if good.all() and (panes == panes[0]).all():
        return [(int(panes[0]), slice(None))]
    indexes = np.flatnonzero(good)
    indexes = indexes[np.argsort(panes[indexes], kind="stable")]
    edges = np.flatnonzero(np.diff(panes[indexes])) + 1
    return [(int(panes[part[0]]), part) for part in np.split(indexes, edges) if len(part)]
