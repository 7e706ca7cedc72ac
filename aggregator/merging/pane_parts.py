"""The panes that wait for their windows. Each is one sum of the snapshots that have come from its source partitions."""

from collections.abc import Iterator

import numpy as np

from aggregator.tallies.snapshot import INCOMPLETE, Snapshot, Sum

ALL = -1
"""The partition number of a merged snapshot: the total of a pane that is closed on all partitions."""


class WaitingPane:
    """The snapshots of one pane. A readable one is never replaced, so it may be added to the sum at once."""

    def __init__(self, cells: int) -> None:
        self._cells = cells
        self._first: Snapshot | None = None
        """The snapshot of the first partition. Most panes of small queries have no other."""
        self._sum: Sum | None = None
        """The sum of all readable snapshots, from the second one on."""
        self._added: set[int] = set()
        """The partitions in the sum."""
        self._unreadable: set[int] = set()

    @property
    def has_total(self) -> bool:
        """Whether the sum is a merged snapshot, to which nothing can be added."""
        return ALL in self._added

    @property
    def has_reports(self) -> bool:
        total = self._sum or self._first
        return total is not None and total.n > 0

    @property
    def is_merged(self) -> bool:
        """Whether the total is the sum of several snapshots, and all are readable."""
        return len(self._added) > 1 and not self._unreadable

    def add(self, partition: int, snapshot: Snapshot) -> bool:
        """Add a readable snapshot. Return False if the sum has it already."""
        if self.has_total or partition in self._added:
            return False

        if partition == ALL:
            self._sum = None
            self._added.clear()
            self._unreadable.clear()
        self._unreadable.discard(partition)
        self._added.add(partition)
        if len(self._added) == 1:
            self._first = snapshot
        else:
            self._sum_of_all().add(snapshot)
        return True

    def add_unreadable(self, partition: int) -> None:
        """Note an unreadable snapshot, unless a readable one is in the sum."""
        if partition not in self._added and not self.has_total:
            self._unreadable.add(partition)

    def total(self) -> Snapshot:
        """Return the sum of all snapshots. Afterwards nothing may be added."""
        if self._first is not None and not self._unreadable:
            return self._first

        total = self._sum_of_all()
        flags = sum(total.flag_counts)
        # Nobody knows the reports of an unreadable snapshot.
        flags |= INCOMPLETE if self._unreadable else 0
        return Snapshot(total.n, total.implausible, total.duplicates, flags, total.counts)

    def _sum_of_all(self) -> Sum:
        if self._sum is None:
            self._sum = Sum(np.zeros(self._cells, np.int64))
            if self._first is not None:
                self._sum.add(self._first)
            self._first = None
        return self._sum


class PaneParts:
    """The panes of one query that are not in their windows yet."""

    def __init__(self, cells: int) -> None:
        self._cells = cells
        self._panes: dict[int, WaitingPane] = {}

    def put(self, pane: int, partition: int, snapshot: Snapshot) -> bool:
        """Add the snapshot of a closed pane. Return False if it brings nothing new.

        A snapshot of `ALL` replaces the snapshots of all partitions, which may be deleted already.
        """
        return self._waiting(pane).add(partition, snapshot)

    def put_unreadable(self, pane: int, partition: int) -> None:
        """Note an unreadable snapshot. A later readable one takes its place."""
        self._waiting(pane).add_unreadable(partition)

    def with_reports(self) -> list[int]:
        """Return the starts of the panes with reports, in order."""
        return sorted(pane for pane, parts in self._panes.items() if parts.has_reports)

    def take(self, newest_pane: int) -> Iterator[tuple[int, WaitingPane]]:
        """Remove and yield the panes up to one, in the order of time."""
        for pane in sorted(pane for pane in self._panes if pane <= newest_pane):
            yield pane, self._panes.pop(pane)

    def _waiting(self, pane: int) -> WaitingPane:
        return self._panes.setdefault(pane, WaitingPane(self._cells))
