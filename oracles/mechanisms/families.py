"""Families of random linear maps, from codes of k bits to buckets of l bits: FULL, SHORT and LINE.

A client draws the words that give a map. Bit j of a code's bucket is the parity of row j of the map and the code.
"""

from abc import ABC, abstractmethod
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from oracles.kernels.galois import times_x
from oracles.kernels.parity import combined, dependent, orthogonal
from oracles.mechanisms.entropy import Source, source
from oracles.types import Flags, Ints

Words = NDArray[np.integer]


class Family(ABC):
    """A family in which all pairs of different codes share a bucket equally often."""

    name: ClassVar[str]
    least_rows: ClassVar[int]
    """Smallest number of rows, l."""

    def code_bits_of(self, size: int) -> int:
        """Return the number of bits of a code, k, for a domain of this size."""
        return max(self.least_rows, 1, (size - 1).bit_length())

    def row_counts(self, bits: int, most: int) -> range:
        """Return the numbers of rows that a map of codes of so many bits may have."""
        return range(self.least_rows, min(most, bits) + 1)

    @abstractmethod
    def words(self, rows: int) -> int:
        """Return the number of words of k bits that give a map."""

    @abstractmethod
    def collision(self, rows: int, bits: int) -> Fraction:
        """Return the probability that two codes share a bucket."""

    @abstractmethod
    def triple(self, rows: int, bits: int) -> Fraction:
        """Return the probability that three codes share a bucket."""

    def draw(self, count: int, rows: int, bits: int, draw: Source) -> Ints:
        """Return the words of `count` clients, one client in each row."""
        return np.stack([draw.below(1 << bits, count) for _ in range(self.words(rows))]).T

    def rows_of(self, words: list[Words], rows: int, bits: int) -> list[Words]:
        """Return the rows that the words of clients give, one array for each. By default the words are the rows."""
        del rows, bits
        return words

    def malformed(self, words: list[Words]) -> Flags | None:
        """Return a mask of the clients whose words give no map of the family, or None if all words do."""
        del words
        return None

    @abstractmethod
    def forged(self, codes: Ints, rows: int, bits: int, *, count: int, rng: "np.random.Generator") -> Ints:
        """Return words of `count` clients whose maps put all codes into one bucket, or as many as one can hold."""


class IndependentRows(Family):
    """l linearly independent rows: each bucket holds exactly h = 2**(k - l) codes."""

    name = "full"
    least_rows = 1

    def words(self, rows: int) -> int:
        return rows

    def collision(self, rows: int, bits: int) -> Fraction:
        return Fraction((1 << bits - rows) - 1, (1 << bits) - 1)

    def triple(self, rows: int, bits: int) -> Fraction:
        held = 1 << bits - rows
        codes = 1 << bits
        # A domain of two values has no third code.
        return Fraction((held - 1) * (held - 2), (codes - 1) * max(codes - 2, 1))

    def draw(self, count: int, rows: int, bits: int, draw: Source) -> Ints:
        return draw.independent(count, bits, rows)

    def malformed(self, words: list[Words]) -> Flags | None:
        return dependent(words)

    def forged(self, codes: Ints, rows: int, bits: int, *, count: int, rng: "np.random.Generator") -> Ints:
        basis = orthogonal(codes[1:] ^ codes[0], bits)
        # Too many codes leave too few independent rows.
        while len(basis) < rows:
            codes = codes[:-1]
            basis = orthogonal(codes[1:] ^ codes[0], bits)
        combinations = source(rng).independent(count, len(basis), rows)
        choices = combinations[:, :, None] >> np.arange(len(basis)) & 1
        words: Ints = np.bitwise_xor.reduce(choices * basis, axis=2)
        return words


class SquareRows(Family):
    """H(v) = the low l bits of a v + b v**2, in the field of 2**k elements: two words give all rows."""

    name = "short"
    least_rows = 3

    def words(self, rows: int) -> int:
        del rows
        return 2

    def collision(self, rows: int, bits: int) -> Fraction:
        del bits
        return Fraction(1, 1 << rows)

    def triple(self, rows: int, bits: int) -> Fraction:
        return self.collision(rows, bits) ** 2

    def rows_of(self, words: list[Words], rows: int, bits: int) -> list[Words]:
        a, b = words
        return _rows_of_powers(a, b, rows, bits)

    def forged(self, codes: Ints, rows: int, bits: int, *, count: int, rng: "np.random.Generator") -> Ints:
        differences: Words = codes[1:] ^ codes[0]
        equations = np.stack([_equations(differences, rows, bits), _equations(_squared(differences, bits), rows, bits)])
        pairs = combined(orthogonal((equations[0] | equations[1] << bits).ravel(), 2 * bits), count, rng)
        return np.stack([pairs & (1 << bits) - 1, pairs >> bits]).T


class LineRows(Family):
    """H(v) = the low k - 1 bits of a v, a not 0, in the field of 2**k elements: each bucket holds two codes.

    With fewer rows a bucket would hold four codes or more, and the laws of two pairs of values would differ.
    """

    name = "line"
    least_rows = 2

    def code_bits_of(self, size: int) -> int:
        return max(3, (size - 1).bit_length())

    def row_counts(self, bits: int, most: int) -> range:
        return range(bits - 1, min(most, bits - 1) + 1)

    def words(self, rows: int) -> int:
        del rows
        return 1

    def collision(self, rows: int, bits: int) -> Fraction:
        del rows
        return Fraction(1, (1 << bits) - 1)

    def triple(self, rows: int, bits: int) -> Fraction:
        del rows, bits
        return Fraction(0)

    def draw(self, count: int, rows: int, bits: int, draw: Source) -> Ints:
        del rows
        return 1 + draw.below((1 << bits) - 1, count)[:, None]

    def rows_of(self, words: list[Words], rows: int, bits: int) -> list[Words]:
        (a,) = words
        return _rows_of_powers(a, np.zeros_like(a), rows, bits)

    def malformed(self, words: list[Words]) -> Flags | None:
        flags: Flags = words[0] == 0
        return flags

    def forged(self, codes: Ints, rows: int, bits: int, *, count: int, rng: "np.random.Generator") -> Ints:
        # A bucket holds two codes, and one a puts any two of them together.
        basis = orthogonal(_equations(codes[1:2] ^ codes[0], rows, bits).ravel(), bits)
        if len(basis) < bits:
            return np.repeat(basis[:1, None], count, axis=0)
        return self.draw(count, rows, bits, source(rng))


FAMILIES: dict[str, Family] = {family.name: family for family in (IndependentRows(), SquareRows(), LineRows())}


def _rows_of_powers(a: Words, b: Words, rows: int, bits: int) -> list[Words]:
    """Return row_j with bit i = bit j of a x**i + b x**(2 i), for every j."""
    result: list[Words] = [np.zeros_like(a) for _ in range(rows)]
    for i in range(bits):
        column = a ^ b
        for j in range(rows):
            result[j] |= ((column >> j) & 1) << i
        a = times_x(a, bits)
        # Squaring is linear over GF(2): (x**i)**2 = x**(2 i), so b moves by two steps.
        b = times_x(times_x(b, bits), bits)
    return result


def _equations(factors: Words, rows: int, bits: int) -> Ints:
    """Return for each low bit j and each factor the word whose parity with a is bit j of a times the factor."""
    equations = np.zeros((rows, len(factors)), np.int64)
    for i in range(bits):
        for j in range(rows):
            equations[j] |= (factors >> j & 1) << i
        factors = times_x(factors, bits)
    return equations


def _squared(words: Words, bits: int) -> Words:
    squares: Words = np.zeros_like(words)
    power: Words = np.ones(1, np.int64)
    for i in range(bits):
        squares ^= (words >> i & 1) * power
        power = times_x(times_x(power, bits), bits)
    return squares
