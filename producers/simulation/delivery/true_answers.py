"""The true counts of simulated answers by pane, to compare the estimates with.

They contain each honest answer that was sent in time, once. A real client never sends them.
"""

from collections import Counter

import numpy as np

from hubbub.definitions.versions import Versions
from hubbub.true_counts import TrueCounts, encode
from oracles.kernels.arrays import add_counts
from oracles.query import Query
from oracles.types import Ints


class TrueAnswers:
    """The counts of one source, with a record per pane. A later record of a pane replaces the earlier one."""

    def __init__(self, query: Query, source: str) -> None:
        self.query = query
        self.source = source
        self._counts: dict[int, list[Ints]] = {}
        self._changes: set[int] = set()
        """Panes with counts that are in no record yet."""
        self._pending: Counter[int] = Counter()
        """The number of frames and records of each pane that Kafka has not acknowledged."""

    def expect(self, pane: int) -> None:
        """Note that a frame of the pane is on its way."""
        self._pending[pane] += 1

    def count(self, pane: int, values: Ints, time_ms: int) -> None:
        """Count the honest answers of a frame that entered the log at a time, in milliseconds."""
        self.release(pane)
        if not len(values) or not in_time(self.query, pane, time_ms):
            return
        columns = self.query.oracle.columns(values)
        if not columns:
            return

        if pane not in self._counts:
            self._counts[pane] = [np.zeros(domain.size, np.int64) for domain in self.query.domains]
        for counts, column in zip(self._counts[pane], columns, strict=True):
            add_counts(counts, column)

        self._changes.add(pane)

    def release(self, pane: int) -> None:
        """Note that a frame of the pane is no longer on its way."""
        self._pending[pane] -= 1
        if not self._pending[pane]:
            del self._pending[pane]

    def due_panes(self, time_s: float) -> list[int]:
        """Return the panes that are over at a time in seconds, have new counts, and have no frame on its way."""
        self._forget(time_s)
        past_panes = (pane for pane in self._changes if pane + self.query.pane <= time_s)
        return sorted(pane for pane in past_panes if not self._pending[pane])

    def start_record(self, pane: int) -> tuple[bytes, bytes]:
        """Return the key and the record of a pane, and note that they are on their way."""
        self._changes.discard(pane)
        self.expect(pane)
        return self.record(pane)

    def end_record(self, pane: int, *, success: bool) -> None:
        """Note the result of that record. After a failure the pane is due again."""
        self.release(pane)
        if not success:
            self._changes.add(pane)

    def record(self, pane: int) -> tuple[bytes, bytes]:
        query = self.query
        counts = TrueCounts(query.name, query.digest.hex(), pane, self.source, tuple(self._counts[pane]))
        return counts.key, encode(counts, several=bool(query.attributes))

    def _forget(self, time_s: float) -> None:
        """Drop the panes that can no longer change, if their counts are published."""
        end = time_s - self.query.pane - self.query.lateness
        # A frame that is on its way may still add counts to its pane.
        for pane in [pane for pane in self._counts if pane < end]:
            if pane not in self._changes and not self._pending[pane]:
                del self._counts[pane]


def in_time(query: Query, pane: int, time_ms: int) -> bool:
    """Whether a report of this pane counts if the log's time of its record is `time_ms`, in milliseconds."""
    return Versions.of(query).untimely(pane, time_ms) is None
