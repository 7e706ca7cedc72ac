"""Columns of numbers in a record, as the decoder reads them. Anybody may have written them."""

from typing import Any

import numpy as np

from oracles.errors import ReportError
from oracles.types import Floats

_LARGEST = 1e12
"""A number that no share exceeds, with any epsilon."""
_MANY = 64
"""Most methods or sets of a record."""
_NUMBERS = {int, float, type(None)}


def by_name(items: Any, name: str) -> dict[str, Any]:
    """Return an object of few members, or raise a ReportError. `name` is that of the object."""
    if not isinstance(items, dict) or len(items) > _MANY:
        raise ReportError(f"{name} must be an object of at most {_MANY} members")
    return items


def floats(numbers: Any, count: int | None) -> Floats:
    """Return an array of numbers. None becomes NaN. Raise a ReportError if a number is too large."""
    if not isinstance(numbers, list) or not set(map(type, numbers)) <= _NUMBERS or count not in (None, len(numbers)):
        raise ReportError(f"numbers must be a list of {count}")
    # JSON has integers above every float, which NumPy refuses with an error of its own.
    try:
        array = np.array(numbers, np.float64)
    except OverflowError as error:
        raise ReportError(f"a number is larger than {_LARGEST:g}") from error
    if np.any(np.abs(array) > _LARGEST):
        raise ReportError(f"a number is larger than {_LARGEST:g}")
    return array
