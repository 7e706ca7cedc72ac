"""Kernels in C, where hatch_build.py found a compiler: the same integers as NumPy's, bit for bit.

NumPy is the reference, and all that there is where they are missing. `HUBBUB_KERNELS=numpy` leaves
them aside, `numpy_alone` does for a while.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import numpy as np

from oracles.types import Ints, Reports

VARIABLE = "HUBBUB_KERNELS"
_INTERFACE = 2
"""Of oracles/kernels/source/interface.h; a library that was built from another one is not taken."""


def _found() -> Any:
    if os.environ.get(VARIABLE) == "numpy":
        return None
    try:
        found = import_module("oracles.kernels._compiled")
    except ImportError:
        return None
    return found if found.lib.INTERFACE == _INTERFACE else None


_module: Any = _found()


def in_use() -> bool:
    return _module is not None


def name() -> str:
    """Of the kernels that are used."""
    return "c" if in_use() else "numpy"


@contextmanager
def numpy_alone() -> Iterator[None]:
    """The reference in place of these, in this process, for tests and benchmarks."""
    global _module  # noqa: PLW0603 - which kernels are used is the process's
    before, _module = _module, None
    try:
        yield
    finally:
        _module = before


def add_bits(counts: Ints, rows: Reports) -> None:
    """counts[j] += the number of rows in which bit j is set."""
    size = len(counts)
    _add_bits(counts, size, rows, None, (0, size), None)


def add_plausible(counts: Ints, rows: Reports, bins: Ints, plausible: tuple[int, int], marks: Ints) -> int:
    """`add_bits` of the rows with a plausible number of ones, and marks[bins[ones]] += 1; how many have another."""
    return _add_bits(counts, len(counts), rows, bins, plausible, marks)


def _add_bits(
    counts: Ints, size: int, rows: Reports, bins: Ints | None, plausible: tuple[int, int], marks: Ints | None
) -> int:
    null = _module.ffi.NULL
    count, width = rows.shape
    levels = max(5, count.bit_length())
    scratch = np.zeros((levels + 17, -(-width // 8)), np.uint64)
    checked = (
        (null, *plausible, null)
        if bins is None or marks is None
        else (integer_buffer(bins), *plausible, integer_buffer(marks))
    )
    left_out: int = _module.lib.add_bits(
        octet_buffer(rows), count, width, integer_buffer(counts), size, *checked, buffer("uint64_t[]", scratch), levels
    )
    return left_out


def row_ones(rows: Reports) -> Ints:
    """The number of bits set in each row."""
    ones = np.empty(len(rows), np.int64)
    _module.lib.row_ones(octet_buffer(rows), *rows.shape, integer_buffer(ones))
    return ones


def add_values(counts: Ints, reports: Reports) -> None:
    """counts[v] += 1 for each report of 1, 2 or 4 bytes; none is as large as the counts are many."""
    _module.lib.add_values(octet_buffer(reports), *reports.shape, integer_buffer(counts))


def add_hashes(signs: Ints, marks: Ints, reports: Reports, hashes: int, bits: int) -> None:
    """Of every non-empty set of a report's rows, its sign at their xor; of every row its mark."""
    _module.lib.add_hashes(
        octet_buffer(reports), *reports.shape, hashes, bits, integer_buffer(signs), integer_buffer(marks)
    )


def lib() -> Any:
    """The library itself, for who asked `in_use`."""
    return _module.lib


def ffi() -> Any:
    """What makes C's own arrays."""
    return _module.ffi


def buffer(kind: str, array: Any) -> Any:
    """The memory of an array, as C wants it."""
    return _module.ffi.from_buffer(kind, array)


def octet_buffer(data: Any) -> Any:
    return buffer("uint8_t[]", data)


def integer_buffer(array: Ints) -> Any:
    return buffer("int64_t[]", array)


def size_buffer(array: Ints) -> Any:
    return buffer("size_t[]", array)
