"""The law of a support count, Bin(k, p) + Bin(n - k, q), by its saddlepoint: also for k and counts between integers.

Daniels 1954, "Saddlepoint approximations in statistics", with the terms of second order.
"""

import numpy as np

from oracles.types import Floats

_MOST_CORRECTION = 0.5
"""Most that the second-order terms move a logarithm. At the ends of the range they grow without limit."""
_LEAST_VARIANCE = float(np.exp(-2.0 * _MOST_CORRECTION) / (2.0 * np.pi))
"""Least variance of the tilted law. At the counts 0 and n it cancels the correction, so that these are exact."""


def log_density(c: Floats, k: Floats, *, n: float, p: float, q: float) -> Floats:
    """Return the logarithm of the density of a support count c, if k of n reports are of the value.

    >>> round(float(log_density(np.array([30.0]), np.array([20.0]), n=100, p=0.5, q=0.25)[0]), 3)
    -2.42
    """
    # At 0 and n the saddlepoint lies at infinity.
    c = np.clip(c, 1e-9, n * (1.0 - 1e-12))
    others = n - k

    # The root z > 0 of A z^2 + B z + C, in the form that loses no digits for either sign of B.
    square = p * q * (n - c)
    linear = k * (p * (1.0 - q)) + others * (q * (1.0 - p)) - c * (p * (1.0 - q) + q * (1.0 - p))
    constant = c * ((1.0 - p) * (1.0 - q))
    root = np.sqrt(linear * linear + 4.0 * square * constant)
    z = np.where(linear > 0.0, 2.0 * constant / (root + np.abs(linear)), (root - linear) / (2.0 * square))

    # Chances of a supporting report under the tilted law, and the cumulants of their sum.
    own = p * z / (1.0 - p + p * z)
    other = q * z / (1.0 - q + q * z)
    own_variance = own * (1.0 - own)
    other_variance = other * (1.0 - other)
    second = k * own_variance + others * other_variance
    third = k * own_variance * (1.0 - 2.0 * own) + others * other_variance * (1.0 - 2.0 * other)
    fourth = k * own_variance * (1.0 - 6.0 * own_variance) + others * other_variance * (1.0 - 6.0 * other_variance)

    exponent = k * np.log(1.0 - p + p * z) + others * np.log(1.0 - q + q * z) - c * np.log(z)
    correction = fourth / (8.0 * second**2) - 5.0 * third**2 / (24.0 * second**3)
    scale = 0.5 * np.log(2.0 * np.pi * np.maximum(second, _LEAST_VARIANCE))
    result: Floats = exponent - scale + np.clip(correction, -_MOST_CORRECTION, _MOST_CORRECTION)
    return result
