"""Passes over arrays: rows as integers, those above a limit, runs that stay in cache, histograms."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from oracles.kernels import compiled
from oracles.types import Flags, Ints, Reports


def integers(reports: Reports) -> NDArray[np.unsignedinteger]:
    """Reports of 1, 2, 4 or 8 bytes as little-endian integers, without a copy.

    >>> integers(np.array([[1, 2]], np.uint8))
    array([513], dtype=uint16)
    """
    return reports.view(f"<u{reports.shape[1]}")[:, 0]


def above(numbers: NDArray[np.integer], limit: int) -> Flags | None:
    """Which of `numbers` are `limit` or more, or None: a single pass where all is well."""
    if limit >> 8 * numbers.itemsize or int(numbers.max()) < limit:
        return None
    return numbers >= limit


def either(one: Flags | None, other: Flags | None) -> Flags | None:
    """Where one or the other is set; None is set nowhere."""
    if one is None or other is None:
        return other if one is None else one
    return one | other


def runs(count: int, width: int, budget: int = 1 << 17) -> Iterator[slice]:
    """Slices over `count` rows of `width` bytes that stay in cache: what bounds every temporary."""
    step = max(1, budget // max(1, width))
    return (slice(start, min(start + step, count)) for start in range(0, count, step))


def add_counts(into: Ints, indices: NDArray[np.integer]) -> None:
    """into[i] += 1 for each index: a histogram where many fall on few, else one by one."""
    if 4 * len(indices) >= len(into):
        into += np.bincount(indices, minlength=len(into))
    else:
        np.add.at(into, indices, 1)


def add_integers(into: Ints, reports: Reports) -> None:
    """into[i] += 1 for each report that is an integer of 1, 2 or 4 bytes; none is as large as `into` is long."""
    if compiled.in_use():
        compiled.add_values(into, reports)
        return
    said = integers(reports)
    for run in runs(len(said), 8, 1 << 18):
        add_counts(into, said[run])
