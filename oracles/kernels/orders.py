"""Rows in an order drawn at random, each order as likely as any other."""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from oracles.kernels import compiled
from oracles.types import Reports

KEY = 32
"""Bytes of the key of the kernel's stream, drawn anew for each order."""


def can_shuffle() -> bool:
    return compiled.in_use() and hasattr(compiled.lib(), "shuffle_pieces")  # which a library of an older source has not


def shuffle(pieces: Sequence[Reports], into: Reports) -> None:
    """Fill `into` with the rows of all pieces, fewer than 2^32, in another order."""
    if can_shuffle():
        order(pieces, os.urandom(KEY), into)
        return
    # Not rng.permutation(rows): it moves row by row, which takes three times as long.
    places = np.random.default_rng().permutation(len(into))
    np.concatenate(pieces).take(places, axis=0, out=into, mode="clip")  # another mode would take a copy more


def order(pieces: Sequence[Reports], key: bytes, into: Reports) -> None:
    """In the order that a key stands for, by the kernel."""
    new = compiled.ffi().new
    buffers = [compiled.octet_buffer(piece) for piece in pieces]
    rows, counts = new("uint8_t *[]", buffers), new("size_t[]", [len(piece) for piece in pieces])
    words: Any = compiled.buffer("uint32_t[]", key)
    place: Any = compiled.octet_buffer(into)
    compiled.lib().shuffle_pieces(rows, counts, len(pieces), into.shape[1], words, place)
