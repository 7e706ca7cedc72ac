"""Counts of ones in each column of many packed rows, by carry-save addition, and in each row.

Nearly all of the counting is done before a bit is unpacked, because five bitwise operations turn three rows of equal
weight into one row of sums and one row of carries, at every width.
"""

import numpy as np
from numpy.typing import NDArray

from oracles.kernels import c_library

BitRows = NDArray[np.uint8]
"""Rows of bits, eight bits in a byte."""

_SLAB = 3 << 15
"""Bytes of one addition. With its sums and carries this stays in a core's cache."""
_UNPACKED_ROWS = 64
"""Rows below which unpacking is cheaper than further addition. Their sum fits a byte."""


def column_counts(rows: BitRows) -> NDArray[np.int64]:
    """Return the number of rows in which each bit is 1. Bit j of byte i is column 8 i + j.

    >>> column_counts(np.array([[5], [4]], np.uint8))
    array([1, 0, 2, 0, 0, 0, 0, 0])
    """
    counts = np.zeros(8 * rows.shape[1], np.int64)
    if c_library.in_use():
        c_library.add_bits(counts, rows)
        return counts

    levels = _carry_save(rows)
    for weight, level in enumerate(levels):
        remaining = np.concatenate(level) if len(level) > 1 else level[0]
        carries = []
        while len(remaining) > _UNPACKED_ROWS:
            third = len(remaining) // 3
            total = remaining[2 * third :].copy()
            half = np.empty_like(remaining[:third])
            carry = np.empty_like(remaining[:third])
            _fold(total[:third], remaining[:third], remaining[third : 2 * third], half=half, carry=carry)
            carries.append(carry)
            remaining = total

        # Two carries of one level weigh as one of the next.
        if carries and weight + 1 == len(levels):
            levels.append([])
        if carries:
            levels[weight + 1] += carries
        bits = np.unpackbits(remaining, axis=1, bitorder="little")
        counts += np.add.reduce(bits, axis=0, dtype=np.uint8).astype(np.int64) << weight
    return counts


def row_counts(rows: BitRows) -> NDArray[np.int64]:
    """Return the number of ones in each row."""
    if c_library.in_use():
        return c_library.row_ones(rows)

    # Words of 64 bits are counted eight times as fast as bytes. The last bytes are no whole word.
    in_words = rows.shape[1] // 8 * 8
    counts = np.zeros(len(rows), np.float32)
    if in_words:
        counts += _row_sums(np.bitwise_count(rows[:, :in_words].view(np.uint64)))
    if in_words < rows.shape[1]:
        counts += _row_sums(np.bitwise_count(rows[:, in_words:]))
    return counts.astype(np.int64)


def _row_sums(counts: BitRows) -> NDArray[np.float32]:
    # A product with ones adds short rows without a call for each. Floats hold integers up to 2**24.
    # Some kernels of BLAS also multiply what lies beside the rows, and leave the processor's flag for invalid numbers.
    with np.errstate(invalid="ignore"):
        return counts.astype(np.float32) @ np.ones(counts.shape[1], np.float32)


def _carry_save(rows: BitRows) -> list[list[BitRows]]:
    """Return packed rows by level: a row of level w counts 2**w of the rows of the argument.

    It works like a binary counter whose digits are slabs. Each level holds a sum, and a carry that waits for a
    second one. Buffers are reused, since fresh memory would cost more than the additions.
    """
    step = max(1, _SLAB // rows.shape[1])
    pairs = len(rows) // (2 * step)
    if pairs < 2:
        return [[rows]]

    half = np.empty((step, rows.shape[1]), np.uint8)
    sums: list[BitRows] = []
    waiting: list[BitRows | None] = [None]
    spare: list[BitRows] = []
    for start in range(0, 2 * pairs * step, 2 * step):
        x = rows[start : start + step]
        y = rows[start + step : start + 2 * step]
        level = 0
        while True:
            if level == len(sums):
                sums.append(np.zeros_like(half))
                waiting.append(None)
            carry = spare.pop() if spare else np.empty_like(half)
            _fold(sums[level], x, y, half=half, carry=carry)
            # At level 0 x and y are the caller's rows, and must not be written to.
            if level:
                spare += [x, y]

            level += 1
            partner = waiting[level]
            waiting[level] = None
            if partner is None:
                waiting[level] = carry
                break
            x = partner
            y = carry

    levels = [[row for row in pair if row is not None] for pair in zip([*sums, None], waiting, strict=True)]
    levels[0].append(rows[2 * pairs * step :])
    return levels


def _fold(total: BitRows, x: BitRows, y: BitRows, *, half: BitRows, carry: BitRows) -> None:
    """Add x and y to `total` bit by bit, with the carries in `carry`."""
    np.bitwise_xor(total, x, out=half)
    np.bitwise_and(total, x, out=carry)
    np.bitwise_xor(half, y, out=total)
    np.bitwise_and(half, y, out=half)
    np.bitwise_or(carry, half, out=carry)
