"""The true count of a value, given its noisy count: exact at any point, and fast at a million of them.

The answer depends on the noisy count alone. It is evaluated on a grid, and read from the curve through its
points. The grid refines itself until the curve with the exact slopes predicts the next points.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from oracles.errors import extra
from oracles.kernels.priors import POINTS, WEIGHTS, Corner, Law, nodes
from oracles.types import Floats

FREE = 64
"""Points that sum a smooth posterior. Two or more for each standard deviation leave an error below 1e-15."""
FEW = 200
"""Number of values up to which single evaluations cost less than a grid."""
STAIRS = 1.5
"""Noise below which the answer follows the single integers. No curve does."""
ROUNDS = 40
"""Rounds of refinement, enough to follow a step to the width of a float."""
MANY = 200_000
"""Most points of a grid. Only a prior of a single integer's width comes near."""
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
    corners = law.corners([*law.kinks(), *([] if split is None else [split])])
    low, high = law.window(y, s)
    free = np.searchsorted(corners, low) == np.searchsorted(corners, high)
    low, high = np.maximum(low, law.lowest), np.minimum(high, law.n)
    result = np.empty((6, len(y)))
    if free.any():
        result[:, free] = _smooth(law, s, y[free], low[free], high[free], split)
    if not free.all():
        corner = ~free
        result[:, corner] = _cornered(law, s, y[corner], low[corner], high[corner], corners, split)
    return Moments(*result)


def _smooth(law: Law, s: float, y: Floats, low: Floats, high: Floats, split: float | None) -> Floats:
    """Return the moments of windows without a corner: equidistant points, or all integers if these suffice."""
    low = np.ceil(low)
    step = np.maximum(1.0, (high - low) / (FREE - 1))
    result = np.empty((6, len(y)))
    for rows in _blocks(len(y), FREE):
        k = low[rows, None] + step[rows, None] * np.arange(FREE)
        weight = law.log_pmf(k) + np.log(step[rows, None])
        weight[k > high[rows, None] + 0.5] = -np.inf
        result[:, rows] = _sums(law, s, y[rows], k, weight, split)
    return result


def _cornered(
    law: Law, s: float, y: Floats, low: Floats, high: Floats, corners: list[float], split: float | None
) -> Floats:
    """Return the moments of windows with a corner: nodes that become dense there, shared by all points."""
    reach = float((high - low).max()) + 1.0
    visible = [bool(((low - 1.0 <= at) & (at <= high + 1.0)).any()) for at in corners]
    at, weight = nodes([Corner(at, reach * near, law.width(s, at)) for at, near in zip(corners, visible, strict=True)])
    log_weight = law.log_pmf(at) + np.log(weight)
    first, last = np.searchsorted(at, low), np.searchsorted(at, high, side="right")
    widest = int((last - first).max())
    at, log_weight = np.append(at, at[-1]), np.append(log_weight, -np.inf)
    result = np.empty((6, len(y)))
    for rows in _blocks(len(y), widest):
        index = first[rows, None] + np.arange(widest)
        index[index >= last[rows, None]] = len(at) - 1
        result[:, rows] = _sums(law, s, y[rows], at[index], log_weight[index], split)
    return result


def _sums(law: Law, s: float, y: Floats, k: Floats, log_weight: Floats, split: float | None) -> Floats:
    """Return the six `Moments`, for rows of points k with the logarithms of their weights in the law."""
    near = np.clip(y, law.lowest, law.n)
    # Squares are relative to the nearest possible count. Far outside the range (y - k)^2 would cancel.
    off, away = k - near[:, None], (y - near)[:, None]
    log_weight = log_weight + off * (2.0 * away - off) / (2.0 * s * s)
    top = log_weight.max(axis=1)
    weight = np.exp(log_weight - top[:, None])
    total = weight.sum(axis=1)
    log_density = top + np.log(total) - (y - near) ** 2 / (2.0 * s * s) - np.log(s * np.sqrt(2.0 * np.pi))
    weight /= total[:, None]
    mean = np.einsum("ij,ij->i", weight, k)
    k = k - mean[:, None]
    square = weight * k * k
    if split is None:
        above = mean_above = np.zeros(len(y))
    else:
        weight[k + mean[:, None] < split] = 0.0
        above = weight.sum(axis=1)
        mean_above = np.einsum("ij,ij->i", weight, k) + above * mean
    return np.array([log_density, mean, square.sum(axis=1), np.einsum("ij,ij->i", square, k), above, mean_above])


def _blocks(count: int, width: int, budget: int = 1 << 16) -> list[slice]:
    """Return slices over rows of `width` numbers each, that stay in cache."""
    step = max(1, budget // width)
    return [slice(start, start + step) for start in range(0, count, step)]


@dataclass(frozen=True)
class Curve:
    """A cubic curve through points with given slopes, between any two neighbours."""

    at: Floats
    value: Floats
    slope: Floats

    def __call__(self, x: Floats) -> Floats:
        width, rise = np.diff(self.at), np.diff(self.value)
        first, last = self.slope[:-1] * width, self.slope[1:] * width
        i = np.clip(np.searchsorted(self.at, x, side="right") - 1, 0, len(width) - 1)
        t = (x - self.at[i]) / width[i]
        cubic = (3.0 * rise - 2.0 * first - last)[i] + t * (first + last - 2.0 * rise)[i]
        result: Floats = self.value[i] + t * (first[i] + t * cubic)
        return result

    def rising(self) -> "Curve":
        """Return the curve with slopes limited so that it rises between its points too (Fritsch and Carlson)."""
        value = np.maximum.accumulate(self.value)
        steepest = 3.0 * np.diff(value) / np.diff(self.at)
        limit = np.minimum(np.append(steepest, np.inf), np.append(np.inf, steepest))
        return Curve(self.at, value, np.clip(self.slope, 0.0, limit))


def refined(function: Callable[[Floats], tuple[Floats, Floats]], at: Floats, tolerance: float) -> Curve:
    """Return a curve of `function`, refined at every midpoint that it missed. `function` gives values and slopes."""
    value, slope = function(at)
    open_ = np.arange(len(at) - 1)
    for _ in range(ROUNDS):
        middle = (at[open_] + at[open_ + 1]) / 2.0
        inside = (at[open_] < middle) & (middle < at[open_ + 1])
        open_, middle = open_[inside], middle[inside]
        there, steep = function(middle)
        misses = np.abs(Curve(at, value, slope)(middle) - there) > tolerance
        at, value, slope = (
            np.insert(old, open_ + 1, new) for old, new in ((at, middle), (value, there), (slope, steep))
        )
        halves = (open_ + np.arange(len(open_)))[misses]
        open_ = np.sort(np.concatenate([halves, halves + 1]))
        if not 0 < len(open_) < MANY - len(at):
            break
    return Curve(at, value, slope)


def grid(low: float, high: float, centre: float, s: float, fineness: int) -> Floats:
    """Return points from `low` to `high`, 3s/fineness apart around the centre and wider with the distance from it."""
    first, last = np.arcsinh((np.array([low, high]) - centre) / (3.0 * s))
    points = centre + 3.0 * s * np.sinh(np.linspace(first, last, 2 + int((last - first) * fineness)))
    points[[0, -1]] = low, high
    return points


def start(law: Law, s: float, low: float, high: float, centre: float) -> Floats:
    """Return a first grid, which shows every turn of the law."""
    points = [grid(low, high, centre, s, 8)]
    points += [turn + s * np.linspace(-8, 8, 33) for turn in law.turns(s)]
    inner = np.sort(np.concatenate(points))
    apart = s / 100.0  # closer points would show slopes of the rounding
    inner = inner[(np.diff(inner, prepend=-np.inf) > apart) & (inner > low + apart) & (inner < high - apart)]
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
        if len(values) <= FEW or self.s < STAIRS:
            return function(values)[0]
        at = start(self.law, self.s, float(values[0]), float(values[-1]), float(np.median(values)))
        curve = refined(function, at, tolerance)
        return (curve.rising() if rising else curve)(values)


def _logarithm(value: Floats, slope: Floats) -> tuple[Floats, Floats]:
    """Return the logarithm of a positive curve and its slope, so that errors are relative."""
    value = np.maximum(value, _TINY)
    return np.log(value), slope / value


def _ordered(result: Floats, least: float, most: float) -> Floats:
    """Limit values to their range, and make them rise to the last bit: rounding can swap neighbours."""
    return np.clip(np.maximum.accumulate(result), least, most)


def distribution(law: Law, s: float, values: Floats) -> Floats:
    """Return P(y <= value) for noisy counts y, at ascending values."""
    if s < STAIRS:
        return _stairs(law, s, values)

    def log_density(y: Floats) -> tuple[Floats, Floats]:
        result = moments(law, s, y)
        return result.log_density, (result.mean - y) / s**2

    least = law.lowest - 10.0 * s
    curve = refined(log_density, start(law, s, least, max(float(values[-1]), law.lowest), law.centre), 1e-5)
    half = np.diff(curve.at)[:, None] / 2.0
    inner = np.exp(curve((curve.at[:-1, None] + half * (1.0 + POINTS)).ravel())).reshape(len(half), -1)
    total = np.concatenate([[0.0], np.cumsum((inner * half * WEIGHTS).sum(axis=1))])
    result = Curve(curve.at, total, np.exp(curve.value)).rising()(np.maximum(values, least))
    return _ordered(result, 0.0, 1.0)


def _stairs(law: Law, s: float, values: Floats) -> Floats:
    """Return the distribution by a sum, if noise moves a count by a few integers at most."""
    with extra("stats"):
        from scipy.special import ndtr

    around = np.arange(-16, 17)
    k = np.arange(law.lowest, min(law.n, max(int(values[-1]), law.lowest) + 32) + 1)
    share = np.exp(law.log_pmf(k.astype(np.float64)))
    below = np.concatenate([[0.0], np.cumsum(share)])
    centre = np.floor(np.clip(values, law.lowest - 32, law.n + 32)).astype(np.int64) - law.lowest
    near = centre[:, None] + around
    within = np.where((near >= 0) & (near < len(k)), share[np.clip(near, 0, len(k) - 1)], 0.0)
    reach = ndtr((values[:, None] - law.lowest - near) / s)
    return _ordered(below[np.clip(near[:, 0], 0, len(k))] + (within * reach).sum(axis=1), 0.0, 1.0)
