"""Trees of halves: shares of bins from the levels of a Haar tree, and the error of any sum of them.

Level j divides 2**k bins into blocks of 2**(j + 1). Its coefficient for a block is the share of the block's left half
minus that of its right half. One report estimates all coefficients of its level. The share of a bin follows from
the coefficients of the k blocks that hold it.

A linear answer sum_v x_v f_v has the variance V sum_j G_j / N_j at most, with V = 1/(2 p - 1)^2 and N_j independent
reports of level j. G_j is the sum of g^2 over the blocks of the level. g is half of the mean of x in the left half
minus that in the right half. No assumption on the shares is needed, and a random sample of clients costs nothing more.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self

import numpy as np

from oracles.errors import ParameterError
from oracles.estimate import Estimate
from oracles.estimate.covariance import quantile
from oracles.estimate.pure import Pure
from oracles.types import Floats, Ints

_REACH = quantile(0.025)
"""Standard errors from a number to an end of its 95% interval."""


class Tree:
    """A tree of k levels over 2**k bins, whose reports tell the right half with probability (1 + gap)/2."""

    def __init__(self, levels: int, gap: float) -> None:
        self.levels = levels
        self.bins = 1 << levels
        self.gap = gap
        self.factor = gap**-2
        """Variance of one report, V."""
        self.bin_variance = levels * self.factor * float((0.25 ** np.arange(1, levels + 1)).sum())
        """Variance of a bin's share, times n, if each level has as many reports."""

    @classmethod
    def of(cls, oracle: Pure) -> Self:
        """Return the tree of an oracle whose reports tell halves of blocks apart."""
        return cls(oracle.levels, 2.0 * oracle.gap)

    @property
    def counters(self) -> int:
        """Number of blocks and levels: the counts from which an estimate follows."""
        return self.bins - 1 + self.levels

    def counts(self, signs: Sequence[Ints], answering: Ints) -> Ints:
        """Return the reports for the left half of each block, level by level, then the reports of each level.

        Counts of several tallies add up to those of all reports.
        """
        # A sign is left minus right, so left is (sign + all)/2, without a remainder.
        lefts = [(level_signs + n) // 2 for level_signs, n in zip(signs, answering, strict=True)]
        return np.concatenate([*lefts, answering])

    def estimate(self, oracle: Pure, counts: Ints, n: int, n_independent: int) -> "TreeEstimate":
        """Return the estimate that follows from counts."""
        answering = counts[-self.levels :]
        sizes = self.bins >> np.arange(1, self.levels + 1)
        lefts = np.split(counts[: self.bins - 1], np.cumsum(sizes)[:-1])
        signs = [2 * left - level for left, level in zip(lefts, answering, strict=True)]
        shares = self.shares(signs, answering)
        levels = tuple(answering.tolist())
        return TreeEstimate(shares, n, oracle, n_independent, tree=self, answering=levels, supports=counts)

    def shares(self, signs: Sequence[Ints | Floats], answering: Ints) -> Floats:
        """Return the unbiased shares of all bins. They sum to 1, and are NaN if a level has no reports."""
        if not answering.all():
            return np.full(self.bins, np.nan)
        shares = np.ones(1)
        for j in range(self.levels - 1, -1, -1):
            coefficients = signs[j] / (int(answering[j]) * self.gap)
            shares = np.stack([shares + coefficients, shares - coefficients], axis=1).reshape(-1) / 2.0
        return shares

    def coefficients(self, shares: Floats) -> list[Floats]:
        """Return for each level the share of each block's left half, minus that of its right half."""
        sums = shares
        levels = []
        for _ in range(self.levels):
            halves = sums.reshape(-1, 2)
            levels.append(halves[:, 0] - halves[:, 1])
            sums = halves.sum(axis=1)
        return levels

    def resolution(self, n: float) -> float:
        """Return how far the 95% interval of a cumulative share of `n` reports reaches to either side, on average."""
        return _REACH * math.sqrt(self._cumulative_variance / n) if n else math.nan

    def reports(self, width: float) -> int:
        """Return the number of reports whose intervals reach so far to either side, on average."""
        return math.ceil(_REACH**2 * self._cumulative_variance / width**2)

    @property
    def _cumulative_variance(self) -> float:
        """Variance of a cumulative share from one report, on average over all edges."""
        return self.levels * (self.levels + 0.7) * self.factor / 12.0

    def squares(self, weights: Floats) -> Floats:
        """Return G_j of each level for the answer with these weights of the bins."""
        means = weights
        squares = np.zeros(self.levels)
        for j in range(self.levels):
            halves = means.reshape(-1, 2)
            squares[j] = float(((halves[:, 0] - halves[:, 1]) ** 2).sum()) / 4.0
            means = halves.mean(axis=1)
        return squares

    def edge_squares(self, edges: Ints) -> Floats:
        """Return g of each level for the share of the bins before each edge, of the one block that the edge cuts."""
        sizes = 2 << np.arange(self.levels)[:, None]
        positions = edges % sizes
        cuts: Floats = np.minimum(positions, sizes - positions) / sizes
        return cuts

    def range_squares(self, start: int, end: int) -> Floats:
        """Return G_j of each level for the share of the bins start..end-1."""
        cuts = self.edge_squares(np.array([start, end]))
        sizes = 2 << np.arange(self.levels)
        # Both edges cut one block: there g is the difference of both cuts, so their product counts twice.
        is_same_block = start // sizes == end // sizes
        squares: Floats = (cuts**2).sum(axis=1) - np.where(is_same_block, 2.0 * cuts[:, 0] * cuts[:, 1], 0.0)
        return squares


@dataclass(frozen=True, eq=False)
class TreeEstimate(Estimate):
    """Unbiased shares of bins, with the number of reports of each level. NaN if a level has none."""

    tree: Tree = field(kw_only=True, repr=False)
    answering: tuple[int, ...] = field(kw_only=True)
    """Number of reports of each level."""
    supports: Ints | None = field(default=None, kw_only=True, repr=False)
    """The counts from which the shares were computed, or None for shares that a record shows."""

    @cached_property
    def counts(self) -> Ints:
        if self.supports is None:
            raise ParameterError("the shares of a record have no counts")
        return self.supports

    def deviation(self, squares: Floats) -> Floats:
        """Return the standard errors of answers from G_j: one answer, or a column for each."""
        # A level without reports tells nothing: its error is NaN. A division by 0 would warn and give infinity.
        independent = np.array(self.answering) * (self.n_independent / self.n if self.n else 0.0)
        factors = np.full(len(independent), np.nan)
        np.divide(self.tree.factor, independent, out=factors, where=independent > 0)
        errors: Floats = np.sqrt(factors @ squares)
        return errors

    def linear(self, weights: Floats) -> tuple[float, float]:
        """Return the answer with these weights of the bins, and its standard error.

        The weights are squared at about 1, since squares of very large or small ones have no float. Powers of two
        change no other bit.
        """
        exponent = int(np.frexp(np.abs(weights).max())[1])
        weights = np.ldexp(weights, -exponent)
        answer = np.array([weights @ self.shares, self.deviation(self.tree.squares(weights))])
        value, stderr = np.ldexp(answer, exponent).tolist()
        return value, stderr

    def between(self, start: int, end: int) -> tuple[float, float]:
        """Return the share of the bins start..end-1, and its standard error."""
        return float(self.shares[start:end].sum()), float(self.deviation(self.tree.range_squares(start, end)))

    def cumulative(self) -> tuple[Floats, Floats]:
        """Return the share of the bins up to each, and the standard errors. The last share is 1, without error."""
        sums = np.cumsum(self.shares)
        # The sum of all bins is 1 up to rounding, and a quantile near 1 would find no bin.
        sums[-1] = 1.0 if np.isfinite(sums[-1]) else np.nan
        return sums, self.deviation(self.tree.edge_squares(np.arange(1, self.tree.bins + 1)) ** 2)

    def pooled(self, other: "TreeEstimate") -> "TreeEstimate":
        """Return the estimate of the reports of both windows together."""
        # A mean of the shares would weigh levels by all reports. Each level has its own number of them.
        own_levels = np.array(self.answering)
        other_levels = np.array(other.answering)
        own_parts = self.tree.coefficients(self.shares)
        other_parts = self.tree.coefficients(other.shares)
        signs: list[Floats] = [
            self.tree.gap * (own_levels[j] * own_parts[j] + other_levels[j] * other_parts[j])
            for j in range(self.tree.levels)
        ]

        answering = own_levels + other_levels
        return TreeEstimate(
            self.tree.shares(signs, answering),
            self.n + other.n,
            self.oracle,
            self.n_independent + other.n_independent,
            tree=self.tree,
            answering=tuple(answering.tolist()),
        )

    @property
    def stderr(self) -> Floats:
        squares: Floats = 0.25 ** np.arange(1.0, self.tree.levels + 1)
        return np.full(self.tree.bins, float(self.deviation(squares)))

    def interval(self, level: float = 0.95, *, cut: bool = True) -> tuple[Floats, Floats]:
        reach = quantile((1.0 - level) / 2.0) * self.stderr
        low = self.shares - reach
        high = self.shares + reach
        if not cut:
            return low, high
        return np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)

    def intervals_at(self, positions: Ints, level: float) -> tuple[Floats, Floats]:
        low, high = self.interval(level)
        return low[positions], high[positions]


def estimate_of(oracle: Pure, counts: Ints, n: int, n_independent: int) -> Estimate:
    """Return the estimate that follows from the counts of an oracle, for example from the sum of several windows."""
    if oracle.levels:
        return Tree.of(oracle).estimate(oracle, counts, n, n_independent)
    return Estimate(oracle.shares(counts, n), n, oracle, n_independent)
