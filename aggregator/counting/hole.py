"""A hole in the log, and whether it is one: what the broker says of where its records go on."""

from dataclasses import dataclass

ASK_AGAIN = 5.0
"""Seconds for which an answer of the broker is taken for true."""


@dataclass(frozen=True, slots=True)
class Hole:
    """The broker's answer about the offsets from `start` on."""

    start: int
    first: int
    """The offset of the first record there."""
    beginning: int
    """The first offset that the log still has."""
    asked: float

    def answers(self, start: int, now: float) -> bool:
        return self.start == start and now - self.asked <= ASK_AGAIN

    def is_before(self, first: int) -> bool:
        """Whether a run that begins at `first` is what follows; else a rebalance has made its fetch stale."""
        return self.first == first

    @property
    def deleted(self) -> bool:
        """Whether records were there, and went before they were read."""
        return self.start < self.beginning <= self.first
