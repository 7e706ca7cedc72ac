"""Linear algebra over GF(2): words as vectors of bits, with parity(a & b) as their product."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from oracles.types import Flags, Ints


def orthogonal(words: Ints, bits: int) -> Ints:
    """Return a basis of all words of `bits` bits whose parity with each of `words` is even.

    >>> orthogonal(np.array([3]), 3)
    array([3, 4])
    """
    # Gauss and Jordan: each pivot bit is in one word only, so a free bit tells its pivots at once.
    pivots: dict[int, int] = {}
    for vector in map(int, words):
        remainder = vector
        for pivot, word in pivots.items():
            if remainder >> pivot & 1:
                remainder ^= word
        if not remainder:
            continue

        new_pivot = remainder.bit_length() - 1
        for pivot, word in pivots.items():
            if word >> new_pivot & 1:
                pivots[pivot] = word ^ remainder
        pivots[new_pivot] = remainder

    free_bits = [bit for bit in range(bits) if bit not in pivots]
    basis = [sum(1 << pivot for pivot, word in pivots.items() if word >> bit & 1) | 1 << bit for bit in free_bits]
    return np.array(basis, np.int64)


def dependent(words: Sequence[NDArray[np.integer]]) -> Flags:
    """Return a mask of the rows whose words are linearly dependent. `words` has an array for each word of a row.

    >>> dependent(np.array([[1, 1], [2, 2], [3, 4]]))
    array([ True, False])
    """
    basis: list[NDArray[np.integer]] = []
    flags = np.zeros(len(words[0]), np.bool_)
    for word in words:
        remainder = word
        # The smaller of both has the highest bit of the earlier word cleared.
        for earlier_word in basis:
            remainder = np.minimum(remainder, remainder ^ earlier_word)
        flags |= remainder == 0
        basis.append(remainder)
    return flags


def combined(basis: Ints, count: int, rng: "np.random.Generator") -> Ints:
    """Return `count` uniform words of the linear space with this basis."""
    words: Ints = np.bitwise_xor.reduce(rng.integers(0, 2, (count, len(basis))) * basis, axis=1)
    return words
