"""The closed panes of the queries of a snapshot partition: from the clocks, and from watermarks of older releases.

A watermark names an end for each query and partition. Workers of this release write none: the clocks of the partitions
and the definitions say as much.
"""

from collections.abc import Mapping
from functools import partial
from typing import Protocol

import numpy as np

from aggregator.merging.slot_ends import closed_on_slots
from aggregator.tallies.clock_book import NO_CLOCK, ClockView
from hubbub.definitions.versions import Versions
from oracles.frame import slots


class Marked(Protocol):
    """The merger of a query, which takes the ends of its closed panes."""

    versions: Versions
    """All versions of the definition."""

    def mark(self, partition: int, closed_through: int) -> None:
        """Take the end of the newest closed pane of a partition."""

    def mark_all(self, closed_through: int) -> None:
        """Take the end of the newest pane that is closed on all its slots."""


class ClosedPanes:
    """The clocks of all source partitions, and the watermarks that are still in the topic."""

    def __init__(self, partitions: int) -> None:
        self.have_slots = False
        """Whether any query is on some of the partitions only."""
        self._partitions = partitions
        self._view: ClockView | None = None
        self._watermarks: dict[bytes, tuple[int, Mapping[bytes, int]]] = {}
        """The partition and the ends of each watermark record by its key."""

    def may_close(self, view: ClockView) -> bool:
        """Whether panes may be closed at these clocks that were open before.

        The partition that is furthest behind decides. Single clocks matter only to watermarks and to slots.
        """
        if self._watermarks or self._view is None or view.least != self._view.least:
            return True
        return self.have_slots and not np.array_equal(view.clocks, self._view.clocks)

    def put_clocks(self, view: ClockView) -> None:
        """Take the clocks of all partitions."""
        self._view = view

    def put_watermark(self, name: bytes, partition: int, ends: Mapping[bytes, int]) -> None:
        """Keep a watermark until the clocks have passed it."""
        self._watermarks[name] = partition, ends

    def forget_watermark(self, name: bytes) -> None:
        """Note that a watermark is deleted from the topic."""
        self._watermarks.pop(name, None)

    def mark(self, merger: Marked) -> None:
        """Tell the merger of a query which of its panes the clocks have closed."""
        versions = merger.versions
        closed_end = closed_on_slots(versions, partial(self._least_end, versions))
        if closed_end is not None:
            merger.mark_all(closed_end)
        # A query whose watermarks have passed on all partitions is closed on its slots, too.
        if self._watermarks:
            for partition, clock in self._clocks().items():
                merger.mark(partition, versions.closed_through(clock))

    def _least_end(self, versions: Versions, spread: int | None) -> int | None:
        """Return the end of the newest pane of a query that the clocks of all slots of a spread have closed."""
        clock = None if self._view is None else self._view.least_on_slots(versions.query.digest, spread)
        return None if clock is None else versions.closed_through(clock)

    def end(self, versions: Versions) -> int | None:
        """Return the end of the newest pane of a query that is closed on all its slots, by clocks and watermarks."""
        ends = self._ends(versions)

        def least_end(spread: int | None) -> int | None:
            places = slots(versions.query.digest, spread, self._partitions)
            slot_ends = [ends[partition] for partition in places if partition in ends]
            return min(slot_ends) if len(slot_ends) == len(places) else None

        return closed_on_slots(versions, least_end)

    def _ends(self, versions: Versions) -> dict[int, int]:
        """Return the end of the newest closed pane of a query, by partition."""
        ends = {partition: versions.closed_through(clock) for partition, clock in self._clocks().items()}
        for partition, by_digest in self._watermarks.values():
            end = by_digest.get(versions.query.digest)
            if end is not None:
                ends[partition] = max(end, ends.get(partition, end))
        return ends

    def take_obsolete(self, definitions: Mapping[bytes, Versions]) -> list[bytes]:
        """Remove and return the keys of the watermarks that the clocks have passed."""
        names = [name for name in self._watermarks if self._is_passed(name, definitions)]
        for name in names:
            del self._watermarks[name]
        return names

    def _is_passed(self, name: bytes, definitions: Mapping[bytes, Versions]) -> bool:
        partition, ends = self._watermarks[name]
        clock = self._clocks().get(partition)
        if clock is None:
            return False
        # A forgotten definition has no windows to come, so its end does not matter.
        known_ends = [(definitions[digest], end) for digest, end in ends.items() if digest in definitions]
        return all(versions.closed_through(clock) >= end for versions, end in known_ends)

    def _clocks(self) -> dict[int, int]:
        """Return the clock of each partition that has one."""
        clocks = [] if self._view is None else self._view.clocks.tolist()
        return {partition: clock for partition, clock in enumerate(clocks) if clock != NO_CLOCK}
