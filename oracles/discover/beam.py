"""The search for names: it extends prefixes chunk by chunk and keeps those whose cells are counted most often.

The score of a prefix is the logarithm of the odds that a frequent name has it, up to a limit of 0. Without the limit
the children of common prefixes would leave no room for others. A cell counts at most 1.25 times what a frequent name
needs, so that one shared cell does not save a prefix. Of equal scores the one whose cells count more wins. The result
depends on counts alone, because scores are rounded before they are compared, and the order of the alphabet decides
between equal ones.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from oracles.discover.cell_hash import Strings
from oracles.types import Floats, Ints

WIDTH = 1_024
"""Number of prefixes that stay at each level."""
CANDIDATES = 512
"""Number of names that are tested in the end."""
_POWER = 1.1
"""Distance that a frequent name is taken to have, as a multiple of the largest one that luck gives."""
_CAP = 1.25
"""Largest distance that counts, as a multiple of the one of a frequent name."""
_TIE = 1e-6
"""Weight of the cells of a prefix among prefixes of equal score."""
_DIGITS = 9


class Prefixes(NamedTuple):
    """Prefixes in the order of the alphabet, each a row of chunk numbers."""

    numbers: Ints
    scores: Floats
    ties: Floats
    """Sum of the distances of the cells, each with the limit of the score."""

    @property
    def ranks(self) -> Floats:
        """The scores, with a little of the ties, in digits that do not depend on the order of sums."""
        ranks: Floats = np.round(self.scores + _TIE * self.ties, _DIGITS)
        return ranks

    @property
    def order(self) -> Ints:
        """The places of the prefixes, the best first."""
        return np.argsort(-self.ranks, kind="stable")


def candidates(strings: Strings, distances: Sequence[Floats]) -> Prefixes:
    """Return the most likely names.

    `distances` holds for each level the distance of each cell's share from an empty cell, in standard errors.
    """
    prefixes = Prefixes(np.zeros((1, 0), np.int64), np.zeros(1), np.zeros(1))
    for level, cells in enumerate(distances):
        prefixes = _extended(strings, level, prefixes, cells)
    best = _best(prefixes.ranks, CANDIDATES)
    return Prefixes(prefixes.numbers[best], prefixes.scores[best], prefixes.ties[best])


def _extended(strings: Strings, level: int, prefixes: Prefixes, distances: Floats) -> Prefixes:
    """Return the best extensions of prefixes by one chunk. A prefix that has ended has one."""
    numbers = strings.valid(level)
    words = strings.table(level)[:, level]
    choices = np.log(len(numbers))
    mean = _POWER * np.sqrt(2.0 * choices)
    # Without the cap one cell that is shared with a frequent name saves any path.
    distances_within = np.minimum(distances, _CAP * mean)
    gains = mean * distances_within - mean**2 / 2.0
    is_over = prefixes.numbers[:, -1:] % (strings.coding.size + 1) == 0 if level else np.zeros((1, 1), np.bool_)

    cells = _cells(strings, level, prefixes.numbers)[:, None] ^ words
    scores = prefixes.scores[:, None] + gains[cells]
    scores -= np.where(is_over, 0.0, choices)
    # The logarithm of a probability. Without this ceiling plain sums find 1.0 name where this finds 6.8.
    np.minimum(scores, 0.0, out=scores)
    scores[is_over[:, 0], 1:] = -np.inf

    ties = prefixes.ties[:, None] + distances_within[cells]
    best = _best((scores + _TIE * ties).reshape(-1), WIDTH)
    prefix, number = np.divmod(best, len(numbers))
    rows = np.column_stack([prefixes.numbers[prefix], numbers[number]])
    return Prefixes(rows, scores[prefix, number], ties[prefix, number])


def _best(scores: Floats, count: int) -> Ints:
    """Return the places of the best scores, in order. Of equal ones the first."""
    values = np.round(scores, _DIGITS)
    places = np.flatnonzero(values > -np.inf)
    # A partition alone would keep any of the equal scores at the limit, by the processor's order.
    if len(places) > count:
        limit = np.partition(values, -count)[-count]
        better = np.flatnonzero(values > limit)
        equal = np.flatnonzero(values == limit)
        places = np.sort(np.concatenate([better, equal[: count - len(better)]]))
    return places


def _cells(strings: Strings, level: int, numbers: Ints) -> Ints:
    """Return the cell of each prefix at a level that is longer by a chunk."""
    cells = np.zeros(len(numbers), np.int64)
    for chunk in range(level):
        places = np.searchsorted(strings.valid(chunk), numbers[:, chunk])
        cells ^= strings.table(chunk)[places, level]
    return cells
