"""Bounds of tails that hold whatever the law: of independent parts, by their variance and how far one can reach."""

import numpy as np

from oracles.types import Floats


def bennett(distance: Floats, variance: Floats, reach: float) -> Floats:
    """Bennett's bound of P(X - E X >= distance), X the sum of parts that exceed their means by at most `reach`.

    >>> bennett(np.array([0.0, 3.0]), np.ones(2), 1.0).round(4)
    array([1.    , 0.0785])
    """
    ahead = np.maximum(distance, 0.0)
    tilt = reach * ahead / variance
    bound: Floats = np.exp(-variance / reach**2 * ((1.0 + tilt) * np.log1p(tilt) - tilt))
    return bound
