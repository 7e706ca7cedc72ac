"""The memory that a worker and a board take for the queries of a file, in bytes.

The model adds the sizes of their objects, exactly for integers and floats, approximately for the rest. It predicts
the peak, because the peak decides whether the system kills the process. tests/unit/test_memory.py compares it
with real objects, and tests/integration/test_memory.py with real processes and a broker.
"""

from collections.abc import Collection
from dataclasses import dataclass

from aggregator.merging import blocks
from aggregator.merging.windows import ENCODED_BYTES, needs_store
from aggregator.records.subject import LARGE, estimate_count, value_count
from hubbub.definitions.versions import open_panes
from oracles.consistency import find
from oracles.query import Query
from oracles.query.domain import Domain
from oracles.query.footprint import INTEGER, stored_windows, tally_size
from oracles.query.settings import Window

PANE, PART, COUNTER = 250, 130, 8
"""Bytes of a pane of a hopping window in addition to its tally, of each partition's part while the worker reads it,
and of an attribute's number of reports."""
WORKER, ESTIMATOR, BOARD = 100 << 20, 85 << 20, 65 << 20
"""Bytes of a process with its loaded modules, without data."""
COUNT = 4
"""Bytes of a value's count in a window that later windows are compared with."""
FINDING, SEVERAL, PRIOR, THRESHOLD, ALL_VALUES = 16, 20, 14, 16, 30
"""Vectors of all values in the findings of a window: for every query, for windows that keep the previous one, for a
fitted prior, for a threshold that is a share or count, and for a record of all values."""
SLACK = 1.2
"""Allocated bytes for each requested byte, because freed blocks do not always fit the next request."""
NAME = 57
"""Bytes of a value's name in addition to its letters."""
RECORD, COLUMN, HITTER = 1_500, 100, 110
"""Bytes of a record in the board, of one of its columns in addition to the numbers, and of a heavy hitter."""
HITTERS = 25
"""Number of heavy hitters of a method in an ordinary window."""
ALERTS = 10 << 20
"""Bytes of the alerts in a board."""


@dataclass(frozen=True)
class WorkerMemory:
    """The memory of a worker, in bytes."""

    tallies: int
    """Bytes of tallies, with their last checkpoint."""
    merging: int
    """Bytes of snapshots from all workers, and of the windows made of them."""
    publishing: int
    """Bytes of the findings of one window, because the worker handles large queries one after another."""
    names: int
    """Bytes of the names of values."""
    estimators: int
    """Bytes of the processes that make records, one for large queries and one for all others."""
    disk: int
    """Bytes of the panes of long windows, in a temporary file."""
    process: int = WORKER

    @property
    def total(self) -> int:
        return (
            int(SLACK * (self.tallies + self.merging + self.publishing + self.names)) + self.process + self.estimators
        )


SEARCH = 120 << 20
"""Bytes of a search for names, in addition to the counts of all cells (1,024 prefixes of a text of 24 characters)."""
BLOCK_COUNT = 4
"""Bytes of a count in a stored block, of windows of up to four billion reports."""


def usual_panes(query: Query) -> int:
    """Return the open panes of a partition with right clocks, the current one and those within the lateness."""
    return min(open_panes(query), -(-query.lateness // query.pane) + 1)


def worker(queries: Collection[Query], partitions: int, *, most: bool = False) -> WorkerMemory:
    """Return the memory of a worker with all partitions.

    It is for ordinary traffic, or with `most` for the maximum number of open panes.
    """

    def panes(query: Query) -> int:
        return partitions * (open_panes(query) if most else usual_panes(query))

    return WorkerMemory(
        tallies=sum(panes(query) * tally_size(query) * (INTEGER + ENCODED_BYTES) for query in queries),
        merging=sum(partitions * tally_size(query) * ENCODED_BYTES + _windows(query, partitions) for query in queries),
        publishing=max(map(_findings, queries), default=0),
        names=4 * _names(queries),
        estimators=ESTIMATOR * len({estimate_count(query) > LARGE for query in queries}),
        disk=sum(_disk_bytes(query, window, partitions) for query in queries for window in set(query.windows)),
    )


def _disk_bytes(query: Query, window: Window, partitions: int) -> int:
    """Return the bytes of the panes of a long window, and of their parts while the worker reads them."""
    cells = tally_size(query)
    long = window.kind == "hopping" and needs_store(window, query.pane, cells)
    return long * (2 * window.size // query.pane + partitions * _split_panes(query)) * cells * ENCODED_BYTES


def _split_panes(query: Query) -> int:
    """Return the number of panes kept partition by partition, until every kind of window has ended with them."""
    most = max((window.size for window in query.windows if window.kind == "hopping"), default=0)
    return min(most, max(window.step or query.pane for window in query.windows)) // query.pane


def _windows(query: Query, partitions: int) -> int:
    """Return the bytes of a query's panes and sums, and of the windows that later ones are compared with."""
    kinds = set(query.windows)
    cells, numbers = tally_size(query), PANE + COUNTER * len(query.domains)
    hopping = [window for window in kinds if window.kind == "hopping"]
    short = [window for window in hopping if not needs_store(window, query.pane, cells)]
    panes = sum(window.size // query.pane * numbers for window in hopping)
    panes += sum(window.size // query.pane * cells * ENCODED_BYTES for window in short)
    panes += max((window.size // query.pane for window in hopping), default=0) * PART
    panes += _split_panes(query) * partitions * PART
    sums = 2 * len(kinds) + 2  # the panes since the newest mark, and a provisional window
    if query.strings is not None:  # its windows are not compared with earlier ones
        return panes + (1 + sums) * cells * INTEGER
    alerts = sum(stored_windows(window) for window in kinds) * value_count(query) * COUNT
    alerts += block_bytes(query)
    return panes + (1 + sums) * cells * INTEGER + alerts


def block_bytes(query: Query) -> int:
    """Return the most bytes of the blocks of windows with which slow changes are found."""
    if query.strings is not None:
        return 0
    values = sum(domain.size for domain, has in zip(query.domains, blocks.has_blocks(query), strict=True) if has)
    return sum(blocks.stored_count(query, window) for window in set(query.windows)) * values * BLOCK_COUNT


def _findings(query: Query) -> int:
    """Return the bytes of the findings of a window, or of a search and the counts of two windows."""
    if query.strings is not None:
        return SEARCH + 2 * INTEGER * query.oracle.state_size
    fits_prior = any(find(name).fits_a_prior for name in query.methods)
    vectors = FINDING + PRIOR * fits_prior + SEVERAL * any(window.kind != "tumbling" for window in query.windows)
    vectors += THRESHOLD * (query.threshold.kind != "significance") + ALL_VALUES * (query.publish is None)
    return vectors * INTEGER * estimate_count(query)


def board(queries: Collection[Query], retention: int, memory: int) -> int:
    """Return the memory of a board with this retention and memory limit, without true counts."""
    windows = sum(_records(query, window, retention) for query in queries for window in set(query.windows))
    return BOARD + ALERTS + min(windows, memory) + 3 * _names(queries)


def _records(query: Query, window: Window, retention: int) -> int:
    """Return the bytes of the finals of one kind of window."""
    return max(1, retention // (window.step or query.pane)) * sum(
        _record_bytes(query, domain) for domain in query.domains
    )


def _record_bytes(query: Query, domain: Domain) -> int:
    values = domain.size if domain.parts is not None else min(domain.size, query.publish or domain.size)
    methods = 1 + len(query.methods)
    columns = (3 + methods) * (COLUMN + INTEGER * values) + INTEGER * values
    return RECORD + columns + methods * HITTER * min(values, HITTERS)


def _names(queries: Collection[Query]) -> int:
    """Return the bytes of all names of values, each once."""
    domains = (domain for query in queries for domain in query.domains if domain.values or domain.parts)
    return sum(NAME + len(name) for domain in domains for name in domain.names or ())
