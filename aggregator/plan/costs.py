"""The costs that a plan for a rate is made of: CPU seconds of one core, each with the benchmark that gives it.

docs/performance.md has the runs, and tests/unit/test_fleet.py holds its tables against these. Of another machine
`benchmarks/costs.py` says how fast it is beside this one.
"""

import math
from itertools import pairwise

from aggregator.publishing.large import value_count
from oracles.consistency import find
from oracles.mechanisms.protocol import Oracle
from oracles.multi.attributes import Multi
from oracles.query import Query

MESSAGE, ID, BYTE = 0.12e-6, 0.15e-6, 1.8e-9
"""Of each message that is counted, of an id, and of each byte that is read: benchmarks/end_to_end.py."""
ADD = 1.4e-9
"""Of an integer of a tally that a report changes; 64 bits of a unary report are one: benchmarks/kernels.py."""
CACHES = ((1_000, 1.0), (10_000, 1.1), (100_000, 1.8), (1_000_000, 5.5))
"""How much longer it takes where a tally of so many integers falls out of the caches: the same, of `olh`."""
WRITTEN, SHOWN = 40e-6, 30e-6
"""Of a tally in the changelog, and of a snapshot that is written and read back: benchmarks/state.py, whole workers."""
RECORD, FIT, VALUE = 6e-3, 50e-3, 0.4e-6
"""Of a window's findings and record, of a prior that is fitted for it, and of each value: benchmarks/records.py."""


def message(reports: int, width: int, *, ids: bool, header: int) -> float:
    """Reading a frame and judging it, without its reports' counting."""
    return MESSAGE + ID * ids + BYTE * (header + reports * width)


def add(oracle: Oracle | Multi) -> float:
    """Counting a report; of several attributes all, but for those that send one of them."""
    if isinstance(oracle, Oracle):
        return ADD * oracle.work * slower(oracle.state_size)
    each = sum(map(add, oracle.encoders))
    return each / len(oracle.encoders) if oracle.solution == "smp" else each


def slower(cells: int) -> float:
    """How much longer it takes to change one of so many integers, between the sizes that were measured.

    >>> slower(64), slower(1_000_000), round(slower(31_623), 2)
    (1.0, 5.5, 1.41)
    """
    for (low, before), (high, after) in pairwise(CACHES):
        if cells <= high:
            part = max(0.0, math.log(cells / low) / math.log(high / low))
            return before * math.pow(after / before, part)
    return CACHES[-1][1]


def record(query: Query) -> float:
    """The findings of one window, and its record."""
    fitted = any(find(name).fits_a_prior for name in query.methods)
    return RECORD + FIT * fitted + VALUE * value_count(query)
