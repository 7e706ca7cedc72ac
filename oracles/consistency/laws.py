"""Fits of the families: the law of a family whose likelihood, or whose mean and variance, are those of noisy counts."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from oracles.errors import extra
from oracles.estimate import Estimate
from oracles.kernels.curves import grid
from oracles.kernels.posterior import DIRECT_VALUES, STAIRS, distribution, moments
from oracles.kernels.priors import Gaussian, Laplace, Law, Poisson, PowerLaw
from oracles.types import Floats

LEAST_MEAN = 1e-6
"""Least mean of a Poisson law. With 0 it would be certain that no value occurs."""
_FINENESS = 30
"""Fineness of the grid for likelihoods: a tenth of s near the middle of the values."""


@dataclass(frozen=True, eq=False)
class Sample:
    """The noisy counts to which a law is fitted."""

    values: Floats
    """Noisy counts, distinct and ascending."""
    place: NDArray[np.intp]
    times: Floats
    """Number of values with each count."""
    s: float
    n: int

    @classmethod
    def of(cls, estimate: Estimate) -> Self:
        n = estimate.n
        values, place, times = np.unique(n * estimate.shares, return_inverse=True, return_counts=True)
        return cls(values, place, times.astype(np.float64), n * estimate.sigma, n)

    @property
    def size(self) -> int:
        return len(self.place)

    @cached_property
    def moments(self) -> tuple[float, float]:
        """Mean and variance of the true counts. The noise has mean 0 and variance s^2."""
        mean = float((self.times * self.values).sum()) / self.size
        spread = float((self.times * (self.values - mean) ** 2).sum()) / self.size
        return mean, spread - self.s**2

    @cached_property
    def _weights(self) -> tuple[Floats, Floats, Floats]:
        """Points, and weights of a curve's values and slopes there, that sum the curve over the sample.

        A likelihood costs one evaluation a point, however large the sample is.
        """
        values = self.values
        times = self.times
        if len(values) <= DIRECT_VALUES or self.s < STAIRS:
            return values, times, np.zeros(len(values))

        points = grid(
            float(values[0]), float(values[-1]), centre=float(np.median(values)), s=self.s, fineness=_FINENESS
        )
        i = np.clip(np.searchsorted(points, values, side="right") - 1, 0, len(points) - 2)
        width = np.diff(points)[i]
        t = (values - points[i]) / width

        def weights_at_points(left_part: Floats, right_part: Floats) -> Floats:
            ends = np.concatenate([i, i + 1])
            weights = np.concatenate([times * left_part, times * right_part])
            return np.bincount(ends, weights, len(points)).astype(np.float64)

        # Hermite's cubics, as in Curve: the two for the values at both ends, and the two for the slopes.
        rise = t * t * (3.0 - 2.0 * t)
        of_values = weights_at_points(1.0 - rise, rise)
        of_slopes = weights_at_points(width * t * (1.0 - t) ** 2, width * t * t * (t - 1.0))
        return points, of_values, of_slopes

    def log_likelihood(self, law: Law) -> float:
        points, of_values, of_slopes = self._weights
        result = moments(law, self.s, points)
        # A product of vectors rounds differently by threads and processor. Records must be the same everywhere.
        return float((of_values * result.log_density + of_slopes * ((result.mean - points) / self.s**2)).sum())

    def distance(self, law: Law) -> float:
        """Return the statistic of Kolmogorov and Smirnov."""
        fitted_law = distribution(law, self.s, self.values)
        empirical_law = np.cumsum(self.times) / self.size
        return float(
            np.maximum(empirical_law - fitted_law, fitted_law - (empirical_law - self.times / self.size)).max()
        )


def by_moments(family: str, sample: Sample) -> Law:
    """Return the law with the mean of the true counts and, if it has two parameters, with their variance."""
    n = sample.n
    mean, variance = sample.moments
    if family == "power_law":
        return _power_law(n, mean)
    if family == "poisson":
        return Poisson(n, min(max(mean, LEAST_MEAN), n))

    # In half of all flat data the noise alone is wider than the counts. A variance of 1 is that of one report.
    kind = Gaussian if family == "gaussian" else Laplace
    return kind.with_moments(n, min(max(mean, 0.0), n), max(variance, 1.0))


def _power_law(n: int, mean: float) -> PowerLaw:
    """Return the law whose exponent in [-1, 20] comes nearest to this mean."""
    with extra("stats"):
        from scipy.optimize import brentq

    # A mean below 1, as in a quarter of large noisy domains, has no power law. It gets the steepest one.
    steep = PowerLaw(n, 20.0)
    flat = PowerLaw(n, -1.0)
    if mean <= steep.mean:
        return steep
    if mean >= flat.mean:
        return flat
    return PowerLaw(n, brentq(lambda exponent: PowerLaw(n, exponent).mean - mean, -1.0, 20.0, xtol=1e-9))


def by_likelihood(family: str, sample: Sample) -> Law:
    n = sample.n
    if family == "power_law":
        exponents = np.linspace(0.0, 8.0, 9)
        return PowerLaw(n, _highest(lambda x: sample.log_likelihood(PowerLaw(n, x)), exponents))

    if family == "poisson":
        # Over logarithms, because the mean may be anything from far below 1 to n.
        points = np.log([LEAST_MEAN, *np.geomspace(1.0, n, 8), min(max(sample.moments[0], LEAST_MEAN), n)])
        return Poisson(n, float(np.exp(_highest(lambda x: sample.log_likelihood(Poisson(n, np.exp(x))), points))))
    return _two_parameters(Gaussian if family == "gaussian" else Laplace, sample)


def _two_parameters(kind: type[Gaussian] | type[Laplace], sample: Sample) -> Law:
    with extra("stats"):
        from scipy.optimize import minimize

    n = sample.n
    s = sample.s
    mean, variance = sample.moments

    # In units of s and as a logarithm both parameters are of the size of 1, as the steps of the search.
    def law(point: Floats) -> Law:
        return kind.with_moments(n, min(float(point[0]) * s, n), float(np.exp(2.0 * point[1])))

    def unlikely(point: Floats) -> float:
        return -sample.log_likelihood(law(point)) / sample.size

    result = minimize(
        unlikely,
        np.array([min(max(mean, 0.0), n) / s, np.log(max(variance, 1.0)) / 2.0]),
        method="L-BFGS-B",
        bounds=[(0.0, n / s), (0.0, float(np.log(2.0 * n)))],
        options={"eps": 1e-6, "ftol": 1e-10, "gtol": 1e-8},
    )
    return law(result.x)


def _highest(score: Callable[[float], float], points: Floats) -> float:
    """Return the point at which `score` is highest: the best of these points, or one between its neighbours."""
    with extra("stats"):
        from scipy.optimize import minimize_scalar

    points = np.unique(points)
    scores = [score(float(x)) for x in points]
    best = int(np.argmax(scores))

    # A likelihood may have several tops. The search alone would end in any of them.
    bounds = float(points[max(best - 1, 0)]), float(points[min(best + 1, len(points) - 1)])
    result = minimize_scalar(lambda x: -score(x), bounds=bounds, method="bounded", options={"xatol": 1e-6})
    return float(result.x) if -result.fun > scores[best] else float(points[best])
