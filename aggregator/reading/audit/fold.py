"""A fold of the log by one reader, who keeps all in memory: no checkpoint, no changelog, nobody to take over from.

It shares with workers what admits a record, what counts a report and what a window is.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from aggregator.counting import dispute
from aggregator.counting.admission import Data, Gate
from aggregator.counting.changelog import Pane
from aggregator.counting.clock import Clock, is_late
from aggregator.counting.run import cut
from aggregator.counting.tally import CORRECTED, Snapshot, Sum, Tally
from aggregator.errors import Guarantee
from aggregator.merging.merge import Merger
from aggregator.merging.windows import ClosedWindow
from hubbub.definitions import Definitions
from hubbub.definitions.corrections import UNTRUSTED, corrected
from hubbub.definitions.versions import Versions

Record = tuple[int, int, Data]
"""Offset, timestamp and value."""


class Fold:
    """All partitions, each from the first record that it is given."""

    def __init__(self, known: Definitions, partitions: int, *, embedded: bool, limit: int) -> None:
        self._known = known
        self._gates = [Gate(p, partitions, known.versions, embedded, limit) for p in range(partitions)]
        self._corrections = [[one for one in known.corrections if one.partition == p] for p in range(partitions)]
        self._clocks: list[Clock] = [None] * partitions
        self._open: list[dict[Pane, Tally]] = [{} for _ in range(partitions)]
        self._closed: dict[Pane, Sum] = {}

    def read(self, partition: int, run: Sequence[Record]) -> None:
        """Records of one partition, after those before."""
        for piece in cut(run, self._corrections[partition]):
            self._read(partition, piece)

    def _read(self, partition: int, run: Sequence[Record]) -> None:
        known, corrections, clock = self._known.versions, self._corrections[partition], self._clocks[partition]
        times = corrected(run, corrections)
        for offset, timestamp, _ in times:
            if timestamp == UNTRUSTED:
                where = f"partition {partition}, offset {offset}"
                raise Guarantee(f"{where}: its time is not the log's own, and no correction says what to take")
        sifted = self._gates[partition].sift(times, clock)
        disputed = [
            *dispute.closed_early(corrections, run[0][0], clock, known),
            *dispute.let_in_early(corrections, run, sifted.refused, known),
        ]
        tallies = self._open[partition]
        for pane, (query, frames) in sifted.accepted.items():
            tallies.setdefault(pane, Tally(query.oracle.zeros())).add(query.oracle, frames, query.max_ids)
            if dispute.is_counted_anew(corrections, int(frames.offsets[-1]), pane[1], known[pane[0]]):
                disputed.append(pane)
        for pane in disputed:
            tallies.setdefault(pane, Tally(known[pane[0]].query.oracle.zeros())).flags |= CORRECTED
        self._clocks[partition] = sifted.clock
        for pane in [pane for pane in tallies if is_late(sifted.clock, pane[1], known[pane[0]])]:
            self._add(pane, tallies.pop(pane).close())

    def _add(self, pane: Pane, snapshot: Snapshot) -> None:
        if pane not in self._closed:
            self._closed[pane] = Sum(np.zeros(len(snapshot.counts), np.int64))
        self._closed[pane].add(snapshot)

    def through(self, versions: Versions, partition: int | None = None) -> int | None:
        """The end of the newest pane of a definition that is closed, on one partition or on all."""
        clocks = self._clocks if partition is None else [self._clocks[partition]]
        ends = [None if clock is None else versions.closed_through(clock) for clock in clocks]
        known = [end for end in ends if end is not None]
        return min(known) if len(known) == len(ends) else None

    def has_passed(self, partition: int, end: int) -> bool:
        """Whether all panes before this moment are closed on a partition."""
        ends = [self.through(versions, partition) for versions in self._known.versions.values()]
        return all(through is not None and through >= end for through in ends)

    def finals(self, versions: Versions) -> Iterator[ClosedWindow]:
        """The final windows of a definition, each kind in the order of time."""
        through, merger = self.through(versions), Merger(versions, 1)
        if through is None:
            return
        for digest, pane in sorted(self._closed):
            if digest == versions.query.digest:
                merger.take(pane, 0, self._closed[digest, pane].snapshot(), None)
        merger.mark(0, through)
        yield from merger.finals()
