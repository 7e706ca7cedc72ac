"""The true counts of a simulation as they are kept: what estimates are measured against. Pure."""

from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from aggregator.merging.windows import Span
from oracles.types import Ints


@dataclass(slots=True, eq=False)
class Truth:
    """Of one digest: the counts of each pane, which sources replace and the board adds up."""

    size: int = 0
    """The memory it takes, about."""
    _panes: list[int] = field(default_factory=list)
    """In order."""
    _counts: dict[int, dict[str, tuple[Ints, ...]]] = field(default_factory=dict)
    _dropped: int | None = None
    """Panes up to this one are forgotten."""

    def __len__(self) -> int:
        """How many panes are kept."""
        return len(self._panes)

    @property
    def oldest(self) -> int | None:
        return self._panes[0] if self._panes else None

    @property
    def newest(self) -> int | None:
        return self._panes[-1] if self._panes else None

    def put(self, pane: int, source: str, counts: tuple[Ints, ...]) -> None:
        """The counts of one source, in place of those it sent before."""
        if self._dropped is not None and pane <= self._dropped:
            return
        if pane not in self._counts:
            insort(self._panes, pane)
            self._counts[pane] = {}
        before = self._counts[pane].get(source, ())
        self.size += _bytes(counts) - _bytes(before)
        self._counts[pane][source] = counts

    def drop_oldest(self) -> None:
        pane = self._panes.pop(0)
        self.size -= sum(map(_bytes, self._counts.pop(pane).values()))
        self._dropped = pane

    def counts(self, span: Span) -> tuple[Ints, ...] | None:
        """The counts of all values of each attribute in a window; None where they are not known."""
        if not self._covers(span):
            return None
        inside = self._panes[bisect_left(self._panes, span.start) : bisect_left(self._panes, span.end)]
        known = [counts for pane in inside for counts in self._counts[pane].values()]
        if len({tuple(map(len, counts)) for counts in known}) != 1:
            return None
        return tuple(np.sum(of_attribute, axis=0) for of_attribute in zip(*known, strict=True))

    def shares(self, spans: Sequence[Span], attribute: int, position: int) -> list[float | None]:
        """The share of one value in each of these windows; None where it is not known."""
        totals, own = [0], [0]
        for pane in self._panes:
            known = [counts[attribute] for counts in self._counts[pane].values()]
            totals.append(totals[-1] + sum(int(counts.sum()) for counts in known))
            own.append(own[-1] + sum(int(counts[position]) for counts in known))
        found: list[float | None] = []
        for span in spans:
            first, last = (bisect_left(self._panes, at) for at in (span.start, span.end))
            n = totals[last] - totals[first]
            found.append((own[last] - own[first]) / n if n and self._covers(span) else None)
        return found

    def _covers(self, span: Span) -> bool:
        if self._dropped is not None and span.start <= self._dropped:
            return False
        # `all` begins with the first pane that has reports, so its truth must be there too.
        return span.window.kind != "all" or (bool(self._panes) and self._panes[0] <= span.start)


def _bytes(counts: tuple[Ints, ...]) -> int:
    return sum(column.nbytes for column in counts)
