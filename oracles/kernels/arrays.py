"""Passes over arrays: rows as integers, limits, slices that stay in cache, histograms."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oracles.kernels import c_library
from oracles.types import Flags, Ints, Reports


def integers(reports: Reports) -> NDArray[np.unsignedinteger]:
    """Return reports of 1, 2, 4 or 8 bytes as little-endian integers, without a copy.

    >>> integers(np.array([[1, 2]], np.uint8))
    array([513], dtype=uint16)
    """
    return reports.view(f"<u{reports.shape[1]}")[:, 0]


def above(numbers: NDArray[np.integer], limit: int) -> Flags | None:
    """Return a mask of the `numbers` that are `limit` or more, or None. A single pass if there is none."""
    # NumPy refuses to compare with a limit that the type cannot hold.
    if limit >> 8 * numbers.itemsize or int(numbers.max()) < limit:
        return None
    return numbers >= limit


def either(one: Flags | None, other: Flags | None) -> Flags | None:
    """Return a mask of the flags in one or the other. None has no flags."""
    if one is None or other is None:
        return other if one is None else one
    return one | other


SMALL_SET = 64
"""Numbers up to which a set of Python is faster than a sort by NumPy."""


class Distinct(NamedTuple):
    """The distinct numbers of an array in rising order."""

    values: NDArray[Any]
    places: Ints
    """The index of each number of the array among them."""
    times: Ints
    """How often each occurs."""


def distinct(numbers: NDArray[Any]) -> Distinct:
    """Return the distinct numbers of an array.

    >>> distinct(np.array([7, 3, 7]))
    Distinct(values=array([3, 7]), places=array([1, 0, 1]), times=array([1, 2]))
    """
    if len(numbers) > SMALL_SET:
        return Distinct(*np.unique(numbers, return_inverse=True, return_counts=True))

    items = numbers.tolist()
    order = sorted(set(items))
    place_of_item = {item: place for place, item in enumerate(order)}
    places = np.array([place_of_item[item] for item in items], np.int64)
    return Distinct(np.array(order, numbers.dtype), places, np.bincount(places, minlength=len(order)))


def runs(count: int, width: int, budget: int = 1 << 17) -> Iterator[slice]:
    """Return slices over `count` rows of `width` bytes that stay in cache. They bound all temporary arrays."""
    step = max(1, budget // max(1, width))
    return (slice(start, min(start + step, count)) for start in range(0, count, step))


def add_counts(into: Ints, indices: NDArray[np.integer]) -> None:
    """Add 1 to into[i] for each index: as a histogram if there are many, else one by one."""
    # A histogram has a pass over all of `into`, whatever the number of indices is.
    if 4 * len(indices) >= len(into):
        into += np.bincount(indices, minlength=len(into))
    else:
        np.add.at(into, indices, 1)


def add_integers(into: Ints, reports: Reports) -> None:
    """Add 1 to into[i] for each report that is an integer of 1, 2 or 4 bytes, all below len(into)."""
    if c_library.in_use():
        c_library.add_values(into, reports)
        return
    numbers = integers(reports)
    for run in runs(len(numbers), 8, 1 << 18):
        add_counts(into, numbers[run])
