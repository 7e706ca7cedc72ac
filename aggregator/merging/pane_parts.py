"""The snapshots of panes that wait for their windows, one for each source partition."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from aggregator.tallies.snapshot import INCOMPLETE, Snapshot

ALL = -1
"""The partition number of a merged snapshot: the total of a pane that is closed on all partitions."""


class PanePart(NamedTuple):
    """The part of a pane from one source partition."""

    snapshot: Snapshot
    is_unreadable: bool = False


class PaneParts:
    """The parts of the panes of one query that are not in their windows yet."""

    def __init__(self, cells: int) -> None:
        self._cells = cells
        self._panes: dict[int, dict[int, PanePart]] = {}

    def put(self, pane: int, partition: int, snapshot: Snapshot) -> bool:
        """Add the snapshot of a closed pane. Return False if it brings nothing new.

        A snapshot of `ALL` replaces the snapshots of all partitions, which may be deleted already.
        """
        parts = self._panes.setdefault(pane, {})
        if _is_readable(parts.get(ALL)) or _is_readable(parts.get(partition)):
            return False

        if partition == ALL:
            parts.clear()
        parts[partition] = PanePart(snapshot)
        return True

    def put_unreadable(self, pane: int, partition: int) -> None:
        """Add an unreadable snapshot, unless there is a part or a readable total in its place."""
        parts = self._panes.setdefault(pane, {})
        if partition not in parts and not _is_readable(parts.get(ALL)):
            # The flag makes the windows of the pane incomplete, because nobody knows these reports.
            no_reports = Snapshot(0, 0, 0, INCOMPLETE, np.zeros(self._cells, np.uint8))
            parts[partition] = PanePart(no_reports, is_unreadable=True)

    def with_reports(self) -> list[int]:
        """Return the starts of the panes with reports, in order."""
        return sorted(pane for pane, parts in self._panes.items() if any(part.snapshot.n for part in parts.values()))

    def take(self, newest_pane: int) -> Iterator[tuple[int, list[PanePart]]]:
        """Remove and yield the parts of the panes up to one, in the order of time."""
        for pane in sorted(pane for pane in self._panes if pane <= newest_pane):
            yield pane, list(self._panes.pop(pane).values())


def _is_readable(part: PanePart | None) -> bool:
    return part is not None and not part.is_unreadable
