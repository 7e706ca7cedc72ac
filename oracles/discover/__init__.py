"""Unknown strings: clients report hashed cells, and the server finds names, proves them, and answers for any string.

Levels tell of prefixes, and a search over them gives candidates. Maps tell of whole strings, by clients that took no
part in the search. So a test over the candidates holds whatever the search did. All of it follows from one tally.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from oracles.discover.alphabet import OPEN_END, Coding
from oracles.discover.beam import candidates
from oracles.discover.cell_hash import MAPS, Strings
from oracles.discover.slots import Slots
from oracles.estimate import Estimate
from oracles.pure import Pure
from oracles.types import Floats, Ints

__all__ = ["Coding", "Name", "Search", "Slots", "Strings", "ask", "cells", "search"]

FAMILY_ERROR = 0.05
"""Largest probability that a search confirms a false name."""


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

    @property
    def is_ambiguous(self) -> bool:
        return not self.n


@dataclass(frozen=True)
class Search:
    """The names that a search confirmed, by falling count, and the candidates that no map could tell apart."""

    names: tuple[Name, ...]
    ambiguous: tuple[str, ...]


def cells(strings: Strings, text: str) -> Ints:
    """Return the cell of a text for each level and map."""
    return strings.cells_of(text)


class _Counts:
    """The counts of a tally: the support of every cell, for each level and map."""

    def __init__(self, slots: Slots, state: Ints, n: int, n_independent: int) -> None:
        self.strings = slots.strings
        self.oracle = slots.cell_oracle
        self.n, self.n_independent = n, n_independent
        self.answering = slots.answering(state, n)
        self.support = slots.support(state, n)
        p, q = self.oracle.exact
        # Another string has the same cell with probability 2**-b, whatever the strings are.
        self.pure = Pure(self.oracle.name, self.oracle.size, p, q + (p - q) / (1 << self.strings.cells))

    @property
    def is_complete(self) -> bool:
        """Whether every level and map has reports."""
        return all(self._independent(reports) for reports in self.answering)

    def distances(self, level: int) -> Floats:
        """Return the distance of each cell's share from that of an empty cell, in standard errors."""
        n = self._independent(self.answering[level])
        rates = self.support[level] / self.answering[level]
        p, q = float(self.oracle.exact[0]), float(self.oracle.exact[1])
        distances: Floats = (rates - self.pure.q) / self.pure.gap / (np.sqrt(q * (1.0 - q) / n) / (p - q))
        return distances

    def _independent(self, reports: int) -> int:
        return reports * self.n_independent // self.n if self.n else 0

    def estimate(self, text_cells: Ints, maps: Iterable[int], text: str, level: float) -> Name:
        """Return the share of a text by these maps."""
        count, n = self._counted(text_cells, maps)
        if not n:
            nan = float("nan")
            return Name(text, nan, nan, nan, nan, level, 0)
        shares = self.pure.shares(np.array([count]), n)
        one = Estimate(shares, n, self.pure, self._independent(n), self.n_independent)
        low, high = one.interval(level)
        return Name(
            text, float(shares[0]), float(one.stderr[0]), float(low[0]), float(high[0]), level, one.n_independent
        )

    def total(self, text_cells: Ints) -> int:
        """Return the sum of a text's counts in all maps."""
        return self._counted(text_cells, range(MAPS))[0]

    def p_value(self, text_cells: Ints, maps: Iterable[int]) -> float:
        """Return the probability of a count at least as large if nobody has the string."""
        from oracles.kernels.tails import binomial_tail  # it needs SciPy, which clients do not

        count, n = self._counted(text_cells, maps)
        independent_count = count * self.n_independent // self.n
        return float(binomial_tail(np.array([independent_count]), self._independent(n), self.pure.q)[0])

    def _counted(self, text_cells: Ints, maps: Iterable[int]) -> tuple[int, int]:
        """Return the sum of a text's counts in these maps, and the number of their reports."""
        parts = [self.strings.levels + each for each in maps]
        count = sum(int(self.support[part][text_cells[part]]) for part in parts)
        return count, sum(self.answering[part] for part in parts)


class _NamedCells:
    """The cells of confirmed names in each map."""

    def __init__(self, strings: Strings) -> None:
        self.strings = strings
        self.cells: list[set[int]] = [set() for _ in range(MAPS)]

    def add(self, text_cells: Ints) -> None:
        for own, cell in zip(self.cells, text_cells[self.strings.levels :].tolist(), strict=True):
            own.add(cell)

    def clean(self, text_cells: Ints) -> list[int]:
        """Return the maps in which no confirmed name has the same cell."""
        own = text_cells[self.strings.levels :].tolist()
        return [each for each in range(MAPS) if own[each] not in self.cells[each]]


def search(
    slots: Slots,
    state: Ints,
    n: int,
    n_independent: int | None = None,
    *,
    dictionary: Iterable[str] = (),
    family_error: float = FAMILY_ERROR,
) -> Search:
    """Return the names that a tally proves. Names of a `dictionary` are candidates whatever the search finds."""
    strings, counts = slots.strings, _Counts(slots, state, n, n if n_independent is None else n_independent)
    if not counts.is_complete:
        return Search((), ())
    dictionary_names = list(dict.fromkeys(dictionary))
    likely = candidates(strings, [counts.distances(level) for level in range(strings.levels)])
    texts = list(dict.fromkeys([*dictionary_names, *(strings.text(row) for row in likely.numbers)]))
    return _confirmed(counts, texts, set(dictionary_names), family_error)


def _confirmed(counts: _Counts, texts: list[str], dictionary: set[str], family_error: float) -> Search:
    """Test the texts by falling count. A name that is confirmed takes its cells from all later ones."""
    strings, named_cells = counts.strings, _NamedCells(counts.strings)
    rows = [(text, strings.cells_of(_without_mark(text))) for text in texts]
    rows.sort(key=lambda row: (-counts.total(row[1]), row[0]))
    proofs: list[tuple[str, Ints, list[int]]] = []
    ambiguous = []
    for text, text_cells in rows:
        maps = named_cells.clean(text_cells)
        if not maps:
            ambiguous.append(text)
        elif counts.p_value(text_cells, maps) <= family_error / len(rows):
            proofs.append((text, text_cells, maps))
            named_cells.add(text_cells)
    level = 1.0 - 0.05 * len(proofs) / len(rows)
    names = [counts.estimate(own, maps, text, 0.95 if text in dictionary else level) for text, own, maps in proofs]
    return Search(tuple(names), tuple(ambiguous))


def ask(slots: Slots, state: Ints, n: int, n_independent: int | None, text: str, names: Iterable[str] = ()) -> Name:
    """Return the share of any text, from the maps in which no confirmed name has its cell."""
    strings, counts = slots.strings, _Counts(slots, state, n, n if n_independent is None else n_independent)
    named_cells = _NamedCells(strings)
    coded = strings.text(strings.numbers(_without_mark(text)))
    for name in names:
        if name != coded:
            named_cells.add(strings.cells_of(_without_mark(name)))
    own = strings.cells_of(_without_mark(text))
    return counts.estimate(own, named_cells.clean(own), coded, 0.95)


def _without_mark(text: str) -> str:
    """Return a name without the mark of an open end, which is no symbol."""
    return text.removesuffix(OPEN_END)
