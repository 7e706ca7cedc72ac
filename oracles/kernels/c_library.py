"""Kernels in C, if hatch_build.py found a compiler. They give the same integers as NumPy, bit for bit.

NumPy is the reference, and the only kernels without the library. `HUBBUB_KERNELS=numpy` turns the library off,
and `numpy_alone` does so for a while.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from oracles.types import Flags, Ints, Reports

VARIABLE = "HUBBUB_KERNELS"
_INTERFACE = 7
"""Version of oracles/kernels/source/interface.h. A library of another version is ignored."""


def _load() -> Any:
    if os.environ.get(VARIABLE) == "numpy":
        return None
    try:
        library = import_module("oracles.kernels._compiled")
    except ImportError:
        return None
    return library if library.lib.INTERFACE == _INTERFACE else None


_module: Any = _load()


def in_use() -> bool:
    return _module is not None


def reason() -> str:
    """Return why NumPy counts, with the remedy, or an empty text if the library is in use."""
    if in_use():
        return ""
    if os.environ.get(VARIABLE) == "numpy":
        return f"{VARIABLE}=numpy turns the kernels in C off"
    if find_spec("oracles.kernels._compiled") is None:
        return "this installation has no kernels in C; install a wheel of a release, or build with a C compiler"
    if find_spec("_cffi_backend") is None:
        return "package cffi is not installed; run: pip install cffi"
    return "the kernels in C are of another version or another machine; install hubbub again"


def name() -> str:
    """Return the name of the kernels in use."""
    return "c" if in_use() else "numpy"


@contextmanager
def numpy_alone() -> Iterator[None]:
    """Turn the library off in this process for a while, for tests and benchmarks."""
    global _module  # noqa: PLW0603 - the kernels are a choice of the process
    library = _module
    _module = None
    try:
        yield
    finally:
        _module = library


def add_bits(counts: Ints, rows: Reports) -> None:
    """Add to counts[j] the number of rows in which bit j is 1."""
    size = len(counts)
    _add_bits(counts, size, rows, None, (0, size), None)


def add_plausible(counts: Ints, rows: Reports, bins: Ints, plausible: tuple[int, int], marks: Ints) -> int:
    """Add the rows with a plausible number of ones, and mark them: marks[bins[ones]] += 1.

    Return the number of rows that are implausible.
    """
    return _add_bits(counts, len(counts), rows, bins, plausible, marks)


def _add_bits(
    counts: Ints, size: int, rows: Reports, bins: Ints | None, plausible: tuple[int, int], marks: Ints | None
) -> int:
    null = _module.ffi.NULL
    count, width = rows.shape
    # The kernel keeps its sums in this memory and adds to them, so it must be zero.
    scratch = np.zeros(_module.lib.bits_scratch(count, width), np.uint8)

    left_out: int = _module.lib.add_bits(
        octet_buffer(rows),
        count,
        width,
        integer_buffer(counts),
        size,
        null if bins is None else integer_buffer(bins),
        *plausible,
        null if marks is None else integer_buffer(marks),
        octet_buffer(scratch),
        vector_bits(),
    )
    return left_out


@cache
def vector_bits() -> int:
    """Return the number of bits of this processor's widest vectors of which the library has kernels."""
    bits: int = _module.lib.vector_bits()
    return bits


def row_ones(rows: Reports) -> Ints:
    """Return the number of ones in each row."""
    ones = np.empty(len(rows), np.int64)
    _module.lib.row_ones(octet_buffer(rows), *rows.shape, integer_buffer(ones))
    return ones


def add_values(counts: Ints, reports: Reports) -> None:
    """Add 1 to counts[v] for each report of 1, 2 or 4 bytes. Every report must be below len(counts)."""
    # The kernel checks no index. A malformed report would write beyond the array.
    _module.lib.add_values(octet_buffer(reports), *reports.shape, integer_buffer(counts))


def add_hashes(signs: Ints, marks: Ints, reports: Reports, hashes: int, bits: int) -> None:
    """Add the sign of every non-empty set of a report's rows at their xor, and the mark of every row."""
    _module.lib.add_hashes(
        octet_buffer(reports), *reports.shape, hashes, bits, integer_buffer(signs), integer_buffer(marks)
    )


def add_short(signs: Ints, marks: Ints, reports: Reports, hashes: int, bits: int, polynomial: int) -> None:
    """Add reports like `add_hashes`, with rows that two words of a report give."""
    _module.lib.add_short(
        octet_buffer(reports), *reports.shape, hashes, bits, polynomial, integer_buffer(signs), integer_buffer(marks)
    )


def add_subsets(
    signs: Ints,
    marks: Ints,
    reports: Reports,
    *,
    rows: tuple[int, int],
    polynomial: int,
    table: Ints,
    head: int,
) -> None:
    """Add the signs of all buckets of each report's subset at every xor of its rows, and the mark of the first row.

    `rows` has the number of rows and their bits. `polynomial` is 0 if the words are the rows. Row i of `table` has
    C(s, i + 1) for every s. The rank of the subset is in the first `head` bits of a report.
    """
    # The kernel checks no rank. A malformed report would name a bucket that does not exist.
    arrays = integer_buffer(signs), integer_buffer(marks)
    subsets = integer_buffer(table), len(table), head
    _module.lib.add_subsets(octet_buffer(reports), *reports.shape, *rows, polynomial, *subsets, *arrays)


def add_codes(
    counts: Ints, marks: Ints, reports: Reports, *, hashes: int, table: Ints, head: int, field: tuple[Ints, Ints]
) -> None:
    """Count the two codes of each bucket of each report's subset. `field` has powers and logarithms of a generator."""
    arrays = integer_buffer(counts), integer_buffer(marks)
    subsets = integer_buffer(table), len(table), head
    powers_and_logs = (integer_buffer(part) for part in field)
    _module.lib.add_codes(octet_buffer(reports), *reports.shape, hashes, *subsets, *powers_and_logs, *arrays)


def find_dependent(reports: Reports, hashes: int, bits: int) -> Flags:
    """Return a mask of the reports, of at most 8 bytes, whose rows are linearly dependent."""
    flags = np.empty(len(reports), np.uint8)
    _module.lib.find_dependent(octet_buffer(reports), *reports.shape, hashes, bits, octet_buffer(flags))
    return flags.view(np.bool_)


def lib() -> Any:
    """Return the library. Call it only if `in_use`."""
    return _module.lib


def ffi() -> Any:
    """Return cffi's interface, which makes C arrays."""
    return _module.ffi


def buffer(kind: str, array: Any) -> Any:
    """Return the memory of an array as a C array."""
    return _module.ffi.from_buffer(kind, array)


def octet_buffer(data: Any) -> Any:
    return buffer("uint8_t[]", data)


def integer_buffer(array: Ints) -> Any:
    return buffer("int64_t[]", array)


def size_buffer(array: Ints) -> Any:
    return buffer("size_t[]", array)
