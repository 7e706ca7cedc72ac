"""Ranks that values may have, from tests of pairs: the further apart two counts are, the surer their order."""

from collections.abc import Callable

import numpy as np

from oracles.types import Flags, Ints

Proved = Callable[[Ints, Ints], Flags]
"""Whether each of the first is proved to be above each of the second; both are places among the distinct counts."""


def ranks(many: Ints, places: Ints, proved: Proved) -> tuple[Ints, Ints]:
    """The first and the last rank of values at these places of the distinct counts, which rise.

    `many` says how many values have each. 1 + those proved above, and all but those proved below.

    >>> ranks(np.array([1, 1, 2]), np.array([0, 2]), lambda u, v: u - v > 1)
    (array([3, 1]), array([4, 3]))
    """
    upto = np.concatenate([[0], np.cumsum(many)]).astype(np.int64)
    size, top = int(upto[-1]), len(many)
    first_above = _first(places, np.full_like(places, top), lambda place: proved(place, places))
    # Mirrored: the nearest one below that this value is proved to be above.
    first_below = top - 1 - _first(top - 1 - places, np.full_like(places, top), lambda m: proved(places, top - 1 - m))
    return 1 + size - upto[first_above], size - upto[first_below + 1]


def _first(low: Ints, high: Ints, holds: Callable[[Ints], Flags]) -> Ints:
    """The first place after `low` and before `high` for which it holds, which it does from there on; else `high`."""
    while (high - low > 1).any():
        middle = (low + high) // 2
        open_ = high - low > 1
        yes = holds(np.where(open_, middle, low))
        low, high = np.where(open_ & ~yes, middle, low), np.where(open_ & yes, middle, high)
    return high
