"""The memory that a worker and a board take for the queries of a file, in bytes.

A sum of what their objects hold: of integers and floats exactly, of all else about. It is the most that
the process has at once, since that is what ends it where there is no more. Held against real objects in
tests/unit/test_memory.py, and against real processes under a broker in tests/integration/test_memory.py.
"""

from collections.abc import Collection
from dataclasses import dataclass

from aggregator.counting.clock import open_panes
from aggregator.merging.windows import TRAVELS, stands_apart
from aggregator.publishing.large import LARGE, value_count
from oracles.consistency import find
from oracles.query import Query
from oracles.query.domain import Domain
from oracles.query.footprint import INTEGER, kept
from oracles.query.settings import Window

PANE, PART, COUNTED = 250, 130, 8
"""Bytes of a pane of a hopping window beside its tally, of each partition's part while it is read, and of how many
answered for an attribute."""
WORKER, ESTIMATOR, BOARD = 100 << 20, 85 << 20, 65 << 20
"""The process itself, with all that it has loaded."""
COUNT = 4
"""Bytes of a value's count in a window that later ones are compared with."""
FINDING, SEVERAL, FITTED, THRESHOLD, EVERY = 16, 20, 14, 16, 30
"""Vectors of all values that the findings of a window come to: those of every query, of windows of which the last
one is kept, for a fitted prior, for a threshold that is a share or count, and for a record of all values."""
SLACK = 1.2
"""Bytes allotted for each that is asked for: freed pieces do not always fit what comes next."""
NAME = 57
"""Bytes of a value's name beside its letters."""
RECORD, COLUMN, HITTER = 1_500, 100, 110
"""Bytes of a record that the board keeps, of one of its columns beside the numbers, and of a heavy hitter."""
HITTERS = 25
"""Listed by a method in an ordinary window."""
ALERTS = 10 << 20
"""The alerts that a board keeps."""


@dataclass(frozen=True)
class WorkerMemory:
    """The memory of a worker."""

    tallies: int
    """Tallies, with their last checkpoint."""
    merging: int
    """Snapshots from elsewhere, and the windows that they become."""
    publishing: int
    """The findings of one window: those of large queries are made one after another."""
    names: int
    estimators: int
    """The processes that make records, beside what they work on: one for large queries, and one for all others."""
    disk: int
    """Panes of long windows, in a temporary file."""
    process: int = WORKER

    @property
    def total(self) -> int:
        return (
            int(SLACK * (self.tallies + self.merging + self.publishing + self.names)) + self.process + self.estimators
        )


def usual_panes(query: Query) -> int:
    """How many panes are open on a partition if clients' clocks are right: the present one and those waited for."""
    return min(open_panes(query), -(-query.lateness // query.pane) + 1)


def worker(queries: Collection[Query], partitions: int, *, most: bool = False) -> WorkerMemory:
    """Of one that has all partitions: in ordinary traffic, or at `most`, with every pane open that may be."""

    def panes(query: Query) -> int:
        return partitions * (open_panes(query) if most else usual_panes(query))

    return WorkerMemory(
        tallies=sum(panes(query) * query.oracle.state_size * (INTEGER + TRAVELS) for query in queries),
        merging=sum(
            panes(query) * query.oracle.state_size * TRAVELS + _windows(query, partitions) for query in queries
        ),
        publishing=max(map(_findings, queries), default=0),
        names=4 * _names(queries),
        estimators=ESTIMATOR * len({value_count(query) > LARGE for query in queries}),
        disk=sum(_apart(query, window, partitions) for query in queries for window in set(query.windows)),
    )


def _apart(query: Query, window: Window, partitions: int) -> int:
    """The panes of a long window, and the parts of them while they are read."""
    cells = query.oracle.state_size
    long = window.kind == "hopping" and stands_apart(window, query.pane, cells)
    return long * (2 * window.size // query.pane + partitions * _parted(query)) * cells * TRAVELS


def _parted(query: Query) -> int:
    """The panes that stand in as many parts as there are partitions: some kind of window has yet to end with them."""
    most = max((window.size for window in query.windows if window.kind == "hopping"), default=0)
    return min(most, max(window.step or query.pane for window in query.windows)) // query.pane


def _windows(query: Query, partitions: int) -> int:
    """The panes and sums that a query's windows are made of, and what later ones are compared with."""
    kinds = set(query.windows)
    several = [window for window in kinds if window.kind != "tumbling"]
    cells, numbers = query.oracle.state_size, PANE + COUNTED * len(query.domains)
    hopping = [window for window in kinds if window.kind == "hopping"]
    short = [window for window in hopping if not stands_apart(window, query.pane, cells)]
    panes = sum(window.size // query.pane * numbers for window in hopping)
    panes += sum(window.size // query.pane * cells * TRAVELS for window in short)
    panes += max((window.size // query.pane for window in hopping), default=0) * PART
    panes += _parted(query) * partitions * PART
    sums = 2 * len(kinds) + len(several) + (2 * len(kinds) if query.crowd > 1 else 0)
    alerts = sum(kept(window) for window in kinds) * value_count(query) * COUNT
    return panes + (1 + usual_panes(query) + sums) * cells * INTEGER + alerts


def _findings(query: Query) -> int:
    fitted = any(find(name).fits_a_prior for name in query.methods)
    vectors = FINDING + FITTED * fitted + SEVERAL * any(window.kind != "tumbling" for window in query.windows)
    vectors += THRESHOLD * (query.threshold.kind != "significance") + EVERY * (query.publish is None)
    return vectors * INTEGER * value_count(query)


def board(queries: Collection[Query], retention: int, memory: int) -> int:
    """Of one that keeps windows for so many seconds, in so much memory; of a truth that is simulated nothing."""
    windows = sum(_records(query, window, retention) for query in queries for window in set(query.windows))
    return BOARD + ALERTS + min(windows, memory) + 3 * _names(queries)


def _records(query: Query, window: Window, retention: int) -> int:
    """The finals of one kind of window."""
    return max(1, retention // (window.step or query.pane)) * sum(
        _record_bytes(query, domain) for domain in query.domains
    )


def _record_bytes(query: Query, domain: Domain) -> int:
    values = min(domain.size, query.publish or domain.size)
    methods = 1 + len(query.methods)
    columns = (3 + methods) * (COLUMN + INTEGER * values) + INTEGER * values
    return RECORD + columns + methods * HITTER * min(values, HITTERS)


def _names(queries: Collection[Query]) -> int:
    """All values' names, as a program holds them once."""
    return sum(NAME + len(name) for query in queries for domain in query.domains for name in domain.values or ())
