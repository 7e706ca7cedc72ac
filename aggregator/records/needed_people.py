"""The people that make a share, a name or a quantile visible, for `hubbub plan` and sentences about few reports. Pure.

A share is visible if it is significant with probability 0.9. A name is visible if a search finds it with that
probability, and a quantile if its interval reaches no further than the share in rank.
"""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import cast

from oracles.discover import Strings
from oracles.discover.reach import reach
from oracles.estimate import Pure
from oracles.numbers.tree import Tree
from oracles.query import Query
from oracles.query.domain import NAMES, NUMBERS
from oracles.round_up import round_up

SHARE = 0.1
"""The share that a sentence about few reports names."""
MOST = 10**13
"""More people are not counted."""


def people(view: Pure, share: float, family_error: float, *, sampled: bool, most: int = MOST) -> int | None:
    """Return how many people make `share` significant with probability 0.9, to three digits. None above `most`."""

    def is_enough(n: int) -> bool:
        detectable: float | None = view.detectable(n, family_error, sampled=sampled)
        return detectable is not None and detectable <= share

    high = 16
    while not is_enough(high):
        if high > most:
            return None
        high *= 2
    low = high // 2
    while high - low > max(1, high // 500):  # three digits show no smaller step
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return round_up(high, 3)


def people_of_names(strings: Strings, cell: Pure, share: float) -> int:
    """Return how many people a search needs to find a share, to three digits."""
    # The standard error falls with the root of the reports, so half a share needs four times the people.
    need = (reach(strings) * cell.noise(1).sigma / share) ** 2
    return round_up(math.ceil(need), 3)


def needed_people(query: Query, attribute: int) -> int | None:
    """Return how many people show a share of 10% of one attribute, or a quantile to 10% in rank. None if too many."""
    need = _NEEDS.get(query.domains[attribute].kind, _need_of_values)(query, query.attribute_oracles[attribute])
    # smp draws one attribute for each client, so an attribute has only its part of the people.
    return None if need is None else need * (len(query.attributes) if query.solution == "smp" else 1)


def _need_of_values(query: Query, view: Pure) -> int | None:
    return _people(view, query.family_error, query.solution == "smp")


def _need_of_numbers(_: Query, view: Pure) -> int:
    return Tree.of(view).reports(SHARE)


def _need_of_names(query: Query, view: Pure) -> int:
    return people_of_names(cast(Strings, query.strings), view, SHARE)


_NEEDS: dict[str, Callable[[Query, Pure], int | None]] = {NUMBERS: _need_of_numbers, NAMES: _need_of_names}
"""The reports that a kind of answers needs. A kind without a row needs those of values."""


@lru_cache(maxsize=1024)
def _people(view: Pure, family_error: float, sampled: bool) -> int | None:
    return people(view, SHARE, family_error, sampled=sampled)
