"""Idle partitions: which of them are owed an empty frame, so that their clocks move all the same."""

from collections.abc import Mapping

TICK = 1.0
"""Seconds without a record after which the owner of a partition appends an empty frame."""


class Idle:
    """The partitions of one worker, and when each was ticked last."""

    def __init__(self, *, always: bool) -> None:
        self._always = always
        """Whatever arrives: on the embedded broker only ticks move a clock."""
        self._ticked: dict[int, float] = {}

    def due(self, arrived: Mapping[int, float], now: float) -> list[int]:
        """Those to tick now, by when the newest record of each arrived."""
        found = []
        for partition, at in arrived.items():
            last = self._ticked.get(partition, 0.0)
            if now - (last if self._always else max(last, at)) >= TICK:
                self._ticked[partition] = now
                found.append(partition)
        return found
