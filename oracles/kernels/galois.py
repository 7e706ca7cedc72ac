"""Arithmetic in the field of 2**k elements: bit i of a word is the coefficient of x**i."""

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.integer]

_HEXADECIMAL = """
    b 13 25 43 83 11b 203 409 805 1009 201b 4021 8003 1002b 20009 40009 80027 100009 200005 400003 800021 100001b
    2000009 400001b 8000027 10000003 20000005 40000003
"""
POLYNOMIALS = {bits: int(word, 16) for bits, word in enumerate(_HEXADECIMAL.split(), start=3)}
"""The least irreducible polynomial of each degree k, from 3 on. They are part of the wire format."""


def times_x(words: Words, bits: int) -> Words:
    """Return each word times x.

    >>> times_x(np.array([1, 2, 4]), 3)
    array([2, 4, 3])
    """
    carry = words >> (bits - 1)
    return (words << 1) ^ carry * words.dtype.type(POLYNOMIALS[bits])
