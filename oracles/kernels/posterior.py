"""The true count of a value, given its noisy count: exact at any point, and fast at a million of them.

The answer depends on the noisy count alone. It is evaluated on a grid, and read from the curve through its
points. The grid refines itself until the curve with the exact slopes predicts the next points.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from oracles.errors import extra
from oracles.kernels.curves import Curve, grid, refined
from oracles.kernels.priors import POINTS, WEIGHTS, Corner, Law, nodes
from oracles.types import Floats

FREE = 64
"""Points that sum a smooth posterior. Two or more for each standard deviation leave an error below 1e-15."""
DIRECT_VALUES = 200
"""Number of values up to which single evaluations cost less than a grid."""
STAIRS = 1.5
"""Noise below which the answer follows the single integers. No curve does."""
_TINY = 1e-300

Reading = Callable[["Moments"], tuple[Floats, Floats]]
"""A reading of the moments, and its slope in y."""


@dataclass(frozen=True)
class Moments:
    """The log-density of y at some points, and the law of the count in the posterior."""

    log_density: Floats
    mean: Floats
    variance: Floats
    third: Floats
    """Third central moment."""
    above: Floats
    """Probability of a count above `split`."""
    mean_above: Floats
    """Part of the mean from counts above `split`."""


def moments(law: Law, s: float, y: Floats, split: float | None = None) -> Moments:
    """Return the posterior at points y = count + N(0, s^2). `split` lies half-way between two integers."""
    inner = law.kinks()
    if split is not None:
        inner.append(split)
    corners = law.corners(inner)
    low, high = law.window(y, s)

    # A sum by steps needs a smooth law. Across a kink or an end it would miss half a term.
    is_smooth = np.searchsorted(corners, low) == np.searchsorted(corners, high)
    low = np.maximum(low, law.lowest)
    high = np.minimum(high, law.n)

    result = np.empty((6, len(y)))
    if is_smooth.any():
        result[:, is_smooth] = _smooth(law, s, y[is_smooth], low=low[is_smooth], high=high[is_smooth], split=split)
    if not is_smooth.all():
        has_corner = ~is_smooth
        result[:, has_corner] = _cornered(
            law, s, y[has_corner], low=low[has_corner], high=high[has_corner], corners=corners, split=split
        )
    return Moments(*result)


def _smooth(law: Law, s: float, y: Floats, *, low: Floats, high: Floats, split: float | None) -> Floats:
    """Return the moments of windows without a corner: equidistant points, or all integers if these suffice."""
    low = np.ceil(low)
    # A step below 1 would count integers twice. At 1 the sum is over the integers themselves.
    step = np.maximum(1.0, (high - low) / (FREE - 1))

    result = np.empty((6, len(y)))
    for rows in _blocks(len(y), FREE):
        k = low[rows, None] + step[rows, None] * np.arange(FREE)
        weight = law.log_pmf(k) + np.log(step[rows, None])
        # Half an integer of tolerance: the last point is `high` up to rounding.
        weight[k > high[rows, None] + 0.5] = -np.inf
        result[:, rows] = _sums(law, s, y[rows], k=k, log_weight=weight, split=split)
    return result


def _cornered(
    law: Law, s: float, y: Floats, *, low: Floats, high: Floats, corners: list[float], split: float | None
) -> Floats:
    """Return the moments of windows with a corner: nodes that become dense there, shared by all points."""
    # Without the 1.0 the nodes could end before the last integer of the widest window.
    reach = float((high - low).max()) + 1.0
    places = []
    for corner in corners:
        is_visible = bool(((low - 1.0 <= corner) & (corner <= high + 1.0)).any())
        places.append(Corner(corner, reach * is_visible, law.width(s, corner)))
    points, weight = nodes(places)
    log_weight = law.log_pmf(points) + np.log(weight)

    # Windows are of unequal length. The spare places of a row point at one more node, which weighs nothing.
    starts = np.searchsorted(points, low)
    ends = np.searchsorted(points, high, side="right")
    widest = int((ends - starts).max())
    points = np.append(points, points[-1])
    log_weight = np.append(log_weight, -np.inf)

    result = np.empty((6, len(y)))
    for rows in _blocks(len(y), widest):
        index = starts[rows, None] + np.arange(widest)
        index[index >= ends[rows, None]] = len(points) - 1
        result[:, rows] = _sums(law, s, y[rows], k=points[index], log_weight=log_weight[index], split=split)
    return result


def _sums(law: Law, s: float, y: Floats, *, k: Floats, log_weight: Floats, split: float | None) -> Floats:
    """Return the six `Moments`, for rows of points k with the logarithms of their weights in the law."""
    # Squares are relative to the nearest possible count. Far outside the range (y - k)^2 would cancel.
    nearest = np.clip(y, law.lowest, law.n)
    offset = k - nearest[:, None]
    excess = (y - nearest)[:, None]
    log_weight = log_weight + offset * (2.0 * excess - offset) / (2.0 * s * s)

    # The largest term becomes 1, or all weights far in the tail would be 0.
    top = log_weight.max(axis=1)
    weight = np.exp(log_weight - top[:, None])
    total = weight.sum(axis=1)
    log_density = top + np.log(total) - (y - nearest) ** 2 / (2.0 * s * s) - np.log(s * np.sqrt(2.0 * np.pi))

    # Moments about the mean, since E[k^2] - E[k]^2 would cancel for large counts.
    weight /= total[:, None]
    mean = np.einsum("ij,ij->i", weight, k)
    k = k - mean[:, None]
    square = weight * k * k

    probability = np.zeros(len(y))
    partial_mean = probability
    if split is not None:
        weight[k + mean[:, None] < split] = 0.0
        probability = weight.sum(axis=1)
        partial_mean = np.einsum("ij,ij->i", weight, k) + probability * mean
    return np.array(
        [log_density, mean, square.sum(axis=1), np.einsum("ij,ij->i", square, k), probability, partial_mean]
    )


def _blocks(count: int, width: int, budget: int = 1 << 16) -> list[slice]:
    """Return slices over rows of `width` numbers each, that stay in cache."""
    step = max(1, budget // width)
    return [slice(start, start + step) for start in range(0, count, step)]


def start(law: Law, s: float, low: float, high: float, centre: float) -> Floats:
    """Return a first grid, which shows every turn of the law."""
    points = [grid(low, high, centre=centre, s=s, fineness=8)]
    points += [turn + s * np.linspace(-8, 8, 33) for turn in law.turns(s)]
    inner = np.sort(np.concatenate(points))

    distance = s / 100.0  # closer points would show slopes of the rounding
    inner = inner[(np.diff(inner, prepend=-np.inf) > distance) & (inner > low + distance) & (inner < high - distance)]
    return np.concatenate([[low], inner, [high]])


@dataclass(frozen=True)
class Posterior:
    """The law of the true count of each value, under a law of all true counts and noise of N(0, s^2)."""

    law: Law
    s: float
    values: Floats
    """Noisy counts, distinct and ascending."""

    @property
    def n(self) -> int:
        return self.law.n

    def mean(self) -> Floats:
        logs = self._read(
            lambda result: _logarithm(result.mean, result.variance / self.s**2), tolerance=1e-5, rising=True
        )
        return _ordered(np.exp(logs), self.law.lowest, self.n)

    def variance(self) -> Floats:
        logs = self._read(lambda result: _logarithm(result.variance, result.third / self.s**2), tolerance=1e-4)
        return np.exp(logs)

    def above(self, count: int) -> Floats:
        """Return the probability that the true count is above `count`."""
        if count < self.law.lowest:
            return np.ones(len(self.values))
        if count >= self.law.n:
            return np.zeros(len(self.values))
        chance = self._read(
            lambda result: (result.above, (result.mean_above - result.above * result.mean) / self.s**2),
            tolerance=1e-5,
            rising=True,
            split=count + 0.5,
        )
        return _ordered(chance, 0.0, 1.0)

    def _read(self, reading: Reading, tolerance: float, *, rising: bool = False, split: float | None = None) -> Floats:
        def function(y: Floats) -> tuple[Floats, Floats]:
            return reading(moments(self.law, self.s, y, split))

        values = self.values
        if len(values) <= DIRECT_VALUES or self.s < STAIRS:
            return function(values)[0]

        low = float(values[0])
        high = float(values[-1])
        points = start(self.law, self.s, low=low, high=high, centre=float(np.median(values)))
        curve = refined(function, points, tolerance)
        return (curve.rising() if rising else curve)(values)


def _logarithm(value: Floats, slope: Floats) -> tuple[Floats, Floats]:
    """Return the logarithm of a positive curve and its slope, so that errors are relative."""
    # A variance can be 0 up to rounding. Its logarithm would spread NaN over the curve.
    value = np.maximum(value, _TINY)
    return np.log(value), slope / value


def _ordered(result: Floats, minimum: float, maximum: float) -> Floats:
    """Limit values to their range, and make them rise to the last bit: rounding can swap neighbours."""
    return np.clip(np.maximum.accumulate(result), minimum, maximum)


def distribution(law: Law, s: float, values: Floats) -> Floats:
    """Return P(y <= value) for noisy counts y, at ascending values."""
    if s < STAIRS:
        return _stairs(law, s, values)

    def log_density(y: Floats) -> tuple[Floats, Floats]:
        result = moments(law, s, y)
        return result.log_density, (result.mean - y) / s**2

    minimum = law.lowest - 10.0 * s
    maximum = max(float(values[-1]), law.lowest)
    points = start(law, s, low=minimum, high=maximum, centre=law.centre)
    curve = refined(log_density, points, 1e-5)

    # The logarithm of the density is the cubic. Its exponential is integrated by eight Gauss points a piece.
    half = np.diff(curve.points)[:, None] / 2.0
    inner = np.exp(curve((curve.points[:-1, None] + half * (1.0 + POINTS)).ravel())).reshape(len(half), -1)
    total = np.concatenate([[0.0], np.cumsum((inner * half * WEIGHTS).sum(axis=1))])
    result = Curve(curve.points, total, np.exp(curve.values)).rising()(np.maximum(values, minimum))
    return _ordered(result, 0.0, 1.0)


def _stairs(law: Law, s: float, values: Floats) -> Floats:
    """Return the distribution by a sum, if noise moves a count by a few integers at most."""
    with extra("stats"):
        from scipy.special import ndtr

    # Noise is below 1.5, so 16 integers on either side are more than ten of its standard deviations.
    offsets = np.arange(-16, 17)
    k = np.arange(law.lowest, min(law.n, max(int(values[-1]), law.lowest) + 32) + 1)
    share = np.exp(law.log_pmf(k.astype(np.float64)))
    cumulative = np.concatenate([[0.0], np.cumsum(share)])

    centre = np.floor(np.clip(values, law.lowest - 32, law.n + 32)).astype(np.int64) - law.lowest
    integers = centre[:, None] + offsets
    weights = np.where((integers >= 0) & (integers < len(k)), share[np.clip(integers, 0, len(k) - 1)], 0.0)
    reach = ndtr((values[:, None] - law.lowest - integers) / s)
    return _ordered(cumulative[np.clip(integers[:, 0], 0, len(k))] + (weights * reach).sum(axis=1), 0.0, 1.0)
