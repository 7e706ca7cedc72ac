"""The bytes of integers in records: fixed fields first, then vectors in the narrowest type."""

import struct

import numpy as np
from numpy.typing import NDArray

from oracles.errors import ReportError

Counts = NDArray[np.integer]

TYPES = tuple(np.dtype(name) for name in ("<u1", "<i1", "<u2", "<i2", "<u4", "<i4", "<i8"))
"""The types from the narrowest on. A vector is written in the first type that holds all its integers."""
_RANGES = tuple((int(np.iinfo(kind).min), int(np.iinfo(kind).max)) for kind in TYPES)


def head(form: struct.Struct, data: bytes, name: str) -> tuple[int, ...]:
    """Return the fields at the start of `data`, or raise a ReportError if it is too short."""
    if len(data) < form.size:
        raise ReportError(f"a {name} of {len(data)} bytes is too short")
    return form.unpack_from(data)


def narrowest(counts: Counts) -> int:
    """Return the index of the narrowest type that holds all these integers."""
    low = 0
    high = 0
    if len(counts):
        low = 0 if counts.dtype.kind == "u" else int(np.minimum.reduce(counts))  # every type holds 0
        high = int(np.maximum.reduce(counts))

    kind = 0
    while not _RANGES[kind][0] <= low <= high <= _RANGES[kind][1]:
        kind += 1
    return kind


def is_narrowest(counts: Counts, kind: int) -> bool:
    """Whether no type narrower than `kind`, the type of these integers, holds them."""
    return kind == 0 or narrowest(counts) == kind
