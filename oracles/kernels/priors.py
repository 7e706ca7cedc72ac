"""Priors of the true counts: four families of laws on the integers up to n.

A sum over millions of integers uses a few hundred nodes. Near the corners of a law (its ends, a kink) these are
the integers themselves. Further away they are Gauss-Legendre points of panels that widen with the distance.
Their weights are positive, so the result is a true posterior, of a law that is almost identical to the exact
one.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np

from oracles.errors import extra
from oracles.types import Floats

DIGITS = 9
"""Digits of a fitted parameter."""
EXACT = 128
"""Number of integers next to a corner that are nodes themselves."""
GROWTH = 1.5
"""Ratio of the distances from the corner to the two ends of a panel."""
POINTS: Floats
WEIGHTS: Floats
POINTS, WEIGHTS = np.polynomial.legendre.leggauss(8)
"""Of a panel from -1 to 1."""


@dataclass(frozen=True)
class Corner:
    """A place around which a sum needs care."""

    place: float
    reach: float
    """Distance up to which nodes are needed, 0 if the corner is out of sight."""
    width: float
    """Width of the widest panel near it."""


def nodes(corners: Sequence[Corner]) -> tuple[Floats, Floats]:
    """Return nodes and weights that sum a function over the integers within reach of a corner.

    Corners ascend and lie half-way between integers. The function may be anything near them. Further away it
    must be smooth on the scale of the distance and of a corner's width.
    """
    pieces = []
    for lower, upper in pairwise(corners):
        distance = upper.place - lower.place
        # Two corners so near share all integers between them. Two ramps would count some twice.
        if distance <= 2 * EXACT:
            pieces.append((np.arange(lower.place + 0.5, upper.place), np.ones(int(distance))))
            continue

        meet = max(lower.reach, upper.reach) > distance / 2
        if lower.reach or meet:
            offset, weight = _ramp(distance / 2 if meet else lower.reach, lower.width)
            pieces.append((lower.place + offset, weight))
        if upper.reach or meet:
            offset, weight = _ramp(distance / 2 if meet else upper.reach, upper.width)
            pieces.append((upper.place - offset[::-1], weight[::-1]))
    return np.concatenate([points for points, _ in pieces]), np.concatenate([weight for _, weight in pieces])


def _ramp(length: float, width: float) -> tuple[Floats, Floats]:
    """Return offsets from a corner up to `length`, and weights: integers, then panels up to `width` wide."""
    integers = np.arange(EXACT, dtype=np.float64) + 0.5
    ones = np.ones(EXACT)
    if length <= EXACT:
        return integers, ones

    # A sum is the integral from half a step before the first term, plus the slope there over 24.
    ones[-2:] += -1 / 24, 1 / 24
    straight = min(max(EXACT, width / (GROWTH - 1.0)), length)
    growing_count = 1 + int(np.ceil(np.log(straight / EXACT) / np.log(GROWTH)))
    growing = EXACT * (straight / EXACT) ** np.linspace(0, 1, growing_count)
    even = np.linspace(straight, length, 1 + int(np.ceil((length - straight) / width)))
    edges = np.concatenate([growing, even[1:]])

    half: Floats = np.diff(edges)[:, None] / 2
    panels = edges[:-1, None] + half * (1.0 + POINTS)
    return np.concatenate([integers, panels.ravel()]), np.concatenate([ones, (half * WEIGHTS).ravel()])


@dataclass(frozen=True)
class Law(ABC):
    """A law of the true count of a value among `n`, normalised on `lowest`..n."""

    n: int
    lowest: ClassVar[int] = 0

    @property
    def parameters(self) -> dict[str, float]:
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name != "n"}

    def rounded(self) -> Self:
        """Return the law with rounded parameters, so that every processor finds the same ones.

        Logarithms differ between processors in the last digits.
        """
        digits: dict[str, Any] = {name: float(f"{value:.{DIGITS}g}") for name, value in self.parameters.items()}
        return replace(self, **digits)

    @abstractmethod
    def log_weight(self, k: Floats) -> Floats:
        """Return the logarithm of the probability of k, up to a constant."""

    @abstractmethod
    def window(self, y: Floats, s: float) -> tuple[Floats, Floats]:
        """Return bounds of all but 1e-15 of the posterior of the count, given y = count + N(0, s^2)."""

    @property
    @abstractmethod
    def centre(self) -> float:
        """Count near which much of the law lies."""

    @abstractmethod
    def body(self) -> tuple[float, float]:
        """Return how far the law reaches from its corners, and the width of the widest panel for it alone."""

    def kinks(self) -> list[float]:
        """Return the points within the range at which the law is not smooth."""
        return []

    def turns(self, s: float) -> list[float]:
        """Return the noisy counts around which the mean of the posterior bends."""
        del s
        return [self.lowest, self.n]

    def width(self, s: float, place: float) -> float:
        """Return the width of the widest panel near `place` on which the law times N(0, s^2) is smooth."""
        del place
        return 2.0 * s

    def corners(self, inner: Sequence[float]) -> list[float]:
        """Return the ends of the range, and the points of `inner` within it."""
        low = self.lowest - 0.5
        high = self.n + 0.5
        return sorted({low, high, *(corner for corner in inner if low < corner < high)})

    def nodes(self, widest: float = np.inf) -> tuple[Floats, Floats]:
        """Return nodes and weights that sum over the whole law, in panels that are at most so wide."""
        reach, width = self.body()
        width = min(width, widest)
        # Half-way between integers near the centre: a sharp law lies there, far from both ends.
        centre = np.floor(self.centre) + 0.5
        return nodes([Corner(place, reach, width) for place in self.corners([centre])])

    @cached_property
    def _log_total(self) -> float:
        points, weight = self.nodes()
        terms = self.log_weight(points)
        # The largest term becomes 1, or the sum of a steep law would be 0.
        top = terms.max()
        return float(top + np.log((weight * np.exp(terms - top)).sum()))

    def log_pmf(self, k: Floats) -> Floats:
        return self.log_weight(k) - self._log_total


@dataclass(frozen=True)
class PowerLaw(Law):
    """A law p(k) ~ k^-exponent on 1..n: few values are common, most are rare."""

    exponent: float
    lowest = 1

    def log_weight(self, k: Floats) -> Floats:
        return -self.exponent * np.log(k)

    def window(self, y: Floats, s: float) -> tuple[Floats, Floats]:
        """Return bounds. Below the lower one even the law's value at 1 cannot outweigh the noise."""
        nearest = np.clip(y, 1.0, self.n)
        # exp(-37) is below 1e-16, so the counts left out are beyond the last digit of a sum.
        deviations = np.sqrt(2.0 * (37.0 + max(self.exponent, 0.0) * np.log(nearest)))
        return nearest - deviations * s - 2.0, nearest + 10.0 * s + 2.0

    @property
    def centre(self) -> float:
        return 1.0

    def body(self) -> tuple[float, float]:
        return np.inf, np.inf

    @cached_property
    def mean(self) -> float:
        points, weight = self.nodes()
        return float((weight * np.exp(self.log_pmf(points)) * points).sum())


@dataclass(frozen=True)
class Gaussian(Law):
    mean: float
    sd: float

    @classmethod
    def with_moments(cls, n: int, mean: float, variance: float) -> Self:
        return cls(n, mean, float(np.sqrt(variance)))

    def log_weight(self, k: Floats) -> Floats:
        return -0.5 * ((k - self.mean) / self.sd) ** 2

    def _posterior(self, s: float) -> float:
        return s / float(np.hypot(1.0, s / self.sd))

    def window(self, y: Floats, s: float) -> tuple[Floats, Floats]:
        nearest = np.clip(y + (self.mean - y) / (1.0 + (self.sd / s) ** 2), 0.0, self.n)
        reach = 10.0 * self._posterior(s) + 2.0
        return nearest - reach, nearest + reach

    def turns(self, s: float) -> list[float]:
        # At these y the mode, y + (mean - y) / (1 + (sd/s)^2), reaches an end of the range.
        pull = (s / self.sd) ** 2
        return [-pull * self.mean, self.n + pull * (self.n - self.mean)]

    def width(self, s: float, place: float) -> float:
        del place
        return 2.0 * self._posterior(s)

    @property
    def centre(self) -> float:
        return self.mean

    def body(self) -> tuple[float, float]:
        return 10.0 * self.sd, 2.0 * self.sd


@dataclass(frozen=True)
class Laplace(Law):
    mean: float
    scale: float

    @classmethod
    def with_moments(cls, n: int, mean: float, variance: float) -> Self:
        return cls(n, mean, float(np.sqrt(variance / 2.0)))

    def log_weight(self, k: Floats) -> Floats:
        return -np.abs(k - self.mean) / self.scale

    def window(self, y: Floats, s: float) -> tuple[Floats, Floats]:
        # The law pulls a count towards its mean by at most s^2/scale, the slope of its logarithm times s^2.
        most_pull = s * s / self.scale
        nearest = np.clip(y - np.clip(y - self.mean, -most_pull, most_pull), 0.0, self.n)
        return nearest - 10.0 * s - 2.0, nearest + 10.0 * s + 2.0

    def kinks(self) -> list[float]:
        return [np.floor(self.mean) + 0.5]

    def turns(self, s: float) -> list[float]:
        pull = s * s / self.scale
        return [-pull, self.mean - pull, self.mean + pull, self.n + pull]

    @property
    def centre(self) -> float:
        return self.mean

    def body(self) -> tuple[float, float]:
        # exp(-45) is 3e-20, beyond the last digit of a sum.
        return 45.0 * self.scale, np.inf


@dataclass(frozen=True)
class Poisson(Law):
    mean: float

    def log_weight(self, k: Floats) -> Floats:
        with extra("stats"):
            from scipy.special import gammaln

        weight: Floats = k * np.log(self.mean) - gammaln(k + 1.0)
        return weight

    def window(self, y: Floats, s: float) -> tuple[Floats, Floats]:
        """Return bounds around the mode, at which log k = log mean + (y - k)/s^2."""
        with extra("stats"):
            from scipy.special import wrightomega

        mode = s * s * wrightomega(np.log(self.mean / (s * s)) + y / (s * s))
        nearest = np.clip(mode, 0.0, self.n)
        down = np.minimum(10.0 * s, np.sqrt(80.0 * nearest))
        up = np.minimum(10.0 * s, 14.0 + np.sqrt(200.0 + 80.0 * nearest))
        return nearest - down - 2.0, nearest + up + 2.0

    def turns(self, s: float) -> list[float]:
        return [0.0, self.n + s * s * float(np.log(self.n / self.mean))]

    def width(self, s: float, place: float) -> float:
        return min(2.0 * s, float(np.sqrt(max(place, EXACT))))

    @property
    def centre(self) -> float:
        return self.mean

    def body(self) -> tuple[float, float]:
        sd = float(np.sqrt(self.mean))
        return 14.0 + 10.0 * sd, max(sd, 1.0)
