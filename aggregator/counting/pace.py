"""The pace of writing: bytes and records a second stay below their bounds on average, whatever is written."""

from dataclasses import dataclass

RECORDS_PER_S = 20_000
"""Some microseconds of a core each, here and where they are read."""


@dataclass(slots=True)
class Pace:
    """One budget for all; seconds are those that it takes up."""

    bytes_per_s: float
    records_per_s: float = RECORDS_PER_S
    _paced: float = 0.0
    _urgent: float = 0.0

    def spend(self, size: int, records: int, *, urgent: bool = False) -> None:
        """So much was written; what is urgent did not wait for its turn."""
        took = max(size / self.bytes_per_s, records / self.records_per_s)
        if urgent:
            self._urgent += took
        else:
            self._paced += took

    def pause(self) -> float:
        """Seconds that are to pass from the last turn to the next.

        What was urgent lengthens them, but at most to twice what the turn itself took up: else closings
        alone could put off the checkpoints that a restart reads from.
        """
        pause = self._paced + min(self._urgent, self._paced)
        self._paced = self._urgent = 0.0
        return pause
