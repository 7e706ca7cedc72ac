"""Integers as records hold them: a head of fixed fields, and vectors in the narrowest type that holds them."""

import struct

import numpy as np
from numpy.typing import NDArray

from oracles.errors import ReportError

Counts = NDArray[np.integer]

TYPES = tuple(np.dtype(name) for name in ("<u1", "<i1", "<u2", "<i2", "<u4", "<i4", "<i8"))
"""From the narrowest; the first that holds all integers of a vector is the one it is written in."""
_RANGES = tuple((int(np.iinfo(kind).min), int(np.iinfo(kind).max)) for kind in TYPES)


def head(form: struct.Struct, data: bytes, what: str) -> tuple[int, ...]:
    """The fields that `data` begins with."""
    if len(data) < form.size:
        raise ReportError(f"{len(data)} bytes are too few for a {what}")
    return form.unpack_from(data)


def narrowest(counts: Counts) -> int:
    """The index of the narrowest type that holds all of them."""
    low, high = 0, 0
    if len(counts):
        low = 0 if counts.dtype.kind == "u" else int(np.minimum.reduce(counts))  # 0 is in the range of all
        high = int(np.maximum.reduce(counts))
    kind = 0
    while not _RANGES[kind][0] <= low <= high <= _RANGES[kind][1]:
        kind += 1
    return kind


def is_narrowest(counts: Counts, kind: int) -> bool:
    """Whether these, which have the type `kind`, do not fit in a narrower one."""
    return kind == 0 or narrowest(counts) == kind
