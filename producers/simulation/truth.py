"""The true counts of simulated answers, by pane: what estimates are measured against.

They hold the honest answers that were sent in time, each once. A client never sends its own.
"""

from collections import Counter

import numpy as np

from hubbub.definitions.versions import Versions
from hubbub.truth import TrueCounts, encode
from oracles.kernels.arrays import add_counts
from oracles.query import Query
from oracles.types import Ints


class TrueAnswers:
    """The answers of one source, counted: one record a pane, which replaces the one it sent before."""

    def __init__(self, query: Query, source: str) -> None:
        self.query = query
        self.source = source
        self._counts: dict[int, list[Ints]] = {}
        self._changed: set[int] = set()
        self._under_way: Counter[int] = Counter()
        """Frames, and the pane's own records."""

    def sent(self, pane: int) -> None:
        """A frame of the pane is on its way."""
        self._under_way[pane] += 1

    def arrived(self, pane: int, values: Ints, at: int) -> None:
        """A frame with these honest answers entered the log at a time, in milliseconds."""
        self.lost(pane)
        if not len(values) or not in_time(self.query, pane, at):
            return
        if pane not in self._counts:
            self._counts[pane] = [np.zeros(domain.size, np.int64) for domain in self.query.domains]
        for counts, column in zip(self._counts[pane], values.reshape(len(values), -1).T, strict=True):
            add_counts(counts, column)
        self._changed.add(pane)

    def lost(self, pane: int) -> None:
        """A frame of the pane is on its way no more."""
        self._under_way[pane] -= 1
        if not self._under_way[pane]:
            del self._under_way[pane]

    def due(self, at: float) -> list[int]:
        """The panes that are over at `at` (seconds) and have something new to tell, and no frame under way."""
        self._forget(at)
        over = (pane for pane in self._changed if pane + self.query.pane <= at)
        return sorted(pane for pane in over if not self._under_way[pane])

    def tell(self, pane: int) -> tuple[bytes, bytes]:
        """Key and record of a pane, which are on their way from here on."""
        self._changed.discard(pane)
        self.sent(pane)
        return self.record(pane)

    def told(self, pane: int, *, arrived: bool) -> None:
        """Take in the fate of that record; one that is lost is due again."""
        self.lost(pane)
        if not arrived:
            self._changed.add(pane)

    def record(self, pane: int) -> tuple[bytes, bytes]:
        query = self.query
        told = TrueCounts(query.name, query.digest.hex(), pane, self.source, tuple(self._counts[pane]))
        return told.key, encode(told, several=bool(query.attributes))

    def _forget(self, at: float) -> None:
        """Drop the panes that nothing can be added to any more, once that is told."""
        closed = at - self.query.pane - self.query.lateness
        for pane in [pane for pane in self._counts if pane < closed]:
            if pane not in self._changed and not self._under_way[pane]:
                del self._counts[pane]


def in_time(query: Query, pane: int, at: int) -> bool:
    """Whether a report of this pane counts if its log's time is `at`, in milliseconds."""
    return Versions.of(query).untimely(pane, at) is None
