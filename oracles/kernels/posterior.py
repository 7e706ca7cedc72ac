"""The true count of a value given its noisy one: exactly at any point, and fast at a million of them.

The answer depends on the noisy count alone. So it is evaluated on a grid that refines itself until
the curve through its points, with their exact slopes, predicts the next ones; and read off there.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from oracles.errors import extra
from oracles.kernels.priors import POINTS, WEIGHTS, Corner, Law, nodes
from oracles.types import Floats

FREE = 64
"""Points that sum a smooth posterior: two or more for each of its standard deviations leave an error below 1e-15."""
FEW = 200
"""So many values are evaluated one by one, which then costs less than a grid."""
STAIRS = 1.5
"""With less noise than this the answer follows the single integers, which no curve does."""
ROUNDS = 40
"""Of refining: enough to follow a step to the width of a float."""
MANY = 200_000
"""Points of a grid at most, which no prior but one of a single integer's width comes near."""
_TINY = 1e-300

Reading = Callable[["Moments"], tuple[Floats, Floats]]
"""A reading of the moments, and its slope as y moves."""


@dataclass(frozen=True)
class Moments:
    """Of the posterior at each of some points: the logarithm of the density of y there, and the law of the count."""

    log_density: Floats
    mean: Floats
    variance: Floats
    third: Floats
    """The third central moment."""
    above: Floats
    """The probability of a count above `split`."""
    mean_above: Floats
    """The part of the mean that comes from counts above `split`."""


def moments(law: Law, s: float, y: Floats, split: float | None = None) -> Moments:
    """The posterior at points y = count + N(0, s^2); `split` lies half-way between two integers."""
    corners = law.corners([*law.kinks(), *([] if split is None else [split])])
    low, high = law.window(y, s)
    free = np.searchsorted(corners, low) == np.searchsorted(corners, high)
    low, high = np.maximum(low, law.lowest), np.minimum(high, law.n)
    found = np.empty((6, len(y)))
    if free.any():
        found[:, free] = _smooth(law, s, y[free], low[free], high[free], split)
    if not free.all():
        held = ~free
        found[:, held] = _cornered(law, s, y[held], low[held], high[held], corners, split)
    return Moments(*found)


def _smooth(law: Law, s: float, y: Floats, low: Floats, high: Floats, split: float | None) -> Floats:
    """Where the window holds no corner: equidistant points, the integers themselves where they suffice."""
    low = np.ceil(low)
    step = np.maximum(1.0, (high - low) / (FREE - 1))
    found = np.empty((6, len(y)))
    for rows in _blocks(len(y), FREE):
        k = low[rows, None] + step[rows, None] * np.arange(FREE)
        weight = law.log_pmf(k) + np.log(step[rows, None])
        weight[k > high[rows, None] + 0.5] = -np.inf
        found[:, rows] = _sums(law, s, y[rows], k, weight, split)
    return found


def _cornered(
    law: Law, s: float, y: Floats, low: Floats, high: Floats, corners: list[float], split: float | None
) -> Floats:
    """Where it holds one: nodes that become dense there, shared by all points."""
    reach = float((high - low).max()) + 1.0
    seen = [bool(((low - 1.0 <= at) & (at <= high + 1.0)).any()) for at in corners]
    at, weight = nodes([Corner(at, reach * near, law.width(s, at)) for at, near in zip(corners, seen, strict=True)])
    log_weight = law.log_pmf(at) + np.log(weight)
    first, last = np.searchsorted(at, low), np.searchsorted(at, high, side="right")
    widest = int((last - first).max())
    at, log_weight = np.append(at, at[-1]), np.append(log_weight, -np.inf)
    found = np.empty((6, len(y)))
    for rows in _blocks(len(y), widest):
        index = first[rows, None] + np.arange(widest)
        index[index >= last[rows, None]] = len(at) - 1
        found[:, rows] = _sums(law, s, y[rows], at[index], log_weight[index], split)
    return found


def _sums(law: Law, s: float, y: Floats, k: Floats, log_weight: Floats, split: float | None) -> Floats:
    """The six `Moments`, for rows of points k with the logarithms of their weights in the law."""
    near = np.clip(y, law.lowest, law.n)
    # (y - k)^2 about the nearest possible count: far outside the range the squares would cancel.
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
    """Slices over rows of so many numbers each, that stay in cache."""
    step = max(1, budget // width)
    return [slice(start, start + step) for start in range(0, count, step)]


@dataclass(frozen=True)
class Curve:
    """The cubic through points with given slopes, between any two neighbours."""

    at: Floats
    value: Floats
    slope: Floats

    def __call__(self, x: Floats) -> Floats:
        width, rise = np.diff(self.at), np.diff(self.value)
        left, right = self.slope[:-1] * width, self.slope[1:] * width
        i = np.clip(np.searchsorted(self.at, x, side="right") - 1, 0, len(width) - 1)
        t = (x - self.at[i]) / width[i]
        curved = (3.0 * rise - 2.0 * left - right)[i] + t * (left + right - 2.0 * rise)[i]
        found: Floats = self.value[i] + t * (left[i] + t * curved)
        return found

    def rising(self) -> "Curve":
        """Slopes cut to what keeps a rising curve rising between its points as well (Fritsch and Carlson)."""
        value = np.maximum.accumulate(self.value)
        steepest = 3.0 * np.diff(value) / np.diff(self.at)
        limit = np.minimum(np.append(steepest, np.inf), np.append(np.inf, steepest))
        return Curve(self.at, value, np.clip(self.slope, 0.0, limit))


def refined(function: Callable[[Floats], tuple[Floats, Floats]], at: Floats, tolerance: float) -> Curve:
    """A curve of `function`, which gives values and slopes, refined wherever it missed a midpoint."""
    value, slope = function(at)
    open_ = np.arange(len(at) - 1)
    for _ in range(ROUNDS):
        middle = (at[open_] + at[open_ + 1]) / 2.0
        inside = (at[open_] < middle) & (middle < at[open_ + 1])
        open_, middle = open_[inside], middle[inside]
        there, steep = function(middle)
        missed = np.abs(Curve(at, value, slope)(middle) - there) > tolerance
        at, value, slope = (
            np.insert(old, open_ + 1, new) for old, new in ((at, middle), (value, there), (slope, steep))
        )
        left = (open_ + np.arange(len(open_)))[missed]
        open_ = np.sort(np.concatenate([left, left + 1]))
        if not 0 < len(open_) < MANY - len(at):
            break
    return Curve(at, value, slope)


def grid(low: float, high: float, centre: float, s: float, fineness: int) -> Floats:
    """Points from `low` to `high`, 3s/fineness apart around the centre and wider with the distance from it."""
    first, last = np.arcsinh((np.array([low, high]) - centre) / (3.0 * s))
    points = centre + 3.0 * s * np.sinh(np.linspace(first, last, 2 + int((last - first) * fineness)))
    points[[0, -1]] = low, high
    return points


def start(law: Law, s: float, low: float, high: float, centre: float) -> Floats:
    """A first grid, which sees every turn of the law."""
    points = [grid(low, high, centre, s, 8)]
    points += [turn + s * np.linspace(-8, 8, 33) for turn in law.turns(s)]
    inner = np.sort(np.concatenate(points))
    apart = s / 100.0  # closer together, rounding would make slopes of its own
    inner = inner[(np.diff(inner, prepend=-np.inf) > apart) & (inner > low + apart) & (inner < high - apart)]
    return np.concatenate([[low], inner, [high]])


@dataclass(frozen=True)
class Posterior:
    """The law of the true count of each value, given a law of all of them and noise of N(0, s^2)."""

    law: Law
    s: float
    values: Floats
    """Noisy counts, distinct and ascending."""

    @property
    def n(self) -> int:
        return self.law.n

    def mean(self) -> Floats:
        logs = self._read(lambda found: _logarithm(found.mean, found.variance / self.s**2), tolerance=1e-5, rising=True)
        return _ordered(np.exp(logs), self.law.lowest, self.n)

    def variance(self) -> Floats:
        logs = self._read(lambda found: _logarithm(found.variance, found.third / self.s**2), tolerance=1e-4)
        return np.exp(logs)

    def above(self, count: int) -> Floats:
        """The probability that the true count is above `count`."""
        if count < self.law.lowest:
            return np.ones(len(self.values))
        if count >= self.law.n:
            return np.zeros(len(self.values))
        chance = self._read(
            lambda found: (found.above, (found.mean_above - found.above * found.mean) / self.s**2),
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
    """Of a positive curve, with its slope: what makes errors relative."""
    value = np.maximum(value, _TINY)
    return np.log(value), slope / value


def _ordered(found: Floats, least: float, most: float) -> Floats:
    """Within its range, and rising to the last bit: neighbours may be the same up to rounding."""
    return np.clip(np.maximum.accumulate(found), least, most)


def distribution(law: Law, s: float, values: Floats) -> Floats:
    """P(y <= value) for noisy counts y, at ascending values."""
    if s < STAIRS:
        return _stairs(law, s, values)

    def log_density(y: Floats) -> tuple[Floats, Floats]:
        found = moments(law, s, y)
        return found.log_density, (found.mean - y) / s**2

    least = law.lowest - 10.0 * s
    curve = refined(log_density, start(law, s, least, max(float(values[-1]), law.lowest), law.centre), 1e-5)
    half = np.diff(curve.at)[:, None] / 2.0
    inner = np.exp(curve((curve.at[:-1, None] + half * (1.0 + POINTS)).ravel())).reshape(len(half), -1)
    total = np.concatenate([[0.0], np.cumsum((inner * half * WEIGHTS).sum(axis=1))])
    found = Curve(curve.at, total, np.exp(curve.value)).rising()(np.maximum(values, least))
    return _ordered(found, 0.0, 1.0)


def _stairs(law: Law, s: float, values: Floats) -> Floats:
    """Where noise moves a count by a few integers at most: summed over these."""
    with extra("stats"):
        from scipy.special import ndtr

    around = np.arange(-16, 17)
    k = np.arange(law.lowest, min(law.n, max(int(values[-1]), law.lowest) + 32) + 1)
    share = np.exp(law.log_pmf(k.astype(np.float64)))
    below = np.concatenate([[0.0], np.cumsum(share)])
    centre = np.floor(np.clip(values, law.lowest - 32, law.n + 32)).astype(np.int64) - law.lowest
    near = centre[:, None] + around
    within = np.where((near >= 0) & (near < len(k)), share[np.clip(near, 0, len(k) - 1)], 0.0)
    reached = ndtr((values[:, None] - law.lowest - near) / s)
    return _ordered(below[np.clip(near[:, 0], 0, len(k))] + (within * reached).sum(axis=1), 0.0, 1.0)
