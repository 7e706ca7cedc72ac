"""Simulated reports gathered to frames as a client's are, many at a time, with the truth beside them."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from oracles.errors import ParameterError
from oracles.frame import HEADER_SIZE, encode, partition_of
from oracles.mechanisms.entropy import Source, source
from oracles.query import Query
from oracles.types import Ints, Reports
from producers.batch import BYTES, LINGER, REPORTS, pane_of

Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Shipment:
    """A frame, and the honest answers in it, which never leave the simulation but as counts."""

    frame: bytes
    partition: int
    pane: int
    n: int
    values: Ints


@dataclass(slots=True, eq=False)
class _Pile:
    """Reports of one pane that wait for others until a time."""

    until: int
    n: int = 0
    pieces: list[tuple[Reports, Ints, Flags]] = field(default_factory=list)


class Framer:
    """One query's reports on their way into frames; times are milliseconds since the Unix epoch.

    The frames are those of `Batches`: as many reports and bytes, as long a wait, a random id each.
    """

    def __init__(
        self, query: Query, partitions: int, most: int = REPORTS, rng: np.random.Generator | Source | None = None
    ) -> None:
        if most < 1:
            raise ParameterError(f"a frame holds at least 1 report, got {most}")
        self.query = query
        self.partitions = partitions
        self.most = max(1, min(most, (BYTES - HEADER_SIZE) // query.oracle.width))
        self._draw = source(rng)
        self._piles: dict[int, _Pile] = {}

    def pane(self, at: int) -> int:
        """The start of the pane that a time falls in, in seconds."""
        return pane_of(self.query, at // 1000)

    def put(self, pane: int, reports: Reports, values: Ints, honest: Flags, at: int) -> Iterator[Shipment]:
        """Add reports that are given at a time; the frames that are full now."""
        pile = self._piles.get(pane)
        if pile is None:
            until, end = at + int(1000 * LINGER), 1000 * (pane + self.query.pane)
            pile = self._piles[pane] = _Pile(min(until, end) if at < end else until)
        pile.pieces.append((reports, values, honest))
        pile.n += len(reports)
        if pile.n >= self.most:
            yield from self._cut(pane, self._piles.pop(pane), at)

    def overdue(self, at: int) -> Iterator[Shipment]:
        """Frames that are not full, but have waited long enough or have their pane's end here."""
        for pane in [pane for pane, pile in self._piles.items() if pile.until <= at]:
            yield from self._ship(pane, *_joined(self._piles.pop(pane)))

    def rest(self) -> Iterator[Shipment]:
        """All that waits."""
        for pane in list(self._piles):
            yield from self._ship(pane, *_joined(self._piles.pop(pane)))

    def _cut(self, pane: int, pile: _Pile, at: int) -> Iterator[Shipment]:
        """The full frames of a pile; what is left of it waits on."""
        reports, values, honest = _joined(pile)
        full = len(reports) // self.most * self.most
        for start in range(0, full, self.most):
            part = slice(start, start + self.most)
            yield from self._ship(pane, reports[part], values[part], honest[part])
        if full < len(reports):
            yield from self.put(pane, reports[full:], values[full:], honest[full:], at)

    def _ship(self, pane: int, reports: Reports, values: Ints, honest: Flags) -> Iterator[Shipment]:
        name = bytes(8)
        while not any(name):
            name = self._draw.raw(8).tobytes()
        frame = encode(self.query.digest, pane, reports, name)
        yield Shipment(frame, partition_of(name, self.partitions), pane, len(reports), values[honest])


def _joined(pile: _Pile) -> tuple[Reports, Ints, Flags]:
    reports, values, honest = zip(*pile.pieces, strict=True)
    return np.concatenate(reports), np.concatenate(values), np.concatenate(honest)
