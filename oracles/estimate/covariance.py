"""Errors of shares: the variance of one, and the covariance of two for sums, differences and projections."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from oracles.errors import ParameterError
from oracles.types import Floats


@lru_cache(maxsize=1 << 10)
def quantile(tail: float) -> float:
    """Return the normal quantile that leaves `tail` above it, exact for tails down to 1e-300."""
    from statistics import NormalDist

    return -NormalDist().inv_cdf(tail)


@dataclass(frozen=True)
class Noise:
    """The error law of a share f: its variance is a + b f + c f (1 - f).

    c is zero unless the clients that answer are themselves a sample (smp).
    """

    a: float
    b: float
    c: float = 0.0

    @property
    def sigma(self) -> float:
        """Standard error at a share of zero, which thresholds and priors use."""
        return float(np.sqrt(self.a))

    def variance(self, shares: float | Floats) -> Floats:
        """Return the variance at these shares, with shares outside [0, 1] moved to the nearest end."""
        f = np.minimum(np.maximum(shares, 0.0), 1.0)
        variance = self.a + self.b * f
        if self.c:
            variance += self.c * f * (1.0 - f)
        result: Floats = np.maximum(variance, 0.0)
        return result

    def stderr(self, shares: Floats) -> Floats:
        result: Floats = np.sqrt(self.variance(shares))
        return result

    def interval(self, shares: Floats, level: float = 0.95) -> tuple[Floats, Floats]:
        """Return the score interval: all f whose distance to the estimate is within z standard errors at f.

        It is not limited to [0, 1].
        """
        if not 0.0 < level < 1.0:
            raise ParameterError(f"level must be above 0 and below 1, got {level!r}")
        z = quantile((1.0 - level) / 2.0)
        zz = z * z
        b = self.b + self.c
        # Noise can bring an estimate so far below 0 that no f is within reach. The ends then meet.
        root = self.a * (1.0 + zz * self.c) + b * shares - self.c * shares**2 + zz * b * b / 4.0
        half = z * np.sqrt(np.maximum(root, 0.0))
        centre = shares + zz * b / 2.0
        scale = 1.0 + zz * self.c
        return (centre - half) / scale, (centre + half) / scale

    def significance(self, size: int, family_error: float = 0.05) -> float:
        """Return the share that `family_error` of `size` values of share zero exceed, if errors were normal.

        Methods use this threshold, as their papers do. Proofs use exact tails instead.
        """
        if family_error >= size / 2:
            return 0.0
        return quantile(family_error / size) * self.sigma


@dataclass(frozen=True)
class Covariance:
    """The covariance of the errors of two shares f and g: flat + tilt (f + g) - c f g.

    c is that of a sample (smp). flat and tilt are zero except for grr and ss, whose reports hold a fixed number
    of values.
    """

    noise: Noise
    flat: float
    tilt: float

    def times(self, weights: Floats, shares: Floats) -> Floats:
        """Return the covariance matrix at these true shares, multiplied by a vector."""
        c = self.noise.c
        own_variance = self.noise.a + self.noise.b * shares + c * shares - self.flat - 2.0 * self.tilt * shares
        weighted_sum = float((weights * shares).sum())
        with_others = (self.flat + self.tilt * shares) * float(weights.sum()) + (self.tilt - c * shares) * weighted_sum
        return own_variance * weights + with_others

    def contrast(self, values: int, size: int, share: float) -> float:
        """Return the variance of a set's sum minus its part of the total sum, if all true shares sum to 1."""
        part = values / size
        squares = values * (1.0 - part)
        weighted_sum = (1.0 - part) ** 2 * share + part**2 * (1.0 - share)
        sampling = self.noise.c * (weighted_sum - (share - part) ** 2)
        return (self.noise.a - self.flat) * squares + (self.noise.b - 2.0 * self.tilt) * weighted_sum + sampling

    def pair(self, f: float | Floats, g: float | Floats) -> float | Floats:
        """Return the covariance of the errors of two shares f and g."""
        return self.flat + self.tilt * (f + g) - self.noise.c * f * g
