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
    pivots: dict[int, int] = {}
    for vector in map(int, words):
        rest = vector
        for pivot, word in pivots.items():
            rest ^= word if rest >> pivot & 1 else 0
        if rest:
            new = rest.bit_length() - 1
            pivots = {pivot: word ^ (rest if word >> new & 1 else 0) for pivot, word in pivots.items()}
            pivots[new] = rest
    free = [bit for bit in range(bits) if bit not in pivots]
    basis = [sum(1 << pivot for pivot, word in pivots.items() if word >> bit & 1) | 1 << bit for bit in free]
    return np.array(basis, np.int64)


def dependent(words: Sequence[NDArray[np.integer]]) -> Flags:
    """Return a mask of the rows whose words are linearly dependent. `words` has an array for each word of a row.

    >>> dependent(np.array([[1, 1], [2, 2], [3, 4]]))
    array([ True, False])
    """
    basis: list[NDArray[np.integer]] = []
    flags = np.zeros(len(words[0]), np.bool_)
    for word in words:
        rest = word
        for earlier in basis:
            rest = np.minimum(rest, rest ^ earlier)  # clears the highest bit of `earlier`
        flags |= rest == 0
        basis.append(rest)
    return flags
