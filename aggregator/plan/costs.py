"""The measured costs for a capacity plan, in CPU seconds of one core, each with its benchmark.

docs/performance.md has the runs, and tests/unit/test_fleet.py compares its tables with these constants.
`benchmarks/costs.py` measures the relative speed of another machine.
"""

import math
from collections.abc import Collection
from itertools import pairwise

from aggregator.merging.marks import spans
from aggregator.plan.kinds import names
from aggregator.records.subject import value_count
from oracles.consistency import find
from oracles.mechanisms.protocol import Oracle
from oracles.multi.attributes import Multi
from oracles.query import Query
from oracles.query.domain import NAMES

MESSAGE = 0.12e-6
"""Seconds for each message (benchmarks/end_to_end.py)."""
ID = 0.15e-6
"""Seconds for each id (benchmarks/end_to_end.py)."""
BYTE = 1.8e-9
"""Seconds for each byte that is read (benchmarks/end_to_end.py)."""
ADD = 1.4e-9
"""Seconds for each integer that a report changes, or 64 bits of a unary report (benchmarks/kernels.py)."""
CACHES = ((1_000, 1.0), (10_000, 1.1), (100_000, 1.8), (1_000_000, 5.5))
"""Integers of a tally, and the slowdown when it no longer fits the caches, for olh (benchmarks/kernels.py)."""
CHANGELOG = 40e-6
"""Seconds of workers to write a tally to the changelog (benchmarks/state.py)."""
SNAPSHOT = 30e-6
"""Seconds of workers to write and read a snapshot (benchmarks/state.py)."""
RECORD = 1e-3
"""Seconds for the findings, record and alerts of a window (benchmarks/many.py)."""
FIT = 50e-3
"""Seconds for a fitted prior (benchmarks/records.py)."""
VALUE = 0.4e-6
"""Seconds for a value of a record (benchmarks/records.py)."""

REQUEST = 73e-6
"""Seconds of a gateway for each request (benchmarks/gateway.py, olh)."""
REPORT = 7.3e-9
"""Seconds of a gateway for each further report in a request (benchmarks/gateway.py, olh)."""
FINAL = 1e-3
"""Seconds of a worker to publish a final and its state, in addition to its record: 0.7 ms, and the sockets."""

WORKER = 40e-3
"""Cores of a worker with few reports: its loops, and ten fetches a second (benchmarks/finals.py)."""
PARTITION = 1.65e-3
"""Cores for the ticks, checkpoints and watermarks of each partition (benchmarks/finals.py)."""


def message(reports: int, width: int, *, ids: bool, header: int) -> float:
    """Return the seconds to read and check a frame, without counting its reports."""
    return MESSAGE + ID * ids + BYTE * (header + reports * width)


def add(oracle: Oracle | Multi) -> float:
    """Return the seconds to count all attributes of a report, or with smp the one that it answers."""
    if isinstance(oracle, Oracle):
        return ADD * oracle.work * slower(oracle.state_size)

    seconds = sum(map(add, oracle.encoders))
    return seconds / len(oracle.encoders) if oracle.solution == "smp" else seconds


def slower(cells: int) -> float:
    """Return the slowdown for a tally of so many integers, interpolated between the measured sizes.

    >>> slower(64), slower(1_000_000), round(slower(31_623), 2)
    (1.0, 5.5, 1.41)
    """
    for (low, low_factor), (high, high_factor) in pairwise(CACHES):
        if cells <= high:
            # The measured sizes are about ten times apart, so their logarithms are interpolated.
            part = max(0.0, math.log(cells / low) / math.log(high / low))
            return low_factor * math.pow(high_factor / low_factor, part)

    # No larger tally was measured, so this is the least slowdown of one.
    return CACHES[-1][1]


def record(query: Query) -> float:
    """Return the seconds for the findings of one window and its record."""
    return RECORD + _FINDINGS.get(query.domains[0].kind, _estimates)(query)


def _search(query: Query) -> float:
    """Return the seconds of a search for names."""
    del query
    return names.SEARCH_SECONDS


def _estimates(query: Query) -> float:
    """Return the seconds for the estimates of all attributes."""
    fits_prior = any(find(name).fits_a_prior for name in query.methods)
    return FIT * fits_prior + VALUE * value_count(query)


_FINDINGS = {NAMES: _search}
"""The functions of the kinds of answers whose findings are no estimates."""


def records_each(query: Query) -> int:
    """Return the number of records of a window: one, or one for each group and one for their total."""
    return 1 + len(query.groups.labels)


def finals(query: Query) -> float:
    """Return the number of finals of a query per second."""
    return records_each(query) * sum(1.0 / (window.step or query.pane) for window in set(query.windows))


def busy(query: Query) -> float:
    """Return the cores that are busy with the finals of a query."""
    return finals(query) * (record(query) + FINAL)


def provisional_records(query: Query) -> float:
    """Return the most provisional records of a query per second: one for each new mark inside a window."""
    if query.emit_every is None:
        return 0.0

    shortest = min(spans(query))
    longer = [window for window in set(query.windows) if window.kind != "all" and window.size > shortest]
    return records_each(query) * len(longer) / max(query.emit_every, shortest)


def publishing(queries: Collection[Query], partitions: int) -> float:
    """Return the cores of a worker with all partitions and of its estimator at a few dozen frames per second.

    A worker polls, ticks and writes checkpoints for each partition, however few finals there are.
    """
    cores = sum(busy(query) + provisional_records(query) * record(query) for query in queries)
    return WORKER + PARTITION * partitions + cores


def cpu_per_final(queries: Collection[Query], partitions: int) -> float:
    """Return the CPU seconds of worker and estimator together, divided by the finals that they publish."""
    return publishing(queries, partitions) / sum(map(finals, queries))


def gateway(rate: float, per_request: int) -> float:
    """Return the busy cores of gateways at a rate of reports per second, in requests of so many reports."""
    return rate * (REQUEST / per_request + REPORT)
