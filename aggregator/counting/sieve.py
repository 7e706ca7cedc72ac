"""The gate for records that are columns: one judgement a header, whatever is odd record by record.

Frames that differ in nothing but ids and reports are judged by one of them. That holds for all of
them while the clock stays below their pane's closing, and where their ids belong here; every other
record goes the way of `Gate.sift`, with the clock as it stood at it. So both say the same of the same log.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aggregator.counting.admission import Accepted, Gate, Key, Refused, Sifted, sorted_out
from aggregator.counting.clock import Clock
from aggregator.counting.frames import Frames
from hubbub.columns import Columns
from oracles.frame import HEADER_SIZE, with_id
from oracles.kernels import batches
from oracles.query import Query
from oracles.types import Flags, Ints

_NONE = -1


class _Verdicts(NamedTuple):
    """The judgement of each kind of frame; the last one is of what has no kind."""

    group: NDArray[np.int16]
    """Of one query and pane; _NONE where it is not known to be welcome."""
    until: Ints
    """The last clock at which it is in time."""
    bare: Flags
    """Whether it may come without an id."""
    size: Ints
    """How many reports a frame holds."""
    groups: list[tuple[Query, int]]


def sift(gate: Gate, columns: Columns, clock: Clock) -> Sifted:
    """`Gate.sift` for columns, of which there is at least one; their times are the log's own."""
    clocks = np.maximum.accumulate(columns.times)
    if clock is not None:
        clocks = np.maximum(clocks, clock)
    told = batches.tell_kinds(columns.data, columns.places, columns.sizes)
    verdicts = _judged(gate, columns, clocks, told.firsts)
    named = told.ids != 0
    fits = np.where(named, told.ids % np.uint64(gate.partitions) == gate.partition, verdicts.bare[told.kinds])
    good = fits & (verdicts.group[told.kinds] != _NONE) & (clocks <= verdicts.until[told.kinds])
    found: dict[Key, tuple[Query, Frames]] = {}
    refused: list[tuple[int, Refused]] = []
    for group, where in _sorted(verdicts.group[told.kinds], good):
        query, pane = verdicts.groups[group]
        offsets, sizes = columns.offsets[where], columns.sizes[where]
        ids = told.ids[where]
        frames = Frames(
            offsets,
            verdicts.size[told.kinds[where]],
            ids if ids.any() else None,
            batches.gather(columns.data, columns.places[where], sizes, query.oracle.width, HEADER_SIZE),
            int(offsets[-1]) + 1,
            int(clocks[where][-1]),
        )
        kept, faults = sorted_out(query, frames)
        refused += faults
        if kept is not None:
            found[query.digest, pane] = query, kept
    if not good.all():
        odd = np.flatnonzero(~good)
        slow = gate.sift([(at, now, value) for (at, _, value), now in _with_clocks(columns, clocks, odd)], clock)
        refused += slow.refused
        for key, (query, frames) in slow.accepted.items():
            found[key] = query, found[key][1].merged(frames) if key in found else frames
    refused.sort(key=lambda pair: pair[0])
    return Sifted(int(clocks[-1]), dict(sorted(found.items(), key=lambda item: int(item[1][1].offsets[0]))), refused)


def _with_clocks(columns: Columns, clocks: Ints, which: Ints) -> "zip[tuple[tuple[int, int, bytes], int]]":
    """Some of the records, each with the clock as it stood at it."""
    return zip(columns.some(which).records(), clocks[which].tolist(), strict=True)


def _judged(gate: Gate, columns: Columns, clocks: Ints, firsts: Ints) -> _Verdicts:
    """The judgement of each kind by its first frame, with an id that belongs here in place of its own."""
    count = len(firsts) + 1
    group, until = np.full(count, _NONE, np.int16), np.zeros(count, np.int64)
    bare, size = np.zeros(count, np.bool_), np.zeros(count, np.int64)
    numbers: dict[tuple[bytes, int], int] = {}
    groups: list[tuple[Query, int]] = []
    here = (gate.partition or gate.partitions).to_bytes(8, "little")
    for kind, first in enumerate(firsts.tolist()):
        now = int(clocks[first])
        outcome, _ = gate.weigh(with_id(columns.value(first), here), now, now)
        if not isinstance(outcome, Accepted):
            continue
        query, pane = outcome.query, outcome.pane
        number = numbers.setdefault((query.digest, pane), len(groups))
        if number == len(groups):
            groups.append((query, pane))
        group[kind], until[kind] = number, gate.definitions[query.digest].closes_after(pane)
        bare[kind], size[kind] = not query.require_id, len(outcome.reports)
    return _Verdicts(group, until, bare, size, groups)


def _sorted(groups: NDArray[np.int16], good: Flags) -> list[tuple[int, "slice | Ints"]]:
    """Of each group of the good frames where they stand, in their order."""
    if good.all() and (groups == groups[0]).all():
        return [(int(groups[0]), slice(None))]
    where = np.flatnonzero(good)
    where = where[np.argsort(groups[where], kind="stable")]
    edges = np.flatnonzero(np.diff(groups[where])) + 1
    return [(int(groups[part[0]]), part) for part in np.split(where, edges) if len(part)]
