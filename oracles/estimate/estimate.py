"""Estimates: the shares that a tally gives, and how sure they are.

The formulas hold for every *pure* oracle: a report supports its own value with probability p and any other one
with probability q. All steps after the support counts (estimates, intervals, thresholds, methods) work for every
oracle and for each of several attributes, because they need no more. Errors count the `n_independent` reports,
shares all `n`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import ArrayLike

from oracles.errors import ParameterError, extra
from oracles.estimate import intervals, listing
from oracles.estimate.covariance import Covariance, Noise, quantile
from oracles.estimate.pure import DENSE, Pure
from oracles.kernels.arrays import Distinct, distinct
from oracles.kernels.ranks import ranks
from oracles.types import Flags, Floats, Ints

if TYPE_CHECKING:
    from polars import DataFrame

__all__ = ["Covariance", "Estimate", "Noise", "Pure", "quantile"]

_RANK_ERROR = 0.05


@dataclass(frozen=True, eq=False)
class Estimate:
    """Unbiased shares of all values, with their errors. NaN without reports."""

    shares: Floats
    n: int
    oracle: Pure = field(repr=False)
    n_independent: int = -1
    """Number of reports with independent noise, below n if clients repeat memoised answers."""
    population: int | None = None
    """Number of independent clients from which the n_independent are a random sample (smp). None means all of them."""
    labels: tuple[str, ...] | None = field(default=None, repr=False)
    """Names of the values. Without them a value is its position."""

    def __post_init__(self) -> None:
        if self.n_independent == -1:
            object.__setattr__(self, "n_independent", self.n)
        if not 0 <= self.n_independent <= self.n:
            raise ParameterError(f"n_independent must be between 0 and n = {self.n}, got {self.n_independent}")

    def __repr__(self) -> str:
        return listing.text(self)

    def _repr_html_(self) -> str:
        return listing.html(self)

    def __len__(self) -> int:
        return len(self.shares)

    def __iter__(self) -> Iterator[listing.Row]:
        """Iterate over the rows of all values, in the order of the domain."""
        return iter(self[:])

    def __contains__(self, value: object) -> bool:
        return listing.holds(self.labels, value, len(self))

    @overload
    def __getitem__(self, value: int | str) -> listing.Row: ...

    @overload
    def __getitem__(self, value: slice | list[Any] | Ints) -> list[listing.Row]: ...

    def __getitem__(self, value: int | str | slice | list[Any] | Ints) -> listing.Row | list[listing.Row]:
        """Return the share of one value, with its error and its 95% interval.

        A list of values or a slice returns a list of such rows, in the order given.
        """
        if isinstance(value, int | str | np.integer):
            return listing.rows(self, self._positions([value]))[0]
        return listing.rows(self, listing.chosen(self.labels, value, len(self)))

    def labelled(self, labels: Sequence[str] | None) -> "Estimate":
        """Return a copy with names for the values. Every method then accepts a name instead of a position."""
        return replace(self, labels=listing.names(labels, len(self.shares)))

    def top(self, k: int = 10) -> list[listing.Row]:
        """Return the k largest shares, the largest first.

        Their intervals have a level above 95%, because the values are chosen by their size. See docs/estimates.md.
        """
        return listing.largest(self, k)

    def to_frame(self) -> "DataFrame":
        """Return all values as a polars table (the extra `read`)."""
        return listing.frame(self)

    def to_pandas(self) -> Any:
        """Return all values as a pandas table (the extra `pandas`)."""
        # Polars needs both, and its own message does not name the extra.
        with extra("pandas"):
            for package in ("polars", "pandas", "pyarrow"):
                import_module(package)
        return self.to_frame().to_pandas()

    def plot(self, k: int = 20, axes: Any = None) -> Any:
        """Draw bars of the k largest shares with their intervals (the extra `plot`). Return the matplotlib axes."""
        return listing.plot(self, k, axes)

    @cached_property
    def noise(self) -> Noise:
        return self.oracle.noise(self.n_independent, self._sampling)

    @cached_property
    def covariance(self) -> Covariance:
        """Covariance of two errors, from the variance of the sum of two values."""
        n = self.n_independent
        noise = self.noise
        if not n:
            return Covariance(noise, float("nan"), float("nan"))

        # Var(u + v) = Var(u) + Var(v) + 2 Cov(u, v), at sums of both shares of 0 and of 1.
        flat = (self.oracle.set_variance(n, 2, 0.0) - 2.0 * noise.a) / 2.0
        at_one = (self.oracle.set_variance(n, 2, 1.0) - 2.0 * noise.a - noise.b) / 2.0
        return Covariance(noise, flat, at_one - flat)

    @property
    def is_sample(self) -> bool:
        """Whether the clients are a random sample of a population, so that their shares differ from those of all."""
        return self.population is not None

    @property
    def _sampling(self) -> float:
        """Return the variance that sampling adds to a share of 1 or 0, as a part of the share times its complement."""
        if self.population is None or not self.n_independent:
            return 0.0
        return 1.0 / self.n_independent - 1.0 / self.population

    @property
    def sigma(self) -> float:
        return self.noise.sigma

    @cached_property
    def stderr(self) -> Floats:
        """Standard error of each share."""
        return self.noise.stderr(self.shares)

    @cached_property
    def _interval(self) -> tuple[Floats, Floats]:
        return self.interval()

    @property
    def low(self) -> Floats:
        """Lower ends of the 95% intervals. Each is right for one value that was chosen before looking. See `top`."""
        return self._interval[0]

    @property
    def high(self) -> Floats:
        return self._interval[1]

    def interval(self, level: float = 0.95, *, cut: bool = True) -> tuple[Floats, Floats]:
        """Return an interval for each share: the score interval, or the inverted exact test if counts are sparse.

        It is limited to [0, 1], as it is published, unless `cut` is false.
        """
        return intervals.of_values(self, slice(None), level, cut=cut)

    def intervals_at(self, positions: Ints, level: float) -> tuple[Floats, Floats]:
        """Return the intervals of the values at these positions alone, which needs less time than all."""
        return intervals.of_values(self, positions, level, cut=True)

    def critical(self, family_error: float = 0.05) -> int | None:
        """Return the count, of n_independent reports, at which a value becomes significant. None if no count is.

        Over all values of share zero, one reaches it with a probability of at most `family_error`. A value is
        significant if count n_independent >= critical n.
        """
        return self.oracle.critical(self.n_independent, family_error)

    def significance(self, family_error: float = 0.05) -> float | None:
        """Return the critical count as a share."""
        c = self.critical(family_error)
        if c is None:
            return None
        return (c / self.n_independent - self.oracle.q) / self.oracle.gap

    def detectable(self, family_error: float = 0.05) -> float | None:
        """Return the share that is significant with probability 0.9, or None if not even 1 is."""
        return self.oracle.detectable(self.n_independent, family_error, sampled=self.is_sample)

    @cached_property
    def counts(self) -> Ints:
        """Support counts from which the shares were computed, exactly."""
        return self._counts_of(self.shares)

    def _counts_of(self, shares: Floats) -> Ints:
        if not self.n:
            return np.zeros(len(shares), np.int64)
        return np.rint(self.n * (shares * self.oracle.gap + self.oracle.q)).astype(np.int64)

    def test(self, threshold: float, *, below: bool = False) -> Floats:
        """Return a p-value for each value: the probability of its count if its share is at most `threshold`.

        A small p-value proves that the share is above. With `below` the test is for a share of at least
        `threshold`, and a small p-value proves that the share is under it. Tails are exact at a threshold of 0,
        and otherwise as exact as a saddlepoint. Gaussian tails are wrong by factors.
        """
        return self._p_values(self.counts, threshold, below=below)

    def test_shares(self, shares: Floats, threshold: float, *, below: bool = False) -> Floats:
        """Return the p-values of these unbiased shares alone, which needs less time than all."""
        return self._p_values(self._counts_of(shares), threshold, below=below)

    def _p_values(self, supports: Ints, threshold: float, *, below: bool) -> Floats:
        from oracles.kernels.tails import binomial_tail, two_binomials_tail

        if not 0.0 <= threshold <= 1.0:
            raise ParameterError(f"threshold must be a share between 0 and 1, got {threshold!r}")
        n = self.n_independent
        oracle = self.oracle
        if not n:
            return np.ones(len(supports))

        counts = self.scaled(supports, up=below)
        # Whether a client of a sample (smp) holds the value is random too, so the count is one binomial.
        if self.is_sample or not threshold:
            return binomial_tail(counts, n, oracle.q + threshold * oracle.gap, below=below)
        # 1e-9 of a client: n times a share like 0.07 can miss its integer by the last bit.
        holders = int(np.ceil(n * threshold - 1e-9)) if below else int(np.floor(n * threshold + 1e-9))
        return two_binomials_tail(counts, holders, oracle.p, n - holders, oracle.q, below=below)

    def scaled(self, counts: Ints, *, up: bool = False) -> Ints:
        """Return support counts scaled to n_independent reports, rounded away from significance."""
        if self.n_independent == self.n:
            return counts
        # Two numbers of 32 bits and more overflow int64. Python's integers do not, and are slower.
        fits = self.n.bit_length() + self.n_independent.bit_length() < 63
        products = counts.astype(np.int64 if fits else object) * self.n_independent
        result: Ints = (-(-products // self.n) if up else products // self.n).astype(np.int64)
        return result

    def answer(self, values: Sequence[int] | ArrayLike) -> tuple[float, float]:
        """Return the summed share of a set of values, given by positions, and its standard error."""
        positions = self._positions(values)
        share = float(self.shares[positions].sum())
        if not self.n_independent:
            return share, float("nan")
        return share, float(np.sqrt(self.set_noise(len(positions)).variance(share)))

    def of_set(self, values: Sequence[int | str] | ArrayLike) -> tuple[float, float, float, float]:
        """Return the share of a set, its standard error and both ends of its 95% interval.

        A set of more than half of the values is computed from the values outside it.
        """
        positions = self._positions(values)
        size = self.oracle.size
        if not self.n_independent:
            return float("nan"), float("nan"), float("nan"), float("nan")

        # All shares of the truth sum to 1, so the smaller side has the smaller error.
        if 2 * len(positions) > size:
            complement = np.setdiff1d(np.arange(size), positions)
            if not len(complement):
                return 1.0, 0.0, 1.0, 1.0
            share, stderr, low, high = self.of_set(complement)
            return 1.0 - share, stderr, 1.0 - high, 1.0 - low

        share = float(self.shares[positions].sum())
        stderr = float(np.sqrt(self.set_noise(len(positions)).variance(share)))
        lows, highs = intervals.of_set(self, positions, np.array([self.counts[positions].sum()]))
        return share, stderr, float(lows[0]), float(highs[0])

    def difference(self, u: int | str, v: int | str) -> tuple[float, float, float, float]:
        """Return the share of u minus that of v, its standard error and both ends of its 95% interval."""
        # A set holds each value once, so two equal values are read as one.
        position_u, position_v = self._positions([u] if u == v else [u, v])[[0, -1]]
        share, stderr, low, high = intervals.of_difference(self, position_u[None], position_v[None])
        return float(share[0]), float(stderr[0]), float(low[0]), float(high[0])

    def ranks(self, values: Sequence[int | str] | ArrayLike) -> tuple[Ints, Ints]:
        """Return the first and last possible rank of each value's true share, 95% each. Rank 1 is the most frequent."""
        return self.ranks_at(self._positions(values))

    def ranks_at(self, positions: Ints) -> tuple[Ints, Ints]:
        """Return the first and last possible ranks of the values at valid positions."""
        from oracles.kernels.tails import binomial_tail

        size = len(self.shares)
        n = self.n_independent
        if not n:
            return np.ones(len(positions), np.int64), np.full(len(positions), size, np.int64)

        # A test against each of the other values, in both directions (Bonferroni).
        counts, places, multiplicities = self.distinct
        level = _RANK_ERROR / (2 * (size - 1))
        if n * self.oracle.q >= DENSE:
            shares = self.oracle.shares(counts, self.n)
            z = quantile(level)

            def is_above(u: Ints, v: Ints) -> Flags:
                proved: Flags = shares[u] - shares[v] >= z * intervals.difference_error(self, shares[u], shares[v])
                return proved

        else:
            # Of the reports that support exactly one of two equal values, at most half support each.
            lower_counts = self.scaled(counts)
            upper_counts = self.scaled(counts, up=True)

            def is_above(u: Ints, v: Ints) -> Flags:
                return binomial_tail(lower_counts[u], lower_counts[u] + upper_counts[v], 0.5) <= level

        return ranks(multiplicities, places[positions], is_above)

    @cached_property
    def distinct(self) -> Distinct:
        """Distinct support counts, the index of each value among them, and the number of values with each."""
        return distinct(self.counts)

    def set_noise(self, values: int) -> Noise:
        """Return the error law of the sum of this many values."""
        at_zero = self.oracle.set_variance(self.n_independent, values, 0.0)
        at_one = self.oracle.set_variance(self.n_independent, values, 1.0)
        return Noise(at_zero, at_one - at_zero, self._sampling)

    def _positions(self, values: Sequence[int | str] | ArrayLike) -> Ints:
        return listing.positions(self.labels, values, len(self.shares))
