"""Runs of consecutive records of one partition, as columns or as a list. Both count the same."""

from collections.abc import Iterable, Sequence

import numpy as np

from aggregator.counting.admission.gate import Data
from hubbub.kafka.columns import RecordColumns
from oracles.types import Ints

Records = Sequence[tuple[int, int, Data]]
RecordRun = Records | RecordColumns
"""Records of (offset, timestamp, data) in order, without gaps except those of the log."""


def records_from(run: RecordRun, offset: int) -> RecordRun:
    """Return the records from this offset on."""
    if isinstance(run, RecordColumns):
        return run.since(offset)
    if not run or run[0][0] >= offset:
        return run
    return [record for record in run if record[0] >= offset]


def next_offset(run: RecordRun) -> int:
    """Return the offset after the last record."""
    last_offset = run.last if isinstance(run, RecordColumns) else run[-1][0]
    return last_offset + 1


def as_columns(run: RecordRun) -> RecordColumns:
    """Return the columns of a run. A record without readable bytes becomes an empty one, which has no kind."""
    if isinstance(run, RecordColumns):
        return run
    return RecordColumns.of(
        [(offset, timestamp, data if isinstance(data, bytes) else b"") for offset, timestamp, data in run]
    )


def records_at(run: RecordRun, indexes: Ints) -> Records:
    """Return the records at these indexes."""
    if isinstance(run, RecordColumns):
        return run.select(indexes).records()
    return [run[index] for index in indexes.tolist()]


def values_at(run: RecordRun, offsets: Iterable[int]) -> dict[int, Data]:
    """Return the values at these offsets, and for a list all values."""
    if not isinstance(run, RecordColumns):
        return {offset: value for offset, _, value in run}
    return {offset: value for offset, _, value in run.select(np.searchsorted(run.offsets, sorted(set(offsets))))}
