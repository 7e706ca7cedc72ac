"""The rule of showing: which numbers are too weak to be shown as numbers, and what stands there instead. Pure.

Records keep their numbers. The page, the terminal and the overview follow this rule.
"""

import math
from typing import NamedTuple

from aggregator.records.needed_people import SHARE, needed_people
from aggregator.records.number_answers import GEOMETRIC_MEAN, MEAN
from oracles.numbers import LOG, Scale
from oracles.query import Query
from oracles.query.domain import NAMES, NUMBERS, VALUES
from oracles.round_up import round_up

WIDE = 0.5
"""The part of all shares, bins or numbers above which an interval says too little."""
_GOALS = {
    VALUES: f"show a value of {SHARE:.0%}",
    NUMBERS: f"show a quantile to within {SHARE:.0%} in rank",
    NAMES: f"show a name of {SHARE:.0%}",
}


class Nothing(NamedTuple):
    """What a window without any proved answer says."""

    people: int | None
    """The people that show a share of 10%. None if no crowd of this world does."""
    text: str


def may_be_zero(low: float | None, high: float | None, measure: str = "share") -> bool:
    """Whether an interval, as it is shown, holds 0. That of a share is cut to 0 and 1."""
    if low is None or high is None:
        return False
    return low <= 0.0 and (measure == "share" or high >= 0.0)


def is_weak_share(low: float | None, high: float | None) -> bool:
    """Whether the interval of a share, cut to 0 and 1, holds 0 and is wider than half.

    A wide interval outside of 0 and 1 is weak too. Cut, it would look like a share that is known exactly.
    """
    if low is None or high is None:
        return False
    if low >= 1.0 or high <= 0.0:
        return high - low > WIDE
    return low <= 0.0 and min(high, 1.0) > WIDE


def is_weak_number(name: str, low: float | None, high: float | None, scale: Scale) -> bool:
    """Whether the interval of a quantile covers more than half of the bins, or that of a mean half of the scale.

    An interval of a mean that ends outside of the scale is weak too.
    """
    if low is None or high is None:
        return False
    if name in (MEAN, GEOMETRIC_MEAN) and (low < scale.low or high > scale.high):
        return True
    # The bins of a logarithmic scale have equal ratios. The mean adds up the numbers themselves.
    is_ratio = scale.kind == LOG and name != MEAN
    if not is_ratio:
        return high - low > WIDE * (scale.high - scale.low)
    return math.log(high / low) > WIDE * math.log(scale.high / scale.low)


def is_weak(name: str, measure: str, low: float | None, high: float | None, scale: Scale | None) -> bool:
    """Whether a share, or a number on its scale, is weak."""
    if measure == "number" and scale is not None:
        return is_weak_number(name, low, high, scale)
    return is_weak_share(low, high)


def proves_nothing(name: str, low: float | None, high: float | None, scale: Scale | None) -> bool:
    """Whether the first answer of a window proves nothing: a share that may be zero, or a weak number on a scale."""
    # A window without reports of the attribute has NaN.
    if low is None or high is None or math.isnan(low) or math.isnan(high):
        return True
    if scale is not None:
        return is_weak_number(name, low, high, scale)
    return may_be_zero(low, high) or is_weak_share(low, high)


def nothing_proved(
    query: Query, attribute: int, n: int, leader: tuple[str, float | None, float | None]
) -> Nothing | None:
    """Return what stands in the place of the numbers of a window, or None if its first answer proves something.

    `leader` has the name of this answer and the ends of its interval.
    """
    name, low, high = leader
    if not proves_nothing(name, low, high, query.domains[attribute].scale):
        return None
    return nothing(query, attribute, n)


def nothing(query: Query, attribute: int, n: int) -> Nothing:
    """Return what stands in the place of the numbers of a window that proves nothing."""
    need = needed_people(query, attribute)
    people = "More than 10,000,000,000,000" if need is None else f"About {round_up(need, 2):,}"
    goal = _GOALS.get(query.domains[attribute].kind, _GOALS[VALUES])
    reports = f"{n:,} report{'' if n == 1 else 's'}"
    return Nothing(need, f"{reports}: nothing can be told yet. {people} people {goal}.")
