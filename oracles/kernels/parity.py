"""Linear algebra over GF(2): words as vectors of bits, parity(a & b) as their product."""

import numpy as np

from oracles.types import Ints


def orthogonal(words: Ints, bits: int) -> Ints:
    """A basis of all words of `bits` bits whose parity with each of `words` is even.

    >>> orthogonal(np.array([3]), 3)
    array([3, 4])
    """
    reduced: dict[int, int] = {}
    for given in map(int, words):
        rest = given
        for pivot, word in reduced.items():
            rest ^= word if rest >> pivot & 1 else 0
        if rest:
            new = rest.bit_length() - 1
            reduced = {pivot: word ^ (rest if word >> new & 1 else 0) for pivot, word in reduced.items()}
            reduced[new] = rest
    free = [bit for bit in range(bits) if bit not in reduced]
    basis = [sum(1 << pivot for pivot, word in reduced.items() if word >> bit & 1) | 1 << bit for bit in free]
    return np.array(basis, np.int64)
