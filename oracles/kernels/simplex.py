"""The nearest point of the simplex, by a few of Newton's steps from a sample's solution instead of a sort."""

import numpy as np

from oracles.kernels.arrays import runs
from oracles.types import Floats

_SAMPLE = 1 << 14
_LEAST = 1e-300


def project(x: Floats, total: float = 1.0, lean: float = 0.0) -> Floats:
    """max(x - u, 0) with the level u at which its sum is total + lean * u; lean is above -1.

    Without lean it is the point nearest to x among all that are not negative and sum to `total`.

    >>> project(np.array([0.75, 0.5, -0.25]))
    array([0.625, 0.375, 0.   ])
    """
    if total <= 0.0:
        return np.zeros_like(x)
    y, largest = x, float(x.max())
    if abs(largest) > 1.0:  # only values near the largest are kept, and for those this is exact
        y, largest, total = x - largest, 0.0, max(total + lean * largest, _LEAST)
    size = len(y)
    level, highest = (largest - total) / (1.0 + lean), (size * largest - total) / (size + lean)
    if size > 4 * _SAMPLE:
        some = y[:: size // _SAMPLE].copy()
        # A level too low costs less than one too high, since the values above it hold all that matters.
        sought = 1.1 * total
        level = min(_level(some, sought * len(some) / size, 0.0, largest - sought), highest)
    level = _level(y, total, lean, level)
    above = y - level
    return np.maximum(above, 0.0, out=above)


def _level(y: Floats, total: float, lean: float, level: float) -> float:
    """The root, by steps from any level that has values above it.

    What is above a level is convex in the level: from anywhere a step ends at or below the root, and from
    there each leaves fewer values above, until the set is the right one.
    """
    before, below = len(y) + 1, False
    while True:
        above = y > level
        kept = int(np.count_nonzero(above))
        if not 0 < kept < before:
            return level
        few = y[above] if 5 * kept < len(y) else y  # gathering more costs more than passing over all
        excess = _excess(few, level) - total - lean * level
        level += excess / (kept + lean)
        if below or excess >= 0.0:
            y, before = few, kept
        below = True


def _excess(y: Floats, level: float) -> float:
    """The sum of what is above the level, in runs that stay in cache."""
    total = 0.0
    for run in runs(len(y), 8, 1 << 19):
        excess = y[run] - level
        total += float(np.maximum(excess, 0.0, out=excess).sum())
    return total
