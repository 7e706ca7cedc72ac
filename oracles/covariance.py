"""How the errors of shares move together: what sums of many of them, and projections, need to know."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oracles.estimate import Estimate, Noise

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Covariance:
    """Two shares f and g have errors of covariance flat + tilt (f + g) - c f g, c that of a sample (smp).

    flat and tilt are zero but for grr and ss, whose reports hold a fixed number of values.
    """

    noise: Noise
    flat: float
    tilt: float

    @classmethod
    def of(cls, estimate: Estimate) -> "Covariance":
        """Read off the variance of the sum of two values."""
        n, noise = estimate.n_independent, estimate.noise
        if not n:
            return cls(noise, float("nan"), float("nan"))

        def pair(share: float) -> float:
            return (estimate.oracle.set_variance(n, 2, share) - 2.0 * noise.a - noise.b * share) / 2.0

        flat = pair(0.0)
        return cls(noise, flat, pair(1.0) - flat)

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
