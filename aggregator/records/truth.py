"""The true counts of a simulated query, to compare estimates with. Pure."""

from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from aggregator.records.span import Span
from oracles.types import Ints


@dataclass(slots=True, eq=False)
class Truth:
    """The true counts of one query by pane and source. A newer record of a source replaces the older one."""

    size: int = 0
    """Approximate bytes in memory."""
    _panes: list[int] = field(default_factory=list)
    """The panes in the order of time."""
    _counts: dict[int, dict[str, tuple[Ints, ...]]] = field(default_factory=dict)
    _dropped_through: int | None = None
    """The newest dropped pane."""

    def __len__(self) -> int:
        """Return the number of panes."""
        return len(self._panes)

    @property
    def oldest(self) -> int | None:
        return self._panes[0] if self._panes else None

    @property
    def newest(self) -> int | None:
        return self._panes[-1] if self._panes else None

    @property
    def droppable(self) -> int | None:
        """Return the oldest pane, or None if it is the newest one too, which stays."""
        return self._panes[0] if len(self._panes) > 1 else None

    def put(self, pane: int, source: str, counts: tuple[Ints, ...]) -> None:
        """Set the counts of one source, in place of its earlier ones."""
        # A late record of a dropped pane would come back without its other sources, and look complete.
        if self._dropped_through is not None and pane <= self._dropped_through:
            return
        if pane not in self._counts:
            insort(self._panes, pane)
            self._counts[pane] = {}
        replaced = self._counts[pane].get(source, ())
        self.size += _bytes(counts) - _bytes(replaced)
        self._counts[pane][source] = counts

    def drop_oldest(self) -> None:
        pane = self._panes.pop(0)
        self.size -= sum(map(_bytes, self._counts.pop(pane).values()))
        self._dropped_through = pane

    def counts(self, span: Span) -> tuple[Ints, ...] | None:
        """Return the counts of all values of each attribute in a window, or None if they are unknown."""
        if not self._covers(span):
            return None

        panes_inside = self._panes[bisect_left(self._panes, span.start) : bisect_left(self._panes, span.end)]
        by_source = [counts for pane in panes_inside for counts in self._counts[pane].values()]
        # A source that counts other attributes or domains would spoil the sum.
        if len({tuple(map(len, counts)) for counts in by_source}) != 1:
            return None
        return tuple(np.sum(of_attribute, axis=0) for of_attribute in zip(*by_source, strict=True))

    def shares(self, spans: Sequence[Span], attribute: int, position: int) -> list[float | None]:
        """Return the share of one value in each window, or None if it is unknown."""
        # Sums up to each pane, because one difference then answers for a window of any length.
        totals = [0]
        own = [0]
        for pane in self._panes:
            by_source = [counts[attribute] for counts in self._counts[pane].values()]
            totals.append(totals[-1] + sum(int(counts.sum()) for counts in by_source))
            own.append(own[-1] + sum(int(counts[position]) for counts in by_source))

        shares: list[float | None] = []
        for span in spans:
            start = bisect_left(self._panes, span.start)
            end = bisect_left(self._panes, span.end)
            n = totals[end] - totals[start]
            shares.append((own[end] - own[start]) / n if n and self._covers(span) else None)
        return shares

    def _covers(self, span: Span) -> bool:
        if self._dropped_through is not None and span.start <= self._dropped_through:
            return False
        # `all` starts at the first pane with reports, so the true counts of this pane are needed too.
        return span.window.kind != "all" or (bool(self._panes) and self._panes[0] <= span.start)


def _bytes(counts: tuple[Ints, ...]) -> int:
    return sum(column.nbytes for column in counts)
