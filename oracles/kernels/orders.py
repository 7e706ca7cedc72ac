"""Rows in a random order, with equal probability for every order."""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from oracles.kernels import c_library
from oracles.types import Reports

KEY = 32
"""Bytes of the key of the kernel's stream. Each order has a new key."""


def can_shuffle() -> bool:
    return c_library.in_use() and hasattr(c_library.lib(), "shuffle_pieces")  # missing in a library of an older source


def shuffle(pieces: Sequence[Reports], into: Reports) -> None:
    """Fill `into` with the rows of all pieces, fewer than 2^32, in another order."""
    if can_shuffle():
        order(pieces, os.urandom(KEY), into)
        return
    # rng.permutation(rows) moves row by row and takes three times as long.
    places = np.random.default_rng().permutation(len(into))
    np.concatenate(pieces).take(places, axis=0, out=into, mode="clip")  # other modes make one more copy


def order(pieces: Sequence[Reports], key: bytes, into: Reports) -> None:
    """Fill `into` in the order of a key, by the kernel."""
    new = c_library.ffi().new
    buffers = [c_library.octet_buffer(piece) for piece in pieces]
    rows = new("uint8_t *[]", buffers)
    counts = new("size_t[]", [len(piece) for piece in pieces])
    words: Any = c_library.buffer("uint32_t[]", key)
    place: Any = c_library.octet_buffer(into)
    c_library.lib().shuffle_pieces(rows, counts, len(pieces), into.shape[1], words, place)
