"""One pass over the log of reports: the counts at each offset, and the reasons of refused records."""

from bisect import bisect_right
from collections import defaultdict
from typing import NamedTuple

import numpy as np

from aggregator.counting.admission.gate import AcceptedFrame, Gate, Refusal
from aggregator.tallies.snapshot import Snapshot
from hubbub.kafka.settings import REPORTS
from oracles.frame import MAX_FRAME
from tests.fold import Cell, group_count, own_cells, total


class Sum(NamedTuple):
    """The counts of one pane on one partition, up to an offset."""

    n: int
    implausible: int
    duplicates: int
    counts: bytes


class LogCounts:
    """The counts of all panes at each offset, and the reasons of refusals."""

    def __init__(self, world, versions):
        self.reasons = {}
        """The reason of each refused record, by the key of its reject."""
        self._offsets = defaultdict(list)
        """The offset behind each counted frame of a partition and a pane."""
        self._sums = defaultdict(list)
        """The sum after each of these frames."""
        topic = world.kafka.topic(REPORTS)
        for part in world.log.partitions[topic]:
            gate = Gate(part.number, len(world.log.partitions[topic]), versions, limit=MAX_FRAME)
            self._count(part, gate, topic)

    def _count(self, part, gate, topic):
        cells = {}
        clock = None
        for record in part.all_records:
            outcome, clock = gate.admit(record.value, record.timestamp, clock)
            name = f"{topic}|{part.number}|{record.offset}".encode()
            if isinstance(outcome, Refusal):
                self.reasons[name] = outcome.reason
            elif isinstance(outcome, AcceptedFrame):
                place = outcome.query.digest, outcome.pane
                if place not in cells:
                    cells[place] = _empty_cell(outcome.query)
                cell = cells[place]
                if outcome.id in cell.ids:
                    self.reasons[name] = "duplicate"
                cell.count(outcome)
                self._offsets[part.number, *place].append(record.offset + 1)
                self._sums[part.number, *place].append(_sum_of(cell))

    def panes(self):
        """Yield the partition, the digest and the start of each pane that has frames."""
        yield from self._sums

    def totals(self):
        """Return the sums of all panes over all partitions, by digest and pane."""
        totals = defaultdict(dict)
        for (_, digest, pane), sums in self._sums.items():
            last = sums[-1]
            part = Snapshot(last.n, last.implausible, last.duplicates, 0, np.frombuffer(last.counts, np.int64))
            parts = [part, *([totals[digest][pane]] if pane in totals[digest] else [])]
            totals[digest][pane] = total(parts)
        return totals

    def sum_at(self, partition, digest, pane, offset=1 << 62):
        """Return the sum of the frames below an offset, or None if there is no frame."""
        place = partition, digest, pane
        number = bisect_right(self._offsets[place], offset)
        return self._sums[place][number - 1] if number else None


def _empty_cell(query):
    _, end = own_cells(query, group_count(query) - 1)
    return Cell(np.zeros(end + (3 if group_count(query) > 1 else 0), np.int64))


def _sum_of(cell):
    return Sum(cell.n, cell.implausible, cell.duplicates, cell.counts.tobytes())
