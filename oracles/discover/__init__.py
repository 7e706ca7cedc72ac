"""Unknown strings: clients report hashed cells, and the server finds names, proves them, and answers for any string.

Levels tell of prefixes, and a search over them gives candidates. A test of the candidates holds whatever the search
did, because maps tell of whole strings, by clients that took no part in it. All of it follows from one tally.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from oracles.discover.alphabet import Coding
from oracles.discover.beam import candidates
from oracles.discover.cell_hash import Strings
from oracles.discover.maps import Maps, Name, NamedCells
from oracles.discover.slots import Slots
from oracles.estimate.intervals import LEVEL
from oracles.types import Floats, Ints

__all__ = ["Coding", "Maps", "Name", "Search", "Slots", "Strings", "ask", "cells", "search"]

FAMILY_ERROR = 0.05
"""Largest probability that a search confirms a false name."""


@dataclass(frozen=True)
class Search:
    """The names that a search confirmed, by falling count, and the candidates that no map could tell apart."""

    names: tuple[Name, ...]
    ambiguous: tuple[str, ...]
    maps: Maps = field(compare=False, repr=False)


def cells(strings: Strings, text: str) -> Ints:
    """Return the cell of a text for each level and map."""
    return strings.cells_of(text)


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
    strings = slots.strings
    support = slots.support(state, n)
    answering = slots.answering(state, n)
    maps = Maps.of(slots, state, n, n_independent, support)
    # A level without an independent report cannot tell its children apart.
    if not all(maps.independent(reports) for reports in answering):
        return Search((), (), maps)

    levels = zip(support[: strings.levels], answering, strict=False)
    likely = candidates(strings, [_distances(maps, counts, reports) for counts, reports in levels])
    names = set(dictionary)
    cells = {text: maps.cells(text) for text in sorted(names) if strings.is_name(text)}
    # Names that are cut within a character may look the same: the first one, which is likelier, has the text.
    for row in likely.numbers[likely.order]:
        cells.setdefault(strings.text(row), strings.cells_of_numbers(row)[strings.levels :].tolist())
    return _confirmed(maps, cells, names, family_error)


def _distances(maps: Maps, support: Ints, reports: int) -> Floats:
    """Return the distance of each cell's share from that of an empty cell, in standard errors."""
    p = float(maps.oracle.exact[0])
    q = float(maps.oracle.exact[1])
    stderr = np.sqrt(q * (1.0 - q) / maps.independent(reports)) / (p - q)
    # Another string shares the cell with probability 2**-b, which the law of the maps includes.
    distances: Floats = (support / reports - maps.pure.q) / maps.pure.gap / stderr
    return distances


def _confirmed(maps: Maps, cells: Mapping[str, Sequence[int]], dictionary: set[str], family_error: float) -> Search:
    """Test texts by falling count of their cells. A name that is confirmed takes its cells from all later ones."""
    named_cells = NamedCells()
    proofs: list[tuple[str, Sequence[int], list[int], float]] = []
    ambiguous = []
    for text, text_cells in maps.by_count(cells):
        clean = named_cells.clean(text_cells)
        if not clean:
            ambiguous.append(text)
            continue
        # Bonferroni over all candidates, whatever the search did: the clients of the maps took no part in it.
        p_value = maps.p_value(text_cells, clean)
        if p_value * len(cells) <= family_error:
            proofs.append((text, text_cells, clean, p_value))
            named_cells.add(text_cells)

    # Selected names were lucky, so their intervals are wider (false coverage rate of 5%). Names known before are not.
    selected_level = 1.0 - 0.05 * len(proofs) / len(cells)
    names = []
    for text, text_cells, clean, p_value in proofs:
        level = LEVEL if text in dictionary else selected_level
        name = maps.estimate(text, text_cells, clean, level)
        watched_error = maps.watched_p_value(p_value, clean) * len(cells)
        names.append(replace(name, error=p_value * len(cells), watched_error=watched_error, candidates=len(cells)))
    return Search(tuple(names), tuple(ambiguous), maps)


def ask(slots: Slots, state: Ints, n: int, n_independent: int | None, text: str, names: Iterable[str] = ()) -> Name:
    """Return the share of any text, from the maps in which no confirmed name has its cell."""
    return Maps.of(slots, state, n, n_independent).ask(text, names)
