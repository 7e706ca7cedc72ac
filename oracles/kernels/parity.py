"""Linear algebra over GF(2): words as vectors of bits, with parity(a & b) as their product."""

import numpy as np

from oracles.types import Ints


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
