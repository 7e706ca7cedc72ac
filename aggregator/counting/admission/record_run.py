"""Runs of consecutive records of one partition, as columns or as a list. Both count the same."""

from collections.abc import Iterable, Sequence

import numpy as np

from aggregator.counting.admission import columnar_gate
from aggregator.counting.admission.gate import Admission, Data, Gate
from aggregator.tallies.clock import Clock
from hubbub.kafka.columns import RecordColumns

Records = Sequence[tuple[int, int, Data]]
RecordRun = Records | RecordColumns
"""Records of (offset, timestamp, data) in order, without gaps except those of the log."""

FEW = 64
"""The number of records from which on columns save time."""


def records_from(run: RecordRun, offset: int) -> RecordRun:
    """Return the records from this offset on."""
    if isinstance(run, RecordColumns):
        return run.since(offset)
    return [record for record in run if record[0] >= offset] if run and run[0][0] < offset else run


def next_offset(run: RecordRun) -> int:
    """Return the offset after the last record."""
    return (run.last if isinstance(run, RecordColumns) else run[-1][0]) + 1


def admit(gate: Gate, run: RecordRun, clock: Clock) -> Admission:
    """Admit the records of a run, one by one if their timestamps may not be log times."""
    if not isinstance(run, RecordColumns):
        return gate.admit_records(run, clock)
    if len(run) < FEW or not gate.log_has_time:
        return gate.admit_records(run.records(), clock)
    return columnar_gate.admit_columns(gate, run, clock)


def values_at(run: RecordRun, offsets: Iterable[int]) -> dict[int, Data]:
    """Return the values at these offsets, and for a list all values."""
    if not isinstance(run, RecordColumns):
        return {offset: value for offset, _, value in run}
    return {offset: value for offset, _, value in run.select(np.searchsorted(run.offsets, sorted(set(offsets))))}
