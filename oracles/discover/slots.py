"""Slots: a client reports the cell of its string for one level or map, which it draws once a round."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oracles.discover.cell_hash import MAP_SLOTS, MAPS, Strings
from oracles.errors import ReportError
from oracles.mechanisms.entropy import Source
from oracles.mechanisms.protocol import Oracle
from oracles.multi import Smp
from oracles.readable import RowDraw
from oracles.types import Ints, Reports


class Slots(Smp):
    """smp over the levels and maps of strings. A level has five slots of 5 L + 12, and a map three.

    Claim: epsilon-LDP for a whole string. The slot does not depend on it, and the cell is protected by the oracle.
    """

    name = "strings"

    def __init__(self, strings: Strings, make: Callable[[int], Oracle]) -> None:
        """Make an oracle for each part by `make`, which takes the number of cells."""
        cell = make(1 << strings.cells)
        super().__init__(cell.epsilon, [cell] * strings.parts)
        self.strings = strings

    def __repr__(self) -> str:
        return f"Slots({self.strings.coding!r}, cells={self.strings.cells}, {self.encoders[0]!r})"

    def perturb(self, values: ArrayLike, rng: "np.random.Generator | Source | None" = None) -> Reports:
        """Return a report for each row of cells: one cell for each level and map."""
        cells = np.asarray(values)
        if cells.ndim != 2 or cells.shape[1] != self.strings.parts:
            raise ReportError(f"cells must have shape (n, {self.strings.parts}), got {cells.shape}")
        return super().perturb(cells, rng)

    @property
    def count_parts(self) -> tuple[int, ...]:
        return (self.strings.parts,)

    @property
    def row_draws(self) -> tuple[RowDraw, ...]:
        """The rows of the maps. Nothing is published of the cells of a level."""
        part = MAP_SLOTS / self.strings.slots
        return tuple(RowDraw(draw.rows, draw.share * part) for draw in self.cell_oracle.row_draws) * MAPS

    def row_draws_of(self, place: int) -> tuple[RowDraw, ...]:
        del place
        return self.row_draws

    def choose(self, draw: Source, count: int) -> Ints:
        """Return the level of each client, or the number of levels plus its map."""
        return self.strings.part(draw.below(self.strings.slots, count))

    def columns(self, values: Ints) -> list[Ints]:
        del values
        return []

    def answer_counts(self, state: NDArray[np.integer], n: int) -> Sequence[int | tuple[int, ...]]:
        return [tuple(self.answering(state.astype(np.int64, copy=False), n))]

    def keyed(self, digest: bytes) -> Self:
        """Return the same slots with the hash of another digest."""
        return type(self)(replace(self.strings, digest=digest), lambda _: self.cell_oracle)

    @property
    def cell_oracle(self) -> Oracle:
        """Oracle of the cells, the same for each level and map."""
        return self.encoders[0]
