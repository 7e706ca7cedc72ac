"""The true counts of a simulation, read and kept: what estimates are measured against. Pure."""

from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from aggregator.merging.windows import Span

Ints = NDArray[np.int64]


class Told(NamedTuple):
    """The true counts of a pane by one source."""

    query: str
    digest: str
    pane: int
    source: str
    counts: tuple[Ints, ...]
    """Of each attribute, or of the one answer."""


def read(value: bytes) -> Told:
    """The record in these bytes; a ValueError, TypeError, KeyError, IndexError or OverflowError where it is none."""
    said = orjson.loads(value)
    counts = said["counts"] if isinstance(said["counts"][0], list) else [said["counts"]]
    columns = tuple(np.array(column, np.int64) for column in counts)
    return Told(said["query"], said["digest"], said["pane"], said["source"], columns)


@dataclass(slots=True, eq=False)
class Truth:
    """Of one digest: the counts of each pane, which sources replace and the board adds up."""

    size: int = 0
    """The memory it takes, about."""
    _panes: list[int] = field(default_factory=list)
    """In order."""
    _counts: dict[int, dict[str, tuple[Ints, ...]]] = field(default_factory=dict)
    _shape: tuple[int, ...] | None = None
    """How many values each attribute has."""
    _dropped: int | None = None
    """Panes up to this one are forgotten."""

    @property
    def oldest(self) -> int | None:
        return self._panes[0] if self._panes else None

    @property
    def newest(self) -> int | None:
        return self._panes[-1] if self._panes else None

    def put(self, pane: int, source: str, counts: tuple[Ints, ...]) -> None:
        """The counts of one source, in place of those it sent before."""
        shape = tuple(map(len, counts))
        if shape != (self._shape or shape):
            raise ValueError(f"true counts of {shape} values, where others are of {self._shape}")
        self._shape = shape
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

    def counts(self, span: Span, attribute: int) -> Ints | None:
        """The counts of all values in a window; None where they are not known."""
        if not self._covers(span):
            return None
        inside = self._panes[bisect_left(self._panes, span.start) : bisect_left(self._panes, span.end)]
        known = [counts[attribute] for pane in inside for counts in self._counts[pane].values()]
        return np.sum(known, axis=0) if known else None

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
