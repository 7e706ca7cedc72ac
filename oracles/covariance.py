"""Errors of shares: the law of one, and how two move together, which sums, differences and projections need."""

from dataclasses import dataclass

import numpy as np

from oracles.errors import ParameterError
from oracles.types import Floats


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

    def variance(self, shares: float | Floats) -> Floats:
        """At these shares, those beyond 0 and 1 taken as 0 and 1."""
        f = np.clip(shares, 0.0, 1.0)
        found: Floats = np.maximum(self.a + self.b * f + self.c * f * (1.0 - f), 0.0)
        return found

    def stderr(self, shares: Floats) -> Floats:
        found: Floats = np.sqrt(self.variance(shares))
        return found

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
        """The share that `family_error` of `size` values of share zero exceed, if errors were normal.

        Methods cut there, as the papers have it; what is proved is a matter of exact tails.
        """
        if family_error >= size / 2:
            return 0.0
        return quantile(family_error / size) * self.sigma


@dataclass(frozen=True)
class Covariance:
    """Two shares f and g have errors of covariance flat + tilt (f + g) - c f g, c that of a sample (smp).

    flat and tilt are zero but for grr and ss, whose reports hold a fixed number of values.
    """

    noise: Noise
    flat: float
    tilt: float

    def times(self, weights: Floats, shares: Floats) -> Floats:
        """The covariance matrix at these true shares, times a vector."""
        c = self.noise.c
        own = self.noise.a + self.noise.b * shares + c * shares - self.flat - 2.0 * self.tilt * shares
        weighed = float((weights * shares).sum())
        rest = (self.flat + self.tilt * shares) * float(weights.sum()) + (self.tilt - c * shares) * weighed
        return own * weights + rest

    def contrast(self, values: int, size: int, share: float) -> float:
        """The variance of a set's sum less its part of the sum of all, where all true shares sum to 1."""
        part = values / size
        squares = values * (1.0 - part)
        weighed = (1.0 - part) ** 2 * share + part**2 * (1.0 - share)
        sampled = self.noise.c * (weighed - (share - part) ** 2)
        return (self.noise.a - self.flat) * squares + (self.noise.b - 2.0 * self.tilt) * weighed + sampled

    def pair(self, f: float | Floats, g: float | Floats) -> float | Floats:
        """The covariance of the errors of two shares f and g."""
        return self.flat + self.tilt * (f + g) - self.noise.c * f * g
