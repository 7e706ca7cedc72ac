"""Bounds of tails for every law of independent parts, from their variance and the reach of one part."""

import numpy as np

from oracles.types import Floats


def bennett(distance: Floats, variance: Floats, reach: float) -> Floats:
    """Return Bennett's bound of P(X - E X >= distance), for a sum X whose parts exceed their means by `reach` at most.

    >>> bennett(np.array([0.0, 3.0]), np.ones(2), 1.0).round(4)
    array([1.    , 0.0785])
    """
    excess = np.maximum(distance, 0.0)
    tilt = reach * excess / variance
    bound: Floats = np.exp(-variance / reach**2 * ((1.0 + tilt) * np.log1p(tilt) - tilt))
    return bound
