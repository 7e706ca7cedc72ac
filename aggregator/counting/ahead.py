"""Clocks ahead of this machine's: what comes in time is late there, and only a correction can take that back."""

import logging
from typing import Any

log = logging.getLogger(__name__)

MOST = 2.0
"""Seconds that a partition's clock may be ahead until somebody has to look."""


class Ahead:
    """The partitions whose clocks are too far ahead, each told once."""

    def __init__(self, gauge: Any) -> None:
        self._gauge = gauge
        self._told: set[int] = set()

    def look(self, partition: int, ahead: float) -> None:
        self._gauge.labels(str(partition)).set(ahead)
        if ahead > MOST and partition not in self._told:
            self._told.add(partition)
            said = "the clock of partition %s is %.0f s ahead of this machine's: reports that come in time are late"
            log.critical(said, partition, ahead)
        elif ahead <= MOST:
            self._told.discard(partition)
