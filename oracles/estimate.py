"""Estimates: the shares that a tally gives, and how sure they are.

The formulas hold for every *pure* oracle: a report supports its own value with probability p and
any other with probability q. Everything behind the support counts (estimates, intervals, thresholds,
methods) needs no more, so it works on any oracle and on each attribute of several. Errors are those
of `n_independent` reports; shares use all `n`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from oracles import intervals, listing
from oracles.covariance import Covariance, Noise, quantile
from oracles.errors import ParameterError
from oracles.kernels.ranks import ranks
from oracles.pure import DENSE, Pure
from oracles.types import Flags, Floats, Ints

if TYPE_CHECKING:
    from polars import DataFrame

__all__ = ["Covariance", "Estimate", "Noise", "Pure", "change", "quantile"]

_RANK_ERROR = 0.05
_PANEL = 64
"""Values from which the unchanged ones show a panel's noise."""


@dataclass(frozen=True, eq=False)
class Estimate:
    """Unbiased shares of all values, with their errors. NaN where there are no reports."""

    shares: Floats
    n: int
    oracle: Pure = field(repr=False)
    n_independent: int = -1
    """Reports that carry independent noise; fewer than n where clients repeat memoised answers."""
    population: int | None = None
    """Independent clients of whom the n_independent are a random sample (smp); None: they are all."""
    labels: tuple[str, ...] | None = field(default=None, repr=False)
    """The names of the values; where there are none a value is its position."""

    def __post_init__(self) -> None:
        if self.n_independent == -1:
            object.__setattr__(self, "n_independent", self.n)
        if not 0 <= self.n_independent <= self.n:
            raise ParameterError(f"n_independent must be between 0 and n = {self.n}, got {self.n_independent}")

    def __repr__(self) -> str:
        return listing.text(self)

    def __getitem__(self, value: int | str) -> listing.Row:
        """One value's share, with its error and its 95% interval."""
        return listing.rows(self, self._positions([value]))[0]

    def labelled(self, labels: Sequence[str] | None) -> "Estimate":
        """The same with names for the values, which are then understood wherever a position is."""
        return replace(self, labels=listing.names(labels, len(self.shares)))

    def top(self, k: int = 10) -> list[listing.Row]:
        """The k largest shares, the largest first."""
        return listing.rows(self, listing.highest(self, k))

    def to_frame(self) -> "DataFrame":
        """All values as a table of polars (the extra `read`)."""
        return listing.frame(self)

    def plot(self, k: int = 20, axes: Any = None) -> Any:
        """Bars of the k largest shares, with their intervals (the extra `plot`); gives the axes of matplotlib."""
        return listing.plot(self, k, axes)

    @cached_property
    def noise(self) -> Noise:
        noise = self.oracle.noise(self.n_independent)
        return Noise(noise.a, noise.b, self._sampling)

    @cached_property
    def covariance(self) -> Covariance:
        """How two errors move together, read off the variance of the sum of two values."""
        n, noise = self.n_independent, self.noise
        if not n:
            return Covariance(noise, float("nan"), float("nan"))
        flat, tilted = (
            (self.oracle.set_variance(n, 2, share) - 2.0 * noise.a - noise.b * share) / 2.0 for share in (0.0, 1.0)
        )
        return Covariance(noise, flat, tilted - flat)

    @property
    def _sampling(self) -> float:
        if self.population is None or not self.n_independent:
            return 0.0
        return 1.0 / self.n_independent - 1.0 / self.population

    @property
    def sigma(self) -> float:
        return self.noise.sigma

    @property
    def stderr(self) -> Floats:
        """The standard error of each share."""
        return self.noise.stderr(self.shares)

    @cached_property
    def _interval(self) -> tuple[Floats, Floats]:
        return self.interval()

    @property
    def low(self) -> Floats:
        """Lower ends of the 95% intervals: each is one value's, so of 100 shown five miss."""
        return self._interval[0]

    @property
    def high(self) -> Floats:
        return self._interval[1]

    def interval(self, level: float = 0.95, *, cut: bool = True) -> tuple[Floats, Floats]:
        """Of each share: the score interval, or where counts are sparse the exact test inverted.

        Cut to [0, 1] as it is published unless `cut` is false.
        """
        return intervals.of_values(self, level, cut=cut)

    def critical(self, family_error: float = 0.05) -> int | None:
        """The count from which a value is significant, of n_independent reports; None where nothing can be.

        A value of share zero reaches it with a probability of at most `family_error` over all values.
        It is significant where count n_independent >= critical n.
        """
        return self.oracle.critical(self.n_independent, family_error)

    def significance(self, family_error: float = 0.05) -> float | None:
        """The critical count as a share."""
        c = self.critical(family_error)
        return None if c is None else (c / self.n_independent - self.oracle.q) / self.oracle.gap

    def detectable(self, family_error: float = 0.05) -> float | None:
        """The share that is found significant with probability 0.9; None where not even 1 is."""
        return self.oracle.detectable(self.n_independent, family_error, sampled=self.population is not None)

    @property
    def counts(self) -> Ints:
        """The support counts that the shares were computed from, exactly."""
        if not self.n:
            return np.zeros(len(self.shares), np.int64)
        return np.rint(self.n * (self.shares * self.oracle.gap + self.oracle.q)).astype(np.int64)

    def test(self, threshold: float, *, below: bool = False) -> Floats:
        """p-value, for each value, of its share being at most `threshold`.

        A small one is proof that the share is above. With `below`, of its being at least
        `threshold`: a small one is proof that it is under. Tails are exact at a threshold of 0,
        and else as exact as a saddlepoint gets; Gaussian ones are wrong by factors.
        """
        from oracles.kernels.tails import binomial_tail, two_binomials_tail

        if not 0.0 <= threshold <= 1.0:
            raise ParameterError(f"threshold must be a share between 0 and 1, got {threshold!r}")
        n, oracle = self.n_independent, self.oracle
        if not n:
            return np.ones(len(self.shares))
        counts = self.scaled(self.counts, up=below)
        if self.population is not None:
            return binomial_tail(counts, n, oracle.q + threshold * oracle.gap, below=below)
        own = int(np.ceil(n * threshold - 1e-9)) if below else int(np.floor(n * threshold + 1e-9))
        return two_binomials_tail(counts, own, oracle.p, n - own, oracle.q, below=below)

    def scaled(self, counts: Ints, *, up: bool = False) -> Ints:
        """Support counts as n_independent reports would have them, rounded away from significance."""
        if self.n_independent == self.n:
            return counts
        fits = self.n.bit_length() + self.n_independent.bit_length() < 63
        products = counts.astype(np.int64 if fits else object) * self.n_independent
        scaled: Ints = (-(-products // self.n) if up else products // self.n).astype(np.int64)
        return scaled

    def answer(self, values: Sequence[int] | ArrayLike) -> tuple[float, float]:
        """The sum of the shares of a set of values, given by their positions, and its standard error."""
        chosen = self._positions(values)
        share = float(self.shares[chosen].sum())
        if not self.n_independent:
            return share, float("nan")
        return share, float(np.sqrt(self.set_noise(len(chosen)).variance(share)))

    def of_set(self, values: Sequence[int | str] | ArrayLike) -> tuple[float, float, float, float]:
        """The share of a set of values, its standard error and its 95% interval; a large set by what is not in it."""
        chosen = self._positions(values)
        size = self.oracle.size
        if not self.n_independent:
            return float("nan"), float("nan"), float("nan"), float("nan")
        if 2 * len(chosen) > size:
            rest = np.setdiff1d(np.arange(size), chosen)
            others, error, least, most = self.of_set(rest) if len(rest) else (0.0, 0.0, 0.0, 0.0)
            return 1.0 - others, error, 1.0 - most, 1.0 - least
        share = float(self.shares[chosen].sum())
        low, high = intervals.of_set(self, chosen, np.array([self.counts[chosen].sum()]))
        return share, float(np.sqrt(self.set_noise(len(chosen)).variance(share))), float(low[0]), float(high[0])

    def difference(self, u: int | str, v: int | str) -> tuple[float, float, float, float]:
        """How much more u has than v: the difference of their shares, its standard error and its 95% interval."""
        first, last = self._positions([u] if u == v else [u, v])[[0, -1]]
        share, stderr, low, high = intervals.of_difference(self, first[None], last[None])
        return float(share[0]), float(stderr[0]), float(low[0]), float(high[0])

    def ranks(self, values: Sequence[int | str] | ArrayLike) -> tuple[Ints, Ints]:
        """The first and the last rank that the true share of each value may have; 1 is the most frequent. 95% each."""
        from oracles.kernels.tails import binomial_tail

        chosen, size, n = self._positions(values), len(self.shares), self.n_independent
        if not n:
            return np.ones(len(chosen), np.int64), np.full(len(chosen), size, np.int64)
        counts, place, many = self.distinct
        level = _RANK_ERROR / (2 * (size - 1))
        if n * self.oracle.q >= DENSE:
            shares, z = self.oracle.shares(counts, self.n), quantile(level)

            def proved(u: Ints, v: Ints) -> Flags:
                found: Flags = shares[u] - shares[v] >= z * intervals.apart(self, shares[u], shares[v])
                return found
        else:  # of those who support one of two equal values alone, half support each: for every oracle at most
            less, more = self.scaled(counts), self.scaled(counts, up=True)

            def proved(u: Ints, v: Ints) -> Flags:
                return binomial_tail(less[u], less[u] + more[v], 0.5) <= level

        return ranks(many, place[chosen], proved)

    @cached_property
    def distinct(self) -> tuple[Ints, Ints, Ints]:
        """The distinct support counts, where each value stands among them, and how many have each."""
        counts, place, many = np.unique(self.counts, return_inverse=True, return_counts=True)
        return counts, place, many

    def set_noise(self, values: int) -> Noise:
        """The error law of the sum of so many values."""
        alone, all_of_it = (self.oracle.set_variance(self.n_independent, values, share) for share in (0.0, 1.0))
        return Noise(alone, all_of_it - alone, self._sampling)

    def _positions(self, values: Sequence[int | str] | ArrayLike) -> Ints:
        return listing.positions(self.labels, values, len(self.shares))


def change(before: Estimate, after: Estimate, *, panel: bool = True) -> tuple[Floats, Floats]:
    """How all shares changed between two windows, and the standard errors of that.

    In a `panel` (clients repeat their answers) only those whose class changed, came or went bring
    noise, and the values that did not change show how much: the median, so that large changes do not
    hide small ones. Elsewhere, and where too little is known, both errors are taken as independent.
    """
    shares, (one, two) = after.shares - before.shares, (before, after)
    if not (one.n_independent and two.n_independent):
        return shares, np.full(len(shares), np.nan)
    own = one.noise.variance(one.shares) + two.noise.variance(two.shares)
    size, least = len(shares), min(one.n_independent, two.n_independent)
    known = panel and size >= _PANEL and after.oracle.one_value and one.population is two.population is None
    if not known:
        return shares, np.sqrt(own)
    seen = (1.0 + 1.645 * np.sqrt(5.44 / size)) * float(np.median(shares**2)) / 0.45494
    if seen * (least * after.oracle.gap) ** 2 < DENSE:
        return shares, np.sqrt(own)
    held = sum(max(e.noise.b, 0.0) * np.clip(e.shares, 0.0, 1.0) for e in (one, two))
    return shares, np.sqrt(np.minimum(min(one.noise.a + two.noise.a, seen) + held, own))
