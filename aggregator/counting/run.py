"""Runs: consecutive records of one partition, as columns or one by one; either way they are counted alike."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import numpy as np

from aggregator.counting import sieve
from aggregator.counting.admission import Data, Gate, Sifted
from aggregator.counting.clock import Clock
from hubbub.columns import Columns
from hubbub.definitions.corrections import Correction, corrected

Records = Sequence[tuple[int, int, Data]]
Run = Records | Columns
"""Of (offset, timestamp, data), in order and without a hole that is not the log's own."""

FEW = 64
"""Records below which columns cost more than they save."""


def since(run: Run, offset: int) -> Run:
    """The records from this offset on."""
    if isinstance(run, Columns):
        return run.since(offset)
    return [record for record in run if record[0] >= offset] if run and run[0][0] < offset else run


def first(run: Run) -> int:
    return int(run.first) if isinstance(run, Columns) else run[0][0]


def next_offset(run: Run) -> int:
    return (run.last if isinstance(run, Columns) else run[-1][0]) + 1


def pieces(run: Run, corrections: Sequence[Correction]) -> Iterable[Run]:
    """The run, cut where a correction begins."""
    if not corrections or not run:
        return [run] if run else []
    return cut(run.records() if isinstance(run, Columns) else run, corrections)


def cut(records: Records, corrections: Iterable[Correction]) -> Iterator[Records]:
    """The records, cut where a correction begins: what that changes is judged by the clock right before it."""
    edges = sorted({bisect_left(records, one.first, key=lambda record: record[0]) for one in corrections})
    for start, end in pairwise([0, *(edge for edge in edges if 0 < edge < len(records)), len(records)]):
        if start < end:
            yield records[start:end]


def sift(gate: Gate, run: Run, corrections: Iterable[Correction], clock: Clock) -> Sifted:
    """The outcomes of the records of a run. Those whose time may not be the log's own go one by one."""
    if not isinstance(run, Columns):
        return gate.sift(corrected(run, corrections), clock)
    if len(run) < FEW or gate.embedded or any(True for _ in corrections):
        return gate.sift(corrected(run.records(), corrections), clock)
    return sieve.sift(gate, run, clock)


def values_at(run: Run, offsets: Iterable[int]) -> dict[int, Data]:
    """The values at some of its offsets."""
    if not isinstance(run, Columns):
        return {offset: value for offset, _, value in run}
    return {offset: value for offset, _, value in run.some(np.searchsorted(run.offsets, sorted(set(offsets))))}
