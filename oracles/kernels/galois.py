"""Arithmetic in the field of 2**k elements: bit i of a word is the coefficient of x**i."""

from functools import cache

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


@cache
def logarithms(bits: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the powers of the least generator of the field, and the logarithm of each element but 0.

    >>> powers, logs = logarithms(3)
    >>> powers.tolist(), logs[powers].tolist()
    ([1, 2, 4, 3, 6, 7, 5], [0, 1, 2, 3, 4, 5, 6])
    """
    order = (1 << bits) - 1
    generator = 2
    powers = _powers(generator, bits)
    # The order of an element divides that of the group, so a generator's powers are all different.
    while len(np.unique(powers)) < order:
        generator += 1
        powers = _powers(generator, bits)
    logs = np.zeros(order + 1, np.int64)
    logs[powers] = np.arange(order)
    return powers, logs


def _powers(element: int, bits: int) -> NDArray[np.int64]:
    powers = np.ones((1 << bits) - 1, np.int64)
    for i in range(1, len(powers)):
        powers[i] = _product(int(powers[i - 1]), element, bits)
    return powers


def _product(one: int, other: int, bits: int) -> int:
    product = 0
    while other:
        product ^= one if other & 1 else 0
        one = one << 1 ^ (one >> bits - 1) * POLYNOMIALS[bits]
        other >>= 1
    return product
