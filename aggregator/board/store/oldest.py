"""The parts of a full board in the order in which they lose their data, the oldest first. Pure."""

import heapq
from typing import Protocol

Place = tuple[int, ...]
"""The order of two parts whose oldest data have one age."""


class AgedData(Protocol):
    """Data of one kind in the order of time, such as the finals of a kind of window."""

    size: int

    @property
    def droppable(self) -> int | None:
        """Return the time of the oldest data, or None if these are the newest ones too, which stay."""

    def drop_oldest(self) -> None: ...


class OldestParts:
    """A heap of parts. A part that changes gets another row, and its former row is passed over when it comes up."""

    def __init__(self) -> None:
        self._rows: list[tuple[int, Place]] = []
        self._parts: dict[Place, AgedData] = {}
        self._times: dict[Place, int | None] = {}
        """The time in the valid row of each part, or None if it has none."""

    def update(self, place: Place, part: AgedData) -> None:
        """List a part by its present oldest data."""
        time = part.droppable
        if time == self._times.get(place):
            return

        self._parts[place] = part
        self._times[place] = time
        if time is not None:
            heapq.heappush(self._rows, (time, place))

        # Former rows behind a part that never changes would not come up, and would fill the memory.
        if len(self._rows) > 2 * len(self._parts) + 16:
            self._rows = [row for row in self._rows if self._is_valid(row)]
            heapq.heapify(self._rows)

    def drop(self) -> int | None:
        """Drop the oldest data, and return their bytes. Return None if only the newest data of each part are left."""
        while self._rows and not self._is_valid(self._rows[0]):
            heapq.heappop(self._rows)
        if not self._rows:
            return None

        _, place = self._rows[0]
        part = self._parts[place]
        size = part.size
        part.drop_oldest()
        self.update(place, part)
        return size - part.size

    def _is_valid(self, row: tuple[int, Place]) -> bool:
        time, place = row
        return self._times[place] == time
