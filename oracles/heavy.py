"""Heavy hitters: the values that a method lists as frequent, what is proved of each, and where it ranks.

What is *decided* does not depend on the method: the unbiased estimate rejects a share at or below
the threshold, by Holm's procedure over all values with exact tails, so that a window has a single
wrong one with a probability of at most the family error. Where the threshold is significance every
method lists the decided values, in its own order; where it is a share or a count, those that reach
it by the method too. The papers' list, all above the Gaussian threshold, is there to compare with:
at sparse counts it names a false value in up to 94% of windows.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oracles.errors import ParameterError
from oracles.estimate import Estimate
from oracles.fitting import Calibration
from oracles.query.settings import Threshold
from oracles.types import Flags, Floats, Ints

ListRule = Literal["decided", "paper"]
SIGNIFICANCE = Threshold("significance")
_FIRST = 256
"""Tails are had in growing blocks, so that a domain without heavy hitters costs one short block."""


@dataclass(frozen=True)
class Hitter:
    """One listed value."""

    position: int
    share: float
    """By the method that lists it."""
    decided: bool
    """Proved to exceed the threshold, or to be there at all where that is significance."""
    p_value: float
    probability: float | None
    """Of exceeding the threshold, by calibrate's posterior."""
    ranks: tuple[int, int]
    """The first and the last rank that its true share may have; 1 is the most frequent."""


@dataclass(frozen=True)
class Expected:
    """Precision and recall that a posterior expects of a list: right where its prior is, elsewhere an indication."""

    precision: float | None
    """The part of the list that exceeds the threshold; None for an empty list."""
    recall: float | None
    """The part of those that exceed it that is listed; None where none is expected to."""


@dataclass(frozen=True, eq=False)
class Hitters:
    """A method's list in the order of its shares; equal ones in the order of the domain."""

    threshold: float
    """The share that a listed value reaches by the method, or is proved to be significant by; at most 1."""
    positions: Ints
    shares: Floats
    decided: NDArray[np.bool_]
    p_values: Floats
    probabilities: Floats | None
    ranks: Ints
    """A row of first and last rank for each."""
    expected: Expected | None

    def __len__(self) -> int:
        return len(self.positions)

    def __iter__(self) -> Iterator[Hitter]:
        sure = [None] * len(self) if self.probabilities is None else self.probabilities.tolist()
        columns = (self.positions, self.shares, self.decided, self.p_values)
        rows = zip(*(column.tolist() for column in columns), sure, self.ranks.tolist(), strict=True)
        return (Hitter(v, share, yes, p, chance, (low, high)) for v, share, yes, p, chance, (low, high) in rows)


def heavy_hitters(
    estimate: Estimate,
    shares: ArrayLike | None = None,
    *,
    threshold: Threshold | str | float = SIGNIFICANCE,
    family_error: float = 0.05,
    posterior: Calibration | None = None,
    rule: ListRule = "decided",
) -> Hitters:
    """The frequent values, in the order of the method that gave `shares`.

    `shares` are the unbiased ones where none are given. The threshold is "significance", a share
    below 1, or a count from 1 on. `rule` is "decided", or "paper" for the papers' figures.

    >>> from oracles import oracle
    >>> grr = oracle("grr", epsilon=2.0, size=4)
    >>> estimate = grr.estimate(grr.zeros() + [700, 100, 90, 110, *[0] * 64], 1000)
    >>> [(hitter.position, hitter.decided, hitter.ranks) for hitter in heavy_hitters(estimate)]
    [(0, True, (1, 1))]
    """
    return Evidence(estimate, threshold, family_error, posterior, rule).hitters(shares)


class Evidence:
    """Proofs from one estimate, whatever method lists its values.

    Equal counts have equal p-values and ranks, so only the distinct ones are worked on.
    """

    def __init__(
        self,
        estimate: Estimate,
        threshold: Threshold | str | float = SIGNIFICANCE,
        family_error: float = 0.05,
        posterior: Calibration | None = None,
        rule: ListRule = "decided",
    ) -> None:
        if rule not in get_args(ListRule):
            raise ParameterError(f"rule must be one of {', '.join(get_args(ListRule))}, got {rule!r}")
        self.estimate = estimate
        self.family_error = family_error
        self.posterior = posterior
        self.listed_above, self.proved_above = bounds(estimate, threshold, family_error)
        self._paper = rule == "paper"
        self._by_share = _read_threshold(threshold).kind != "significance"
        if self._paper and not self._by_share:
            self.listed_above = estimate.noise.significance(len(estimate.shares), family_error)

    def hitters(self, shares: ArrayLike | None = None) -> Hitters:
        """The list of the method that gave `shares`."""
        unbiased = self.estimate.shares
        by_method = unbiased if shares is None else np.asarray(shares, np.float64)
        if by_method.shape != unbiased.shape:
            raise ParameterError(f"there are {len(unbiased)} values, but shares of shape {by_method.shape}")
        listed = np.flatnonzero(self._listed(by_method)) if self.estimate.n else np.zeros(0, np.int64)
        listed = listed[np.argsort(-by_method[listed], kind="stable")]
        seen, back = np.unique(unbiased[listed], return_inverse=True)
        likely = self.likely
        return Hitters(
            threshold=self.listed_above,
            positions=listed,
            shares=by_method[listed],
            decided=unbiased[listed] >= self.least_decided,
            p_values=_p_values(self.estimate, seen, self.proved_above)[back],
            probabilities=None if likely is None else likely[listed],
            ranks=np.column_stack(self.estimate.ranks(listed)) if len(listed) else np.zeros((0, 2), np.int64),
            expected=None if likely is None else _expected(likely, listed),
        )

    def _listed(self, shares: Floats) -> Flags:
        """Which values a method lists, of all."""
        if self._paper:
            return shares > self.listed_above
        decided = self.estimate.shares >= self.least_decided
        return decided | (shares >= self.listed_above) if self._by_share else decided

    @cached_property
    def likely(self) -> Floats | None:
        """The probability of each value to exceed what a listed one exceeds, by the posterior if there is one."""
        return None if self.posterior is None else self.posterior.above(self.listed_above)

    @cached_property
    def _distinct(self) -> tuple[Floats, Ints]:
        """The distinct unbiased shares, rising, and how many values have each."""
        distinct, many = np.unique(self.estimate.shares, return_counts=True)
        return distinct, many.astype(np.int64)

    @cached_property
    def least_decided(self) -> float:
        """The least unbiased share that is decided; infinite where none is."""
        distinct, many = self._distinct
        falling, ahead = distinct[::-1], np.cumsum(many[::-1]) - many[::-1]
        levels = self.family_error / (len(self.estimate.shares) - ahead)
        start, stop = 0, _FIRST
        while start < len(falling):
            rejected = _p_values(self.estimate, falling[start:stop], self.proved_above) <= levels[start:stop]
            if not rejected.all():
                start += int(np.argmin(rejected))
                break
            start, stop = min(stop, len(falling)), 4 * stop
        return float(falling[start - 1]) if start else np.inf

    @cached_property
    def decided(self) -> Ints:
        """The positions of all decided values, listed or not."""
        return np.flatnonzero(self.estimate.shares >= self.least_decided)


def bounds(estimate: Estimate, threshold: Threshold | str | float, family_error: float) -> tuple[float, float]:
    """The share that a listed value reaches (1: none can), and the one that a decided value is proved to exceed."""
    if not 0.0 < family_error < 1.0:
        raise ParameterError(f"family_error must be above 0 and below 1, got {family_error!r}")
    asked = _read_threshold(threshold)
    if asked.kind == "significance":
        significance = estimate.significance(family_error)
        return 1.0 if significance is None else significance, 0.0
    share = asked.value if asked.kind == "share" else asked.value / max(estimate.n, 1)
    return share, share


def _read_threshold(threshold: Threshold | str | float) -> Threshold:
    if isinstance(threshold, Threshold):
        return threshold
    if threshold == "significance":
        return SIGNIFICANCE
    if isinstance(threshold, str) or not 0.0 <= threshold < np.inf:
        raise ParameterError(f'threshold must be "significance", a share below 1 or a count, got {threshold!r}')
    return Threshold("share" if threshold < 1.0 else "count", float(threshold))


def _p_values(estimate: Estimate, shares: Floats, threshold: float) -> Floats:
    """p-values of unbiased shares of this estimate; no true share exceeds 1."""
    return replace(estimate, shares=shares).test(threshold) if threshold < 1.0 else np.ones(len(shares))


def _expected(likely: Floats, listed: Ints) -> Expected:
    right, all_right = float(likely[listed].sum()), float(likely.sum())
    precision = right / len(listed) if len(listed) else None
    # Summed in another order, all of them can be more than all of them, by the last bit.
    return Expected(precision, min(right / all_right, 1.0) if all_right > 0.0 else None)
