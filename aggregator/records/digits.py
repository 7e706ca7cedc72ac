"""Rounding to seven significant digits. Mathematical libraries differ between processors after the fifteenth digit.

Numbers on a scale far from zero have more digits, so that its bins can be told apart.
"""

import math
from functools import lru_cache

import numpy as np

from oracles.numbers import Scale
from oracles.types import Floats

DIGITS = 7
_MOST_DIGITS = 15
_LEAST = 1e-15
_MOST = 1e15
_POWERS = np.array([float(f"1e{power}") for power in range(23)])
"""Exact powers of ten. An integer divided by one of them is the nearest float to that decimal."""


@lru_cache(maxsize=256)
def digits_of(scale: Scale) -> int:
    """Return the digits of a number on a scale: two more than tell its bins apart, and at least seven.

    >>> digits_of(Scale(0.0, 60_000.0, 65_536)), digits_of(Scale(1.7e9, 1.7e9 + 86_400.0, 1024))
    (7, 10)
    """
    with np.errstate(divide="ignore", invalid="ignore"):  # edges can be equal if floats cannot tell them apart
        widths_from_zero = np.nanmax(np.abs(scale.edges[1:]) / np.diff(scale.edges))
    # Beyond 15 digits the text of a float depends on the processor's library.
    return min(max(DIGITS, len(str(int(min(widths_from_zero, _MOST)))) + 2), _MOST_DIGITS)


def nan_to_none(number: float) -> float | None:
    return number if number == number else None  # noqa: PLR0124 - only NaN differs from itself


def rounded(number: float | None, digits: int = DIGITS) -> float | None:
    """Return a number with seven digits, or as many as given, or None for NaN.

    >>> rounded(0.123456789), rounded(None)
    (0.1234568, None)
    """
    return None if number is None or not math.isfinite(number) else float(f"{number:.{digits}g}")


def all_rounded(numbers: Floats) -> Floats:
    """Return many numbers with seven digits. NaN stays NaN.

    >>> all_rounded(np.array([2 / 3, -1234567.89, 0.0, math.nan]))
    array([ 6.666667e-01, -1.234568e+06,  0.000000e+00,           nan])
    """
    # Exact powers of ten end at 22, so the fast way is right for usual sizes only. Zero has no logarithm.
    size = np.abs(numbers)
    is_usual = (size > _LEAST) & (size < _MOST)
    inputs = np.where(is_usual, numbers, 1.0)
    places = DIGITS - 1 - np.floor(np.log10(np.abs(inputs))).astype(np.int64)
    # A division by an exact power gives the nearest float. A product with 1e-7 would not, since 1e-7 is not exact.
    power = _POWERS[np.abs(places)]
    results = np.where(places >= 0, np.rint(inputs * power) / power, np.rint(inputs / power) * power)
    rounded_numbers = np.where(is_usual, results, numbers)

    is_unusual = ~is_usual & np.isfinite(numbers) & (numbers != 0.0)
    if is_unusual.any():
        rounded_numbers[is_unusual] = [float(f"{number:.{DIGITS}g}") for number in numbers[is_unusual].tolist()]
    return rounded_numbers
