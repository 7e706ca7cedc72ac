"""The memory that a worker and a board take for the queries of a file, in bytes.

The model adds the sizes of their objects, exactly for integers and floats, approximately for the rest. It predicts
the peak, because the peak decides whether the system kills the process. tests/unit/test_memory.py compares it
with real objects, and tests/integration/test_memory.py with real processes and a broker.
"""

from collections.abc import Collection
from dataclasses import dataclass

from aggregator.merging import blocks
from aggregator.merging.kinds import has_blocks, kind_of
from aggregator.merging.windows import ENCODED_BYTES, needs_store
from aggregator.records.subject import LARGE, estimate_count, value_count
from hubbub.definitions.versions import open_panes
from oracles.consistency import find
from oracles.query import Query
from oracles.query.domain import NAMES, Domain
from oracles.query.footprint import INTEGER, stored_windows, tally_size

PANE = 250
"""Bytes of a pane of a hopping window in addition to its tally."""
PART = 130
"""Bytes of each partition's part of a pane while the worker reads it."""
COUNTER = 8
"""Bytes of an attribute's number of reports."""
WORKER = 100 << 20
"""Bytes of a worker with its loaded modules, without data."""
ESTIMATOR = 85 << 20
"""Bytes of a process that makes records, without data."""
BOARD = 65 << 20
"""Bytes of a board, without data."""
COUNT = 4
"""Bytes of a value's count in a window that later windows are compared with."""
# Vectors of all values in the findings of a window, as tests/unit/test_memory.py measures them.
FINDING = 16
"""Vectors of every query."""
SEVERAL = 20
"""Vectors of windows that keep the previous one, in addition."""
PRIOR = 14
"""Vectors of a fitted prior, in addition."""
THRESHOLD = 16
"""Vectors of a threshold that is a share or count, in addition."""
ALL_VALUES = 30
"""Vectors of a record of all values, in addition."""
SLACK = 1.2
"""Allocated bytes for each requested byte, because freed blocks do not always fit the next request."""
NAME = 57
"""Bytes of a value's name in addition to its letters."""
RECORD = 1_500
"""Bytes of a record in the board."""
COLUMN = 100
"""Bytes of one of its columns in addition to the numbers."""
HITTER = 110
"""Bytes of a heavy hitter."""
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
        return query.slot_count(partitions) * (open_panes(query) if most else usual_panes(query))

    return WorkerMemory(
        tallies=sum(panes(query) * tally_size(query) * (INTEGER + ENCODED_BYTES) for query in queries),
        merging=sum(_merging(query, query.slot_count(partitions)) for query in queries),
        publishing=max(map(_findings, queries), default=0),
        names=4 * _names(queries),
        estimators=ESTIMATOR * len({estimate_count(query) > LARGE for query in queries}),
        disk=sum(_disk_bytes(query, query.slot_count(partitions)) for query in queries),
    )


def _merging(query: Query, slots: int) -> int:
    """Return the bytes of the snapshots of one pane from all slots, and of the windows made of them."""
    return slots * tally_size(query) * ENCODED_BYTES + _windows(query, slots)


def _disk_bytes(query: Query, partitions: int) -> int:
    """Return the bytes of the panes of long windows, and of their parts while the worker reads them."""
    cells = tally_size(query)
    panes = 0
    for window in set(query.windows):
        if window.kind == "hopping" and needs_store(window, query.pane, cells):
            panes += 2 * window.size // query.pane + partitions * _split_panes(query)
    return panes * cells * ENCODED_BYTES


def _split_panes(query: Query) -> int:
    """Return the number of panes kept partition by partition, until every kind of window has ended with them."""
    longest = max((window.size for window in query.windows if window.kind == "hopping"), default=0)
    longest_step = max(window.step or query.pane for window in query.windows)
    return min(longest, longest_step) // query.pane


def _windows(query: Query, partitions: int) -> int:
    """Return the bytes of a query's panes and sums, and of the windows that later ones are compared with."""
    kinds = set(query.windows)
    cells = tally_size(query)
    pane_bytes = PANE + COUNTER * len(query.domains)

    # Panes of long windows are on disk, without their tallies in memory.
    hopping = [window for window in kinds if window.kind == "hopping"]
    in_memory = [window for window in hopping if not needs_store(window, query.pane, cells)]
    panes = sum(window.size // query.pane * pane_bytes for window in hopping)
    panes += sum(window.size // query.pane * cells * ENCODED_BYTES for window in in_memory)
    panes += max((window.size // query.pane for window in hopping), default=0) * PART
    panes += _split_panes(query) * partitions * PART

    # Two sums belong to no kind: the panes since the newest mark, and a provisional window.
    sums = 2 * len(kinds) + 2
    windows = panes + (1 + sums) * cells * INTEGER
    if not kind_of(query).has_comparisons:
        return windows

    comparisons = sum(stored_windows(window) for window in kinds) * value_count(query) * COUNT
    return windows + comparisons + block_bytes(query)


def block_bytes(query: Query) -> int:
    """Return the most bytes of the blocks of windows with which slow changes are found."""
    with_blocks = zip(query.domains, has_blocks(query), strict=True)
    values = sum(domain.size for domain, is_kept in with_blocks if is_kept)
    count = sum(blocks.stored_count(query, window) for window in set(query.windows))
    return count * values * BLOCK_COUNT


def _findings(query: Query) -> int:
    """Return the bytes of the findings of a window."""
    return _FINDINGS.get(query.domains[0].kind, _estimates)(query)


def _search(query: Query) -> int:
    """Return the bytes of a search for names, and of the counts of two windows."""
    return SEARCH + 2 * INTEGER * query.oracle.state_size


def _estimates(query: Query) -> int:
    """Return the bytes of the estimates of all attributes."""
    fits_prior = any(find(name).fits_a_prior for name in query.methods)
    vectors = FINDING + PRIOR * fits_prior + SEVERAL * any(window.kind != "tumbling" for window in query.windows)
    vectors += THRESHOLD * (query.threshold.kind != "significance") + ALL_VALUES * (query.publish is None)
    return vectors * INTEGER * estimate_count(query)


_FINDINGS = {NAMES: _search}
"""The functions of the kinds of answers whose findings are no estimates."""


def board(queries: Collection[Query], retention: int, memory: int) -> int:
    """Return the memory of a board with this retention and memory limit, without true counts."""
    windows = sum(_records(query, retention) for query in queries)
    return BOARD + ALERTS + min(windows, memory) + 3 * _names(queries)


def _records(query: Query, retention: int) -> int:
    """Return the bytes of the finals of all kinds of windows."""
    one_window = sum(_record_bytes(query, domain) for domain in query.domains)
    return sum(max(1, retention // (window.step or query.pane)) * one_window for window in set(query.windows))


def _record_bytes(query: Query, domain: Domain) -> int:
    values = min(domain.size, domain.limit(query.publish) or domain.size)
    methods = 1 + len(query.methods)
    columns = (3 + methods) * (COLUMN + INTEGER * values) + INTEGER * values
    return RECORD + columns + methods * HITTER * min(values, HITTERS)


def _names(queries: Collection[Query]) -> int:
    """Return the bytes of all names of values, each once."""
    size = 0
    for query in queries:
        for domain in query.domains:
            size += sum(NAME + len(name) for name in domain.names or ())
    return size
