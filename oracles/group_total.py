"""Totals of groups, weighted to known shares of the population.

People of some groups answer more often than others, so the plain total is the view of those who answer. If the share
of each group in the population is known, the weighted total is an estimate for the population.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from oracles.errors import ParameterError
from oracles.estimate import Estimate
from oracles.estimate.covariance import quantile
from oracles.estimate.intervals import LEVEL
from oracles.estimate.pure import dense
from oracles.types import Floats

_LARGE_POPULATION = 1 << 53
"""A population so large that each group is a small sample of it."""


@dataclass(frozen=True, eq=False)
class WeightedTotal:
    """The shares of all values in the population, with their errors."""

    shares: Floats
    stderr: Floats
    low: Floats
    high: Floats
    n_effective: float
    """Number of reports of an unweighted total with the same error of a rare value."""
    weight: float
    """Sum of the weights of the groups in this total. The weights are divided by it."""


def weighted_total(
    groups: Sequence[Estimate], weights: Sequence[float], *, repeats: bool = False, level: float = LEVEL
) -> WeightedTotal:
    """Return the total of groups with these weights. Groups with a weight of zero do not count.

    Errors include that each group is a sample of its part of the population. With `repeats` the errors of groups add
    up, because a client may stand in two groups with one noise if the window is longer than a period.

    >>> from oracles import oracle
    >>> grr, rng = oracle("grr", epsilon=2.0, size=2), np.random.default_rng(1)
    >>> ios, web = ([0] * 900 + [1] * 100, [0] * 1000 + [1] * 9000)
    >>> tallies = [grr.tally() for _ in range(2)]
    >>> for tally, values in zip(tallies, (ios, web)): _ = tally.add(grr.perturb(values, rng))
    >>> total = weighted_total([tally.estimate() for tally in tallies], [0.5, 0.5])
    >>> total.low[0] < 0.5 < total.high[0], round(total.n_effective)
    (np.True_, 3636)
    """
    if len(groups) != len(weights):
        raise ParameterError(f"each of {len(groups)} groups needs a weight, got {len(weights)}")
    if not 0.0 < level < 1.0:
        raise ParameterError(f"level must be above 0 and below 1, got {level!r}")
    if any(not 0.0 <= weight < float("inf") for weight in weights):
        raise ParameterError(f"weights must be numbers of at least 0, got {list(weights)}")

    # Each group is a sample of its part of the population, and its error includes which clients it drew.
    members = [
        (replace(group, population=_LARGE_POPULATION, labels=None), weight)
        for group, weight in zip(groups, weights, strict=True)
        if weight > 0.0 and group.n_independent
    ]
    total = float(sum(weight for _, weight in members))
    if not members:
        raise ParameterError("at least one group with a weight needs reports")
    if len({len(group.shares) for group, _ in members}) > 1:
        raise ParameterError("all groups must have the same values")

    parts = [(group, weight / total) for group, weight in members]
    shares = np.sum([part * group.shares for group, part in parts], axis=0)
    low, high = _ends(parts, shares, 1.0 - level, repeats=repeats)
    return WeightedTotal(
        shares=shares,
        stderr=_joined([part * _cautious_stderr(group) for group, part in parts], repeats=repeats),
        low=np.clip(low, 0.0, 1.0),
        high=np.clip(high, 0.0, 1.0),
        n_effective=1.0 / sum(part**2 / group.n_independent for group, part in parts),
        weight=total,
    )


_Parts = Sequence[tuple[Estimate, float]]
"""Groups with their parts of the total."""


def _joined(errors: Sequence[Floats], *, repeats: bool) -> Floats:
    """Return the standard error of a sum from those of its parts."""
    rows = np.array(errors)
    # One noise in two groups is fully correlated, so the errors add up, not their squares.
    total: Floats = rows.sum(axis=0) if repeats else np.sqrt((rows**2).sum(axis=0))
    return total


def _cautious_stderr(group: Estimate) -> Floats:
    """Return the standard error of a sample of few people, which is never near zero.

    The variance is that of a support count, at one more support in two more reports. If a small group has no person
    with a rare value, the plain variance is nearly zero at a high epsilon: errors were 3.2 of its standard errors.
    """
    n = group.n_independent
    rate = (group.counts * (n / group.n) + 1.0) / (n + 2.0)
    errors: Floats = np.sqrt(rate * (1.0 - rate) / n) / group.oracle.gap
    return errors


def _ends(parts: _Parts, shares: Floats, miss: float, *, repeats: bool) -> tuple[Floats, Floats]:
    """Return an interval that misses with a probability of at most `miss`.

    Groups with many reports have one normal interval together. A group with few has an exact one. Each of these
    intervals misses with its part of the probability, so the sums of their ends miss with all of it.
    """
    sparse_parts: list[tuple[Estimate, float]] = []
    dense_parts: list[tuple[Estimate, float]] = []
    for group, part in parts:
        is_dense = dense(group.n_independent, group.oracle.p, group.oracle.q)
        (dense_parts if is_dense else sparse_parts).append((group, part))

    miss_of_group = miss / len(parts)
    low = shares.copy()
    high = shares.copy()
    if dense_parts:
        reach = quantile(miss_of_group * len(dense_parts) / 2.0) * _joined(
            [part * group.stderr for group, part in dense_parts], repeats=repeats
        )
        low = low - reach
        high = high + reach
    for group, part in sparse_parts:
        group_low, group_high = group.interval(1.0 - miss_of_group)
        low = low + part * (group_low - group.shares)
        high = high + part * (group_high - group.shares)
    return low, high
