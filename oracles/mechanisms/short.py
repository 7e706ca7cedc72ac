"""SHORT, local hashing with a short seed: two words give all rows, so a report for many buckets stays small."""

from fractions import Fraction

import numpy as np

from oracles.kernels import c_library
from oracles.kernels.galois import POLYNOMIALS, times_x
from oracles.kernels.parity import combined, orthogonal
from oracles.mechanisms.buckets import Buckets
from oracles.mechanisms.hashing import Words
from oracles.types import Ints, Reports


class Short(Buckets):
    """Local hashing by H(v) = the low l bits of a v + b v**2, in the field of 2**k elements, with random a and b.

    Claim: epsilon-LDP. a and b do not depend on the value. Given both, the bucket is GRR among g = 2**l, as in OLH.
    Variance: that of OLH with g buckets. Two supports are uncorrelated and q = 1/g, because (H(u xor w), H(v xor w)) is
    uniform for different u, v and w. A report has l + 2 k bits, instead of l + l k.
    Test: tests/unit/test_privacy.py, test_conformance.py and test_buckets.py.
    """

    least_rows = 3

    def __init__(self, epsilon: float, size: int, buckets: int | None = None, *, table: int | None = None) -> None:
        super().__init__("short", epsilon, size, buckets, words=2, table=table)

    @classmethod
    def bits_used(cls, rows: int, bits: int) -> int:
        return rows + 2 * bits

    @classmethod
    def collision(cls, rows: int, bits: int) -> Fraction:
        del bits
        return Fraction(1, 1 << rows)

    def _expand(self, words: list[Words]) -> list[Words]:
        """Return row_j with bit i = bit j of a x**i + b x**(2 i), for every j."""
        a, b = words
        rows: list[Words] = [np.zeros_like(a) for _ in range(self.hashes)]
        for i in range(self.bits):
            column = a ^ b
            for j in range(self.hashes):
                rows[j] |= ((column >> j) & 1) << i
            # Squaring is linear over GF(2): (x**i)**2 = x**(2 i), so b moves by two steps.
            a = times_x(a, self.bits)
            b = times_x(times_x(b, self.bits), self.bits)
        return rows

    def _add_compiled(self, state: Ints, reports: Reports) -> None:
        signs = state[: self.cells]
        marks = state[self.cells :]
        c_library.add_short(signs, marks, reports, self.hashes, self.bits, POLYNOMIALS[self.bits])

    def _extra_kurtosis(self, values: int) -> float:
        """Return the mean over sets of this size. Any four values fall together under some of the few a and b."""
        g = self.buckets
        return g * (values / self.cells * g / (g - 1)) ** 2

    def _forged(self, codes: Ints, count: int, rng: "np.random.Generator") -> Ints:
        """Return a and b of `count` reports: linear equations say that H is 0 at the difference of any two codes."""
        a: Words = codes[1:] ^ codes[0]
        b = self._squared(a)
        equations = np.zeros((self.hashes, len(a)), np.int64)
        for i in range(self.bits):
            for j in range(self.hashes):
                equations[j] |= (a >> j & 1) << i | (b >> j & 1) << (self.bits + i)
            a = times_x(a, self.bits)
            b = times_x(b, self.bits)
        pairs = combined(orthogonal(equations.ravel(), 2 * self.bits), count, rng)
        return np.stack([pairs & (self.cells - 1), pairs >> self.bits]).T

    def _squared(self, words: Words) -> Words:
        squares: Words = np.zeros_like(words)
        power: Words = np.ones(1, np.int64)
        for i in range(self.bits):
            squares ^= (words >> i & 1) * power
            power = times_x(times_x(power, self.bits), self.bits)
        return squares
