"""Types and limits of the arrays and numbers that the mathematics takes, and the refusal of all others."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oracles.errors import ParameterError, ReportError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
Reports = NDArray[np.uint8]
"""A report a row: shape (n, width)."""
Rows = Ints | None
"""Draws of clients, whatever their values are, a row each; None where an oracle draws nothing first."""

MARKS = 64
"""Counts at the end of every tally that show poisoning."""
MAX_EPSILON = 16.0
MAX_SIZE = 1 << 32
MAX_WIDTH = 65_535
"""Bytes a report; a frame's header has two bytes for it."""


def usable_epsilon(epsilon: float) -> float:
    """`epsilon` as a float, refused unless it is above 0 and at most 16."""
    if isinstance(epsilon, bool) or not isinstance(epsilon, int | float) or not 0.0 < epsilon <= MAX_EPSILON:
        raise ParameterError(f"epsilon must be a number above 0 and at most {MAX_EPSILON:g}, got {epsilon!r}")
    return float(epsilon)


def usable_size(size: int) -> int:
    """`size` as an int, refused unless a domain can have so many values."""
    size = whole_number("size", size)
    if not 2 <= size <= MAX_SIZE:
        raise ParameterError(f"size must be between 2 and {MAX_SIZE}, got {size}")
    return size


def whole_number(what: str, number: int) -> int:
    """`number` as an int, refused unless it is a whole number of at least zero."""
    if isinstance(number, bool | np.bool_) or not isinstance(number, int | np.integer) or number < 0:
        raise ParameterError(f"{what} must be a whole number of at least 0, got {number!r}")
    return int(number)


def positions(values: ArrayLike, size: int) -> Ints:
    """Values as positions in a domain of `size`, refused where they are anything else."""
    array = np.asarray(values)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise ReportError(f"values are a list of integers, got {array.ndim} dimension(s) of {array.dtype}")
    if array.size and (array.min() < 0 or array.max() >= size):
        wrong = int(np.argmax((array < 0) | (array >= size)))
        raise ReportError(f"value {array[wrong]} at {wrong} is outside 0..{size - 1}", wrong)
    return array.astype(np.int64)
