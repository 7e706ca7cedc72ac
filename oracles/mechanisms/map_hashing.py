"""Local hashing by maps of a family, shared by FULL, SHORT and SUB."""

from fractions import Fraction

import numpy as np

from oracles.mechanisms.entropy import Source, source
from oracles.mechanisms.families import Words
from oracles.mechanisms.hashing import Hashing
from oracles.mechanisms.pair_law import Subsets
from oracles.readable import RowDraw
from oracles.types import Ints

LONGEST = 64
"""Most bits of a report."""


class MapHashing(Hashing):
    """A base of local hashing whose maps are of one family."""

    def __init__(self, name: str, epsilon: float, size: int, subsets: Subsets, *, table: int | None = None) -> None:
        self.subsets = subsets
        """The family, and how often a report supports two values together."""
        words = subsets.family.words(subsets.rows)
        super().__init__(name, epsilon, size, subsets.rows, words=words, bits=subsets.bits, table=table)

    def _q(self, p: Fraction) -> Fraction:
        return self.subsets.rate(p)

    def rows(self, count: int, rng: "np.random.Generator | Source | None" = None) -> Ints:
        return self.subsets.family.draw(count, self.hashes, self.bits, source(rng))

    def _expand(self, words: list[Words]) -> list[Words]:
        return self.subsets.family.rows_of(words, self.hashes, self.bits)

    def _forged(self, codes: Ints, count: int, rng: "np.random.Generator") -> Ints:
        return self.subsets.family.forged(codes, self.hashes, self.bits, count=count, rng=rng)

    @property
    def supports_one(self) -> bool:
        """Whether a report names exactly one value: the map is then a bijection."""
        return self.subsets.names_one_code and self.size == self.cells

    @property
    def row_draws(self) -> tuple[RowDraw, ...]:
        """The rows of a report, or none if it names one value."""
        return () if self.supports_one else super().row_draws
