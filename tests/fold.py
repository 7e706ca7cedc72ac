"""The truth about a log: one process reads it record by record and adds up, with none of the daemon's ways.

It shares with the daemon what admits a record (`Gate.admit`) and what counts a report (the oracles),
and nothing of what makes it fast, lets it restart, or brings partitions together.
"""

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np

from aggregator.counting.admission import Accepted, Gate
from aggregator.counting.tally import IDS_OVERFLOW, Snapshot
from aggregator.merging import windows


@dataclass(eq=False)
class Cell:
    """What one partition says of one pane."""

    counts: np.ndarray
    n: int = 0
    implausible: int = 0
    duplicates: int = 0
    flags: int = 0
    ids: set = field(default_factory=set)

    def count(self, frame):
        query, size = frame.query, len(frame.reports)
        if frame.id in self.ids:
            self.duplicates += size
            return
        if frame.id is not None and len(self.ids) < query.max_ids:
            self.ids.add(frame.id)
        elif frame.id is not None:
            self.flags |= IDS_OVERFLOW
        left_out = query.oracle.add(self.counts, frame.reports)
        self.n += size - left_out
        self.implausible += left_out


def fold(log, queries, **gate):
    """The final windows of a log, {(query's name, Window, end): Snapshot}.

    `log` has a list of (offset, timestamp, bytes) for each partition; `gate` is what `Gate` takes
    beyond partitions and queries. A window without reports is absent.
    """
    by_digest = {query.digest: query for query in queries}
    cells, clocks = defaultdict(dict), []
    for partition, records in enumerate(log):
        here, clock = Gate(partition, len(log), by_digest, **gate), None
        for _, timestamp, data in records:
            outcome, clock = here.admit(data, timestamp, clock)
            if isinstance(outcome, Accepted):
                parts = cells[outcome.query.digest, outcome.pane]
                if partition not in parts:
                    parts[partition] = Cell(outcome.query.oracle.zeros())
                parts[partition].count(outcome)
        clocks.append(clock)
    finals = {}
    for query in by_digest.values():
        panes = {pane: total(parts.values()) for (digest, pane), parts in cells.items() if digest == query.digest}
        for window in query.windows:
            for start, end in spans(window, query.pane, [pane for pane in panes if panes[pane].n]):
                if all(is_closed(clock, end, query) for clock in clocks):
                    inside = [panes[pane] for pane in panes if start <= pane < end]
                    finals[query.name, window, end] = total(inside)
    return finals


def is_closed(clock, end, query):
    """Whether a partition whose log has come so far has closed the pane that ends at `end`."""
    return clock is not None and clock > 1000 * (end + query.lateness)


def spans(window, pane, reported):
    """The windows with a report in them: start and end, where `reported` are the panes with reports."""
    if window.kind == "all":
        ends = {start + (1 + rest) * pane for start in reported for rest in range(windows.IDLE + 1)}
        return {(min(reported), end) for end in ends}
    return {
        (start, start + window.size)
        for one in reported
        for start in range(one // window.step * window.step, one - window.size, -window.step)
    }


def total(parts):
    """The sum of cells or of snapshots."""
    parts = list(parts)
    flags = 0
    for part in parts:
        flags |= part.flags
    sums = [sum(getattr(part, name) for part in parts) for name in ("n", "implausible", "duplicates")]
    return Snapshot(*sums, flags, np.sum([part.counts for part in parts], axis=0))
