"""Projection on the simplex, by a few of Newton's steps from a sample's solution instead of a sort."""

import numpy as np

from oracles.kernels.arrays import runs
from oracles.types import Floats

_SAMPLE = 1 << 14
_LEAST_TOTAL = 1e-300


def project(x: Floats, total: float = 1.0, lean: float = 0.0) -> Floats:
    """Return max(x - u, 0) with the level u at which its sum is total + lean * u. lean is above -1.

    Without lean it is the point nearest to x among all that are not negative and sum to `total`.

    >>> project(np.array([0.75, 0.5, -0.25]))
    array([0.625, 0.375, 0.   ])
    """
    if total <= 0.0:
        return np.zeros_like(x)
    y = x
    maximum = float(x.max())
    if abs(maximum) > 1.0:  # only values near the largest stay, and for these the shift is exact
        total = max(total + lean * maximum, _LEAST_TOTAL)
        y = x - maximum
        maximum = 0.0

    size = len(y)
    level = (maximum - total) / (1.0 + lean)
    highest = (size * maximum - total) / (size + lean)
    if size > 4 * _SAMPLE:
        sample = y[:: size // _SAMPLE].copy()
        # A level that is too low costs less: the values above it include all that count.
        target = 1.1 * total
        level = min(_level(sample, target * len(sample) / size, 0.0, maximum - target), highest)
    level = _level(y, total, lean, level)
    excess = y - level
    return np.maximum(excess, 0.0, out=excess)


def _level(y: Floats, total: float, lean: float, level: float) -> float:
    """Return the root, by steps from any level that has values above it.

    From anywhere a step ends at or below the root, because the sum above a level is convex in the level. From there
    each step leaves fewer values above, until the set is the right one.
    """
    candidates = len(y) + 1
    is_below = False
    while True:
        is_above = y > level
        count = int(np.count_nonzero(is_above))
        # The same set again has the same root, so the level is found.
        if not 0 < count < candidates:
            return level

        values = y[is_above] if 5 * count < len(y) else y  # copying more costs more than a pass over all
        excess = _excess(values, level) - total - lean * level
        level += excess / (count + lean)
        # A step from above the root can leave values out that the next one needs.
        if is_below or excess >= 0.0:
            y = values
            candidates = count
        is_below = True


def _excess(y: Floats, level: float) -> float:
    """Return the sum of the excesses above the level, in slices that stay in cache."""
    total = 0.0
    for run in runs(len(y), 8, 1 << 19):
        excess = y[run] - level
        total += float(np.maximum(excess, 0.0, out=excess).sum())
    return total
