"""What a tally says about the true shares, and how sure it is.

The formulas hold for every *pure* oracle: a report supports its own value with probability p and
any other with probability q. Errors are those of `n_independent` reports; shares use all `n`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oracles.errors import ParameterError, ReportError

if TYPE_CHECKING:
    from oracles.pure import Pure

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def quantile(tail: float) -> float:
    """The normal quantile that leaves `tail` above it; exact for tails down to 1e-300."""
    from statistics import NormalDist

    return -NormalDist().inv_cdf(tail)


@dataclass(frozen=True)
class Noise:
    """The error law of a share f: its variance is a + b f + c f (1 - f).

    c is zero unless those who answer are themselves a sample (smp).
    """

    a: float
    b: float
    c: float = 0.0

    @property
    def sigma(self) -> float:
        """The standard error at a share of zero: what thresholds and priors use."""
        return float(np.sqrt(self.a))

    def stderr(self, shares: Floats) -> Floats:
        f = np.clip(shares, 0.0, 1.0)
        return np.sqrt(np.maximum(self.a + self.b * f + self.c * f * (1.0 - f), 0.0))

    def interval(self, shares: Floats, level: float = 0.95) -> tuple[Floats, Floats]:
        """The score interval: all f whose distance to the estimate is within z standard errors at f.

        Not cut to [0, 1].
        """
        if not 0.0 < level < 1.0:
            raise ParameterError(f"level must be above 0 and below 1, got {level!r}")
        z = quantile((1.0 - level) / 2.0)
        zz = z * z
        b = self.b + self.c
        root = self.a * (1.0 + zz * self.c) + b * shares - self.c * shares**2 + zz * b * b / 4.0
        half = z * np.sqrt(np.maximum(root, 0.0))
        centre = shares + zz * b / 2.0
        scale = 1.0 + zz * self.c
        return (centre - half) / scale, (centre + half) / scale

    def significance(self, size: int, family_error: float = 0.05) -> float:
        """The share above which a value of `size` is significant, with `family_error` over all of them."""
        if family_error >= size / 2:
            return 0.0
        return quantile(family_error / size) * self.sigma

    def detectable(self, size: int, family_error: float = 0.05) -> float | None:
        """The share that is found significant with probability 0.9; None where it would exceed 1."""
        t = self.significance(size, family_error)
        k = 1.2816
        root = self.a + self.b * t + k * k * self.b * self.b / 4.0
        share = t + k * k * self.b / 2.0 + k * float(np.sqrt(max(0.0, root)))
        return share if share <= 1.0 else None


@dataclass(frozen=True, eq=False)
class Estimate:
    """Unbiased shares of all values, with their errors. NaN where there are no reports."""

    shares: Floats
    n: int
    oracle: "Pure" = field(repr=False)
    n_independent: int = -1
    """Reports that carry independent noise; fewer than n where clients repeat memoised answers."""
    population: int | None = None
    """Independent clients of whom the n_independent are a random sample (smp); None: they are all."""

    def __post_init__(self) -> None:
        if self.n_independent == -1:
            object.__setattr__(self, "n_independent", self.n)
        if not 0 <= self.n_independent <= self.n:
            raise ParameterError(f"n_independent must be between 0 and n = {self.n}, got {self.n_independent}")

    @cached_property
    def noise(self) -> Noise:
        noise = self.oracle.noise(self.n_independent)
        return Noise(noise.a, noise.b, self._sampling)

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

    def interval(self, level: float = 0.95, *, cut: bool = True) -> tuple[Floats, Floats]:
        """The score interval of each share, cut to [0, 1] as it is published unless `cut` is false."""
        low, high = self.noise.interval(self.shares, level)
        return (np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)) if cut else (low, high)

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
        counts = self._scaled(up=below)
        if self.population is not None:
            return binomial_tail(counts, n, oracle.q + threshold * oracle.gap, below=below)
        own = int(np.ceil(n * threshold - 1e-9)) if below else int(np.floor(n * threshold + 1e-9))
        return two_binomials_tail(counts, own, oracle.p, n - own, oracle.q, below=below)

    def _scaled(self, *, up: bool) -> Ints:
        """Support counts as n_independent reports would have them, rounded away from significance."""
        if self.n_independent == self.n:
            return self.counts
        fits = self.n.bit_length() + self.n_independent.bit_length() < 63
        products = self.counts.astype(np.int64 if fits else object) * self.n_independent
        scaled: Ints = (-(-products // self.n) if up else products // self.n).astype(np.int64)
        return scaled

    def answer(self, values: Sequence[int] | ArrayLike) -> tuple[float, float]:
        """The share of a set of values, given by their positions, and its standard error."""
        chosen = np.asarray(values)
        if chosen.ndim != 1 or chosen.size == 0 or chosen.dtype.kind not in "iu":
            raise ReportError("a set is a list of one or more positions of values (integers)")
        size = self.oracle.size
        if chosen.min() < 0 or chosen.max() >= size:
            raise ReportError(f"a position in the set is outside 0..{size - 1}")
        if len(np.unique(chosen)) != len(chosen):
            raise ReportError("a position stands in the set twice")
        share = float(self.shares[chosen].sum())
        if not self.n_independent:
            return share, float("nan")
        f = min(max(share, 0.0), 1.0)
        variance = self.oracle.set_variance(self.n_independent, len(chosen), f) + self._sampling * f * (1.0 - f)
        return share, float(np.sqrt(max(variance, 0.0)))
