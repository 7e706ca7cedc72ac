"""Subsets of a fixed size by their rank: the sum of C(s_i, i) over the members s_1 < s_2 < ..., i from 1."""

from functools import lru_cache
from math import comb

import numpy as np

from oracles.types import Ints


class Combinations:
    """All subsets of so many members of so many items.

    >>> pairs = combinations(4, 2)
    >>> pairs.count, pairs.members(np.arange(3)).tolist(), pairs.ranks(np.array([[2, 3]])).tolist()
    (6, [[0, 1], [0, 2], [1, 2]], [5])
    """

    def __init__(self, items: int, members: int) -> None:
        self.items = items
        self.size = members
        self.count = comb(items, members)
        self.table: Ints = np.array(
            [[comb(item, i) for item in range(items)] for i in range(1, members + 1)], np.int64
        ).reshape(members, items)
        """C(item, i) in row i - 1."""

    def ranks(self, subsets: Ints) -> Ints:
        """Return the rank of each row of rising members."""
        ranks = np.zeros(len(subsets), np.int64)
        for i in range(self.size):
            ranks += self.table[i, subsets[:, i]]
        return ranks

    def members(self, ranks: Ints) -> Ints:
        """Return the rising members of the subsets with these ranks, one subset in each row."""
        rest = ranks.copy()
        subsets = np.empty((len(ranks), self.size), np.int64)
        for i in range(self.size - 1, -1, -1):
            # The largest item whose number of smaller subsets is not above the rank.
            subsets[:, i] = np.searchsorted(self.table[i], rest, side="right") - 1
            rest -= self.table[i, subsets[:, i]]
        return subsets


@lru_cache(maxsize=1 << 8)
def combinations(items: int, members: int) -> Combinations:
    """Return the subsets, whose table all oracles of these numbers share."""
    return Combinations(items, members)
