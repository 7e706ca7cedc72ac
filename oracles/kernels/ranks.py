"""Possible ranks of values, from tests of pairs: the larger the distance of two counts, the surer their order."""

from bisect import bisect_left
from collections.abc import Callable
from functools import lru_cache
from itertools import accumulate, islice

import numpy as np

from oracles.types import Flags, Ints

_FEW_COUNTS = 16
"""Distinct counts up to which all pairs are compared at once."""

IsAbove = Callable[[Ints, Ints], Flags]
"""Whether each value of the first array is proved to be above each of the second, by indices of distinct counts."""


def ranks(many: Ints, places: Ints, is_above: IsAbove) -> tuple[Ints, Ints]:
    """Return the first and the last rank of values at these indices of the distinct, rising counts.

    `many` is the number of values with each count. The first rank is 1 + the number of values proved above. The
    last one is the number of all values except those proved below.

    >>> ranks(np.array([1, 1, 2]), np.array([0, 2]), lambda u, v: u - v > 1)
    (array([3, 1]), array([4, 3]))
    """
    if len(many) <= _FEW_COUNTS:
        return _ranks_of_few(list(accumulate(many.tolist(), initial=0)), places.tolist(), is_above)

    values_below = np.concatenate([[0], np.cumsum(many)]).astype(np.int64)
    size = int(values_below[-1])
    size_of_counts = len(many)
    ends = np.full_like(places, size_of_counts)
    # The larger the distance of two counts, the surer their order, so a search finds the nearest one that is proved.
    nearest_above = _first(places, ends, lambda place: is_above(place, places))
    # Mirrored: the nearest count below this value that it is proved to exceed.
    nearest_below = (
        size_of_counts
        - 1
        - _first(size_of_counts - 1 - places, ends, lambda m: is_above(places, size_of_counts - 1 - m))
    )
    return 1 + size - values_below[nearest_above], size - values_below[nearest_below + 1]


def _ranks_of_few(values_below: list[int], places: list[int], is_above: IsAbove) -> tuple[Ints, Ints]:
    """Return the same ranks for few distinct counts. All pairs are compared at once, which costs less than a search."""
    size = values_below[-1]
    top = len(values_below) - 1
    # A row for each count: whether it is above those below it.
    flags = iter(is_above(*_pairs(top)).tolist())
    rows = [list(islice(flags, place)) for place in range(top)]

    first_ranks = []
    last_ranks = []
    for place in places:
        nearest_above = bisect_left(range(top), True, place + 1, key=lambda candidate: rows[candidate][place])
        nearest_below = bisect_left(range(top), True, top - place, key=lambda m: rows[place][top - 1 - m])
        first_ranks.append(1 + size - values_below[nearest_above])
        last_ranks.append(size - values_below[top - nearest_below])
    return np.array(first_ranks, np.int64), np.array(last_ranks, np.int64)


@lru_cache(maxsize=_FEW_COUNTS)
def _pairs(top: int) -> tuple[Ints, Ints]:
    """Return the larger and the smaller number of all pairs of different ones below `top`, by rows."""
    return np.tril_indices(top, -1)


def _first(low: Ints, high: Ints, holds: Callable[[Ints], Flags]) -> Ints:
    """Return the first place after `low` and before `high` from which `holds` is true, else `high`."""
    while (high - low > 1).any():
        middle = (low + high) // 2
        is_open = high - low > 1
        # A search that has ended must not ask beyond the last count.
        is_held = holds(np.where(is_open, middle, low))
        low = np.where(is_open & ~is_held, middle, low)
        high = np.where(is_open & is_held, middle, high)
    return high
