"""The maps of a tally: counts of whole strings. They answer for any string, without the levels.

A name that is confirmed has a cell in each map. Another string is told apart from it by the maps in which its own cell
is another one: its clean maps.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from oracles.discover.cell_hash import MAPS, Strings
from oracles.discover.slots import Slots
from oracles.estimate import Estimate
from oracles.estimate.intervals import LEVEL
from oracles.estimate.looks import PRIOR_REPORTS, LookLaw
from oracles.estimate.pure import Pure
from oracles.types import Ints


@dataclass(frozen=True)
class Name:
    """The share of a string, with its error and its interval. NaN if no map tells it apart from the names before it."""

    text: str
    share: float
    stderr: float
    low: float
    high: float
    level: float
    """Level of the interval."""
    n: int
    """Number of independent reports that tell of the string."""
    error: float = float("nan")
    """Probability of such a proof for any candidate if it is false. NaN without a test."""
    watched_error: float = float("nan")
    """The same for all searches of a window since the start together. NaN without a test."""
    candidates: int = 0
    """Number of candidates of the test."""

    @property
    def is_ambiguous(self) -> bool:
        return not self.n


@dataclass(frozen=True, eq=False)
class Maps:
    """The counts of the cells in each map."""

    strings: Strings
    oracle: Pure
    """Oracle of the cells."""
    counts: Sequence[Ints]
    answering: Sequence[int]
    """Number of reports of each map."""
    n: int
    """Number of reports of the tally, of all levels and maps."""
    n_independent: int

    @classmethod
    def of(
        cls, slots: Slots, state: Ints, n: int, n_independent: int | None = None, support: Sequence[Ints] | None = None
    ) -> "Maps":
        """Return the maps of a tally of `n` reports. `support` is that of all levels and maps, if it is known."""
        levels = slots.strings.levels
        if support is None:
            support = slots.support(state, n)
        return cls(
            strings=slots.strings,
            oracle=slots.cell_oracle,
            counts=support[levels:],
            answering=slots.answering(state, n)[levels:],
            n=n,
            n_independent=n if n_independent is None else n_independent,
        )

    @cached_property
    def pure(self) -> Pure:
        """Law of a string. Another one has the same cell with probability 2**-b, whatever the strings are."""
        p, q = self.oracle.exact
        return Pure(self.oracle.name, self.oracle.size, p, q + (p - q) / (1 << self.strings.cells))

    def independent(self, reports: int) -> int:
        """Return how many of these reports are independent."""
        return reports * self.n_independent // self.n if self.n else 0

    def cells(self, text: str) -> list[int]:
        """Return the cell of a text in each map. The mark of an open end is beyond the last symbol."""
        text_cells: list[int] = self.strings.cells_of(text)[self.strings.levels :].tolist()
        return text_cells

    def total(self, text_cells: Sequence[int]) -> int:
        """Return the sum of the counts of these cells in all maps."""
        return self._counted(text_cells, range(MAPS))[0]

    def estimate(self, text: str, text_cells: Sequence[int], maps: Iterable[int], level: float = LEVEL) -> Name:
        """Return the share of a text with these cells by these maps."""
        count, n = self._counted(text_cells, maps)
        if not n:
            nan = float("nan")
            return Name(text, share=nan, stderr=nan, low=nan, high=nan, level=level, n=0)

        # The clients of these maps are a sample of all, so the error includes which of them were drawn.
        shares = self.pure.shares(np.array([count]), n)
        estimate = Estimate(shares, n, self.pure, self.independent(n), self.n_independent)
        low, high = estimate.interval(level)
        return Name(
            text,
            share=float(shares[0]),
            stderr=float(estimate.stderr[0]),
            low=float(low[0]),
            high=float(high[0]),
            level=level,
            n=estimate.n_independent,
        )

    def p_value(self, text_cells: Sequence[int], maps: Iterable[int]) -> float:
        """Return the probability of a count at least as large if nobody has the string."""
        # SciPy is a part of the extra "stats", which clients do not have.
        from oracles.kernels.tails import binomial_tail

        count, n = self._counted(text_cells, maps)
        independent_count = count * self.n_independent // self.n
        return float(binomial_tail(np.array([independent_count]), self.independent(n), self.pure.q)[0])

    def watched_p_value(self, p_value: float, maps: Iterable[int]) -> float:
        """Return the probability of such a p-value at any look if nobody has the string.

        Reports of a window since the start add up, so a search at each look would find a false name in the end.
        """
        from scipy import special

        independent = self.independent(sum(self.answering[number] for number in maps))
        distance = max(0.0, -float(special.ndtri(p_value)))
        law = LookLaw(independent / PRIOR_REPORTS)
        return float(law.p_values(np.array([distance]))[0])

    def _counted(self, text_cells: Sequence[int], maps: Iterable[int]) -> tuple[int, int]:
        """Return the sum of the counts of these cells in these maps, and the number of their reports."""
        numbers = list(maps)
        count = sum(int(self.counts[number][text_cells[number]]) for number in numbers)
        return count, sum(self.answering[number] for number in numbers)

    def ask(self, text: str, names: Iterable[str] = ()) -> Name:
        """Return the share of any text, by the maps in which no confirmed name has its cell."""
        name_of_text = self.strings.coding.name(text)
        named_cells = NamedCells()
        for name in names:
            # Its own cells would leave a confirmed name no clean map.
            if name != name_of_text:
                named_cells.add(self.cells(name))
        text_cells = self.cells(text)
        return self.estimate(name_of_text, text_cells, named_cells.clean(text_cells))

    def ask_each(self, names: Iterable[str]) -> tuple[list[Name], list[str]]:
        """Return the shares of names that are known, without a test, and the names that no map tells apart.

        They come by falling count. A name takes its cells from all later ones. One that was cut within a character has
        no cells any more.
        """
        shares = []
        ambiguous = []
        named_cells = NamedCells()
        for text, text_cells in self.by_count({text: self.cells(text) for text in names if self.strings.is_name(text)}):
            name = self.estimate(text, text_cells, named_cells.clean(text_cells))
            if name.is_ambiguous:
                ambiguous.append(text)
            else:
                shares.append(name)
                named_cells.add(text_cells)
        return shares, ambiguous

    def by_count(self, cells: Mapping[str, Sequence[int]]) -> list[tuple[str, Sequence[int]]]:
        """Return texts with their cells, by falling sum of their counts."""
        return sorted(cells.items(), key=lambda row: (-self.total(row[1]), row[0]))


class NamedCells:
    """The cells of confirmed names in each map."""

    def __init__(self) -> None:
        self._cells: list[set[int]] = [set() for _ in range(MAPS)]

    def add(self, text_cells: Sequence[int]) -> None:
        for cells, cell in zip(self._cells, text_cells, strict=True):
            cells.add(cell)

    def clean(self, text_cells: Sequence[int]) -> list[int]:
        """Return the maps in which no confirmed name has the same cell."""
        return [number for number in range(MAPS) if text_cells[number] not in self._cells[number]]
