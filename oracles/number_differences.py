"""The changes of numbers between two windows: of quantiles, means and ranges, with intervals and p-values.

A range or the mean is a linear answer, so its difference has a standard error. The difference of two quantiles has
an interval from those of both windows, each at the level that makes the interval of the difference 95% at least. A
quantile is tested at the quantile of both windows together: if it did not move, as many numbers lie below there
before as after.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from oracles.covariance import quantile as normal_quantile
from oracles.errors import ParameterError
from oracles.intervals import LEVEL
from oracles.numbers import Numbers, Quantity

_PANEL = math.sqrt(2.0)
"""Largest standard error of a difference on a panel, as a multiple of that of two independent windows."""
_EACH = (1.0 + LEVEL) / 2.0
"""Level of the intervals of two windows, so that both hold with the level of a difference."""


class NumberDifference(NamedTuple):
    """One answer in two windows, the later minus the earlier, and the probability of such a difference by chance."""

    before: float
    after: float
    difference: float
    stderr: float
    """Standard error, or NaN for quantiles and geometric means, whose errors are not symmetric."""
    low: float
    high: float
    p_value: float


@dataclass(frozen=True, eq=False)
class NumberDifferences:
    """The changes between two windows of numbers on one scale.

    On a `panel` the same clients repeat their answers. A client whose answer changes may bring the opposite noise, so
    the errors of a panel are taken as large as they can be.

    >>> from oracles import oracle
    >>> from oracles.numbers import Scale
    >>> haar, scale, rng = oracle("haar", epsilon=2.0, size=64), Scale(0.0, 64.0, 64), np.random.default_rng(1)
    >>> def window(middle):
    ...     tally, ages = haar.zeros(), rng.normal(middle, 5.0, 50_000)
    ...     haar.add(tally, haar.perturb(scale.positions(ages), rng))
    ...     return Numbers(haar.estimate(tally, 50_000), scale)
    >>> changes = NumberDifferences(window(30.0), window(40.0))
    >>> changes.quantile(0.5).p_value < 1e-9
    True
    """

    before: Numbers
    after: Numbers
    panel: bool = False

    def __post_init__(self) -> None:
        if self.before.scale != self.after.scale:
            raise ParameterError("the two windows must have the same scale")
        if not (self.before.known and self.after.known):
            raise ParameterError("both windows need reports of each level")

    def quantile(self, share: float) -> NumberDifference:
        """Return the change of a quantile. It is tested if an edge of bins lies between before and after."""
        before, after = (each.quantile(share, _EACH) for each in (self.before, self.after))
        edge = self._pooled.nearest_edge(share)
        (earlier, one), (later, two) = (each.estimate.between(0, edge) for each in (self.before, self.after))
        is_between = min(earlier, later) <= share <= max(earlier, later)
        return _of(before, after, _two_sided(later - earlier, self._stderr(one, two)) if is_between else 1.0)

    def range(self, start: float, end: float) -> NumberDifference:
        """Return the change of the share of the numbers from the bin of `start` to before the bin of `end`."""
        one, two = (each.range(start, end) for each in (self.before, self.after))
        return self.shares((one.share, one.stderr), (two.share, two.stderr))

    def shares(self, before: tuple[float, float], after: tuple[float, float]) -> NumberDifference:
        """Return the change of a range's share from its value and standard error in each window."""
        change = self._linear(before, after)
        return change._replace(low=max(change.low, -1.0), high=min(change.high, 1.0))

    def mean(self) -> NumberDifference:
        """Return the change of the mean, with each number at the middle of its bin."""
        middles = self.before.scale.middles
        return self._linear(*(each.estimate.linear(middles) for each in (self.before, self.after)))

    def geometric_mean(self) -> NumberDifference:
        """Return the change of the geometric mean. Its test is about the mean of the logarithms."""
        before, after = (each.geometric_mean(_EACH) for each in (self.before, self.after))
        logarithms = np.log(self.before.scale.middles)
        test = self._linear(*(each.estimate.linear(logarithms) for each in (self.before, self.after)))
        return _of(before, after, test.p_value)

    @cached_property
    def _pooled(self) -> Numbers:
        return Numbers(self.before.estimate.pooled(self.after.estimate), self.before.scale)

    def _stderr(self, before: float, after: float) -> float:
        """Return the standard error of a difference from those of two windows."""
        return math.hypot(before, after) * (_PANEL if self.panel else 1.0)

    def _linear(self, before: tuple[float, float], after: tuple[float, float]) -> NumberDifference:
        """Return the change of a linear answer from its values and standard errors."""
        difference, stderr = after[0] - before[0], self._stderr(before[1], after[1])
        reach = normal_quantile((1.0 - LEVEL) / 2.0) * stderr
        ends = difference - reach, difference + reach
        return NumberDifference(before[0], after[0], difference, stderr, *ends, _two_sided(difference, stderr))


def _of(before: Quantity, after: Quantity, p_value: float) -> NumberDifference:
    """Return a change whose interval follows from those of both windows."""
    low, high = after.low - before.high, after.high - before.low
    return NumberDifference(before.value, after.value, after.value - before.value, math.nan, low, high, p_value)


def _two_sided(difference: float, stderr: float) -> float:
    """Return the probability that a normal deviate with this standard error is at least as far from zero."""
    return math.erfc(abs(difference) / (stderr * math.sqrt(2.0))) if stderr > 0.0 else 1.0
