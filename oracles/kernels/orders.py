"""Rows in an order drawn at random, each order as likely as any other."""

import os
from typing import Any

import numpy as np

from oracles.kernels import compiled
from oracles.types import Reports

KEY = 32
"""Bytes of the key of the kernel's stream, drawn anew for each order."""


def can_shuffle() -> bool:
    return compiled.in_use() and hasattr(compiled.lib(), "shuffle")  # which a library of an older source has not


def shuffled(rows: Reports) -> Reports:
    """The same rows, fewer than 2^32, in another order."""
    if can_shuffle():
        return ordered(rows, os.urandom(KEY))
    # Not rng.permutation(rows): it moves row by row, which takes three times as long.
    return rows.take(np.random.default_rng().permutation(len(rows)), axis=0)


def ordered(rows: Reports, key: bytes) -> Reports:
    """In the order that a key stands for, by the kernel."""
    found = np.empty_like(rows)
    words: Any = compiled.buffer("uint32_t[]", key)
    compiled.lib().shuffle(compiled.octet_buffer(rows), *rows.shape, words, compiled.octet_buffer(found))
    return found
