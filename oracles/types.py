"""Types and limits of the arrays and numbers of the mathematics, and checks of them."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oracles.errors import ParameterError, ReportError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
Reports = NDArray[np.uint8]
"""One report in each row: shape (n, width)."""
Rows = Ints | None
"""Draws that do not depend on the value, one row for each client. None if the oracle draws nothing first."""

MARKS = 64
"""Number of counts at the end of every tally that reveal poisoning."""
MAX_EPSILON = 16.0
MAX_SIZE = 1 << 32
MAX_WIDTH = 65_535
"""Bytes of the longest report. The header of a frame has two bytes for it."""


def usable_epsilon(epsilon: float) -> float:
    """Return `epsilon` as a float, or raise ParameterError unless it is above 0 and at most 16."""
    if isinstance(epsilon, bool) or not isinstance(epsilon, int | float) or not 0.0 < epsilon <= MAX_EPSILON:
        raise ParameterError(f"epsilon must be a number above 0 and at most {MAX_EPSILON:g}, got {epsilon!r}")
    return float(epsilon)


def usable_size(size: int) -> int:
    """Return `size` as an int, or raise ParameterError unless a domain can have that many values."""
    size = whole_number("size", size)
    if not 2 <= size <= MAX_SIZE:
        raise ParameterError(f"size must be between 2 and {MAX_SIZE}, got {size}")
    return size


def whole_number(name: str, number: int) -> int:
    """Return `number` as an int, or raise ParameterError unless it is a whole number of at least 0."""
    if isinstance(number, bool | np.bool_) or not isinstance(number, int | np.integer) or number < 0:
        raise ParameterError(f"{name} must be a whole number of at least 0, got {number!r}")
    return int(number)


def positions(values: ArrayLike, size: int) -> Ints:
    """Return values as positions in a domain of `size`, or raise ReportError if one is not."""
    array = np.asarray(values)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise ReportError(f"values must be a list of integers, got {array.ndim} dimension(s) of {array.dtype}")
    if array.size and (array.min() < 0 or array.max() >= size):
        index = int(np.argmax((array < 0) | (array >= size)))
        raise ReportError(f"value {array[index]} at index {index} is outside 0..{size - 1}", index)
    return array.astype(np.int64)
