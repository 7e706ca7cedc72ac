"""Counts the whole log in memory, with one reader and without checkpoints, changelog or rebalances.

It uses the workers' code for admission, counting and windows.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from aggregator.counting.admission.columnar_gate import admit
from aggregator.counting.admission.gate import Data, Gate
from aggregator.errors import Guarantee
from aggregator.merging.marks import QueryMarks
from aggregator.merging.merger import Merger
from aggregator.merging.place_counts import answer_counts
from aggregator.merging.slot_ends import closed_on_slots
from aggregator.merging.windows import ClosedWindow
from aggregator.reading.audit.ranges import Range
from aggregator.tallies.clock import Clock
from aggregator.tallies.keys import Pane
from aggregator.tallies.snapshot import Snapshot, Sum
from aggregator.tallies.tally import Tally
from hubbub.definitions.catalog import Definitions
from hubbub.definitions.versions import Versions
from hubbub.kafka.columns import UNTRUSTED
from oracles.frame import slots

Record = tuple[int, int, Data]
"""Offset, timestamp and value of a record."""
WHOLE_LOG = Range(None, (), None)
"""The whole log."""


class Fold:
    """The counts of all partitions, from the first record that it reads."""

    def __init__(self, catalog: Definitions, partitions: int, *, log_has_time: bool, limit: int) -> None:
        self._catalog = catalog
        self._gates = [Gate(p, partitions, catalog.versions, log_has_time, limit) for p in range(partitions)]
        self._clocks: list[Clock] = [None] * partitions
        self._open: list[dict[Pane, Tally]] = [{} for _ in range(partitions)]
        self._closed: dict[Pane, Sum] = {}

    def read(self, partition: int, run: Sequence[Record]) -> None:
        """Count the next records of a partition."""
        definitions = self._catalog.versions
        for offset, timestamp, _ in run:
            if timestamp == UNTRUSTED:
                raise Guarantee(f"partition {partition}, offset {offset}: the record has no broker timestamp")

        admission = admit(self._gates[partition], run, self._clocks[partition])
        tallies = self._open[partition]
        for pane, (query, frames) in admission.batches.items():
            tallies.setdefault(pane, Tally.empty(query)).add(query.oracle, frames, query.max_ids)
        self._clocks[partition] = admission.clock

        # A worker closes its panes by the same clock, so a later report is late here too.
        late_panes = [pane for pane in tallies if definitions[pane[0]].is_late(pane[1], admission.clock)]
        for pane in late_panes:
            self._add(pane, tallies.pop(pane).close())

    def _add(self, pane: Pane, snapshot: Snapshot) -> None:
        if pane not in self._closed:
            self._closed[pane] = Sum(np.zeros(len(snapshot.counts), np.int64))
        self._closed[pane].add(snapshot)

    def through(self, versions: Versions, partition: int | None = None) -> int | None:
        """Return the end of the newest closed pane of a definition, on one partition or on all its slots."""
        if partition is not None:
            clock = self._clocks[partition]
            return None if clock is None else versions.closed_through(clock)

        def least_end(spread: int | None) -> int | None:
            places = slots(versions.query.digest, spread, len(self._clocks))
            ends = [self.through(versions, place) for place in places]
            closed_ends = [end for end in ends if end is not None]
            return min(closed_ends) if len(closed_ends) == len(ends) else None

        return closed_on_slots(versions, least_end)

    def has_passed(self, partition: int, end: int) -> bool:
        """Whether all panes before the time `end` are closed on a partition."""
        ends = [self.through(versions, partition) for versions in self._catalog.versions.values()]
        return all(closed_end is not None and closed_end >= end for closed_end in ends)

    def finals(self, versions: Versions, part: Range = WHOLE_LOG) -> Iterator[ClosedWindow]:
        """Yield the final windows of a definition in a range, in the order of time."""
        end = self.through(versions)
        if end is None:
            return
        if part.end is not None:
            end = min(end, part.end)

        # The snapshots have the sums of all partitions, so the merger sees a single one.
        merger = Merger(versions, 1, marks=self._marks(versions, part))
        for pane, snapshot in self._panes(versions):
            if (part.start is None or pane >= part.start) and pane < end:
                merger.take(pane, 0, snapshot)
        merger.mark(0, end)
        yield from merger.finals()

    def _marks(self, versions: Versions, part: Range) -> QueryMarks | None:
        """Return the marks at the edges of a range, up to the last edge. None stands for those of the whole log."""
        if part.start is None:
            return None

        marks = QueryMarks.lost(versions, part.start)
        edges = sorted((edge, place) for place, edge in enumerate(part.edges) if edge is not None)
        for pane, snapshot in self._panes(versions):
            # An edge is a mark before the reports that follow it, so the restart comes before their pane.
            while edges and edges[0][0] <= pane:
                marks.restart(*edges.pop(0))
            if edges and pane >= part.start:
                marks.count(pane, answer_counts(versions.query, snapshot))
        for edge in edges:
            marks.restart(*edge)
        return marks

    def _panes(self, versions: Versions) -> Iterator[tuple[int, Snapshot]]:
        for digest, pane in sorted(self._closed):
            if digest == versions.query.digest:
                yield pane, self._closed[digest, pane].snapshot()
