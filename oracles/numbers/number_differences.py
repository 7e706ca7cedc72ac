"""The changes of numbers between two windows: of quantiles, means and ranges, with intervals and p-values.

A range or the mean is a linear answer, so its difference has a standard error. The difference of two quantiles has
an interval from those of both windows, each at the level that makes the interval of the difference 95% at least. A
quantile is tested at the quantile of both windows together: if it did not move, as many numbers lie below there
before as after.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from oracles.errors import ParameterError
from oracles.estimate.intervals import LEVEL
from oracles.estimate.looks import ONE_LOOK, LookLaw, Looks
from oracles.numbers.numbers import Numbers, Quantity
from oracles.types import Floats

# A client that moves to the other half of a block may answer with the opposite bit: both errors then add up in full.
_PANEL = math.sqrt(2.0)
"""Largest standard error of a difference on a panel, as a multiple of that of two independent windows."""


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
    side: float
    """Sign of the change that the test tells: 1 up, -1 down, 0 if it tells none."""


@dataclass(frozen=True, eq=False)
class NumberDifferences:
    """The changes between two windows of numbers on one scale.

    On a `panel` the same clients repeat their answers. A client whose answer changes may bring the opposite noise, so
    the errors of a panel are taken as large as they can be.

    >>> from oracles.mechanisms.haar import Haar
    >>> from oracles.numbers import Scale
    >>> haar, scale, rng = Haar(epsilon=2.0, size=64), Scale(0.0, 64.0, 64), np.random.default_rng(1)
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
    looks: Looks = ONE_LOOK
    """The looks at which the differences hold."""

    def __post_init__(self) -> None:
        if self.before.scale != self.after.scale:
            raise ParameterError("the two windows must have the same scale")
        if not (self.before.known and self.after.known):
            raise ParameterError("both windows need reports of each level")

    def quantile(self, share: float) -> NumberDifference:
        """Return the change of a quantile. It is tested if an edge of bins lies between before and after."""
        quantities = self._quantities(lambda numbers, level: numbers.quantile(share, level))
        return _of(*quantities, *self.quantile_test(share))

    def quantile_test(self, share: float) -> tuple[float, float]:
        """Return the p-value of a quantile's change, and the side to which it moved."""
        edge = self._pooled.nearest_edge(share)
        earlier_share, earlier_stderr = self.before.estimate.between(0, edge)
        later_share, later_stderr = self.after.estimate.between(0, edge)
        # If the edge is on one side of both quantiles, its shares can differ although the quantile did not move.
        # Fewer numbers below the edge mean that the quantile went up.
        side = float(np.sign(earlier_share - later_share))
        p_value = 1.0
        if min(earlier_share, later_share) <= share <= max(earlier_share, later_share):
            p_value = self._p_value(later_share - earlier_share, self._stderr(earlier_stderr, later_stderr))
        return p_value, side

    def range(self, start: float, end: float) -> NumberDifference:
        """Return the change of the share of the numbers from the bin of `start` to before the bin of `end`."""
        range_before = self.before.range(start, end)
        range_after = self.after.range(start, end)
        return self.shares((range_before.share, range_before.stderr), (range_after.share, range_after.stderr))

    def shares(self, before: tuple[float, float], after: tuple[float, float]) -> NumberDifference:
        """Return the change of a range's share from its value and standard error in each window."""
        # The difference of two shares cannot leave [-1, 1], though normal ends can.
        change = self._linear(before, after)
        return change._replace(low=max(change.low, -1.0), high=min(change.high, 1.0))

    def mean(self) -> NumberDifference:
        """Return the change of the mean, with each number at the middle of its bin."""
        return self._of_weights(self.before.scale.middles)

    def geometric_mean(self) -> NumberDifference:
        """Return the change of the geometric mean. Its test is about the mean of the logarithms."""
        quantities = self._quantities(lambda numbers, level: numbers.geometric_mean(level))
        test = self._of_weights(np.log(self.before.scale.middles))
        return _of(*quantities, test.p_value, test.side)

    def _of_weights(self, weights: Floats) -> NumberDifference:
        """Return the change of the linear answer with these weights of the bins."""
        return self._linear(self.before.estimate.linear(weights), self.after.estimate.linear(weights))

    @cached_property
    def _pooled(self) -> Numbers:
        return Numbers(self.before.estimate.pooled(self.after.estimate), self.before.scale)

    @cached_property
    def law(self) -> LookLaw:
        """The law of the p-values and the intervals."""
        return self.looks.law(self.before.estimate.n_independent, self.after.estimate.n_independent)

    def _quantities(self, answer: Callable[[Numbers, float], Quantity]) -> tuple[Quantity, Quantity]:
        """Return an answer about each window, with intervals that hold together with the level of a difference."""
        level = self.law.level_of_one_look(LEVEL)
        if level < 1.0:
            # Each window's interval misses with half of what remains, whatever their dependence is.
            window_level = (1.0 + level) / 2.0
            return answer(self.before, window_level), answer(self.after, window_level)

        scale = self.before.scale
        quantity_before = answer(self.before, LEVEL)
        quantity_after = answer(self.after, LEVEL)
        whole = {"low": scale.low, "high": scale.high}
        return quantity_before._replace(**whole), quantity_after._replace(**whole)

    def _p_value(self, difference: float, stderr: float) -> float:
        """Return the probability of such a difference if nothing has changed."""
        # Without an error (a range of all bins) a difference can only be rounding, and a division by 0 would follow.
        if not stderr > 0.0:
            return 1.0
        if self.law.information is None:
            return math.erfc(abs(difference) / (stderr * math.sqrt(2.0)))
        return float(self.law.p_values(np.array([abs(difference) / stderr]))[0])

    def _stderr(self, stderr_before: float, stderr_after: float) -> float:
        """Return the standard error of a difference from those of two windows."""
        return math.hypot(stderr_before, stderr_after) * (_PANEL if self.panel else 1.0)

    def _linear(self, answer_before: tuple[float, float], answer_after: tuple[float, float]) -> NumberDifference:
        """Return the change of a linear answer from its values and standard errors."""
        difference = answer_after[0] - answer_before[0]
        stderr = self._stderr(answer_before[1], answer_after[1])
        reach = self.law.reach(LEVEL) * stderr

        return NumberDifference(
            before=answer_before[0],
            after=answer_after[0],
            difference=difference,
            stderr=stderr,
            low=difference - reach,
            high=difference + reach,
            p_value=self._p_value(difference, stderr),
            side=float(np.sign(difference)),
        )


def _of(quantity_before: Quantity, quantity_after: Quantity, p_value: float, side: float) -> NumberDifference:
    """Return a change whose interval follows from those of both windows."""
    return NumberDifference(
        before=quantity_before.value,
        after=quantity_after.value,
        difference=quantity_after.value - quantity_before.value,
        stderr=math.nan,
        low=quantity_after.low - quantity_before.high,
        high=quantity_after.high - quantity_before.low,
        p_value=p_value,
        side=side,
    )
