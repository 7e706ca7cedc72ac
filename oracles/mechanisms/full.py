"""FULL, local hashing with independent rows: every bucket holds equally many codes, so no report is wasted."""

from fractions import Fraction

import numpy as np

from oracles.estimate.pure import Pure
from oracles.kernels import c_library
from oracles.kernels.arrays import either
from oracles.kernels.parity import dependent, orthogonal
from oracles.mechanisms.buckets import Buckets
from oracles.mechanisms.entropy import Source, source
from oracles.readable import RowDraw
from oracles.types import MARKS, Flags, Floats, Ints, Reports


class Full(Buckets):
    """Local hashing by l linearly independent rows: each of g = 2**l buckets holds exactly h = 2**(k - l) codes.

    Claim: epsilon-LDP. The rows do not depend on the value. Given the rows, the bucket is GRR among g, as in OLH.
    Variance: by q = p c + (1 - p) (1 - c)/(g - 1), where c = (h - 1)/(2**k - 1) is the probability that two codes
    collide. If the domain has 2**k values, no oracle has a smaller variance with g buckets.
    Test: tests/unit/test_privacy.py, test_conformance.py and test_buckets.py.
    """

    least_rows = 2

    def __init__(self, epsilon: float, size: int, buckets: int | None = None, *, table: int | None = None) -> None:
        super().__init__("full", epsilon, size, buckets, table=table)

    @classmethod
    def bits_used(cls, rows: int, bits: int) -> int:
        return rows + rows * bits

    @classmethod
    def collision(cls, rows: int, bits: int) -> Fraction:
        return Fraction((1 << bits - rows) - 1, (1 << bits) - 1)

    @property
    def overlap(self) -> None:
        """None: the common part of the reports of two values is not that of independent rows."""
        return

    def rows(self, count: int, rng: "np.random.Generator | Source | None" = None) -> Ints:
        return source(rng).independent(count, self.bits, self.hashes)

    def _malformed(self, reports: Reports) -> Flags | None:
        if c_library.in_use():
            flags = c_library.find_dependent(reports, self.hashes, self.bits)
        else:
            flags = dependent(self._words(self._integers(reports)))
        return either(super()._malformed(reports), flags if flags.any() else None)

    @property
    def honest_marks(self) -> Floats:
        """Probability of each mark. A row is never 0."""
        rows = min(self.cells, MARKS)
        share = self.cells // rows
        law = np.where(np.arange(MARKS) < rows, float(share), 0.0)
        law[0] -= 1.0
        return law / (self.cells - 1)

    @property
    def mark_variance(self) -> float:
        """Variance of the counts of marks. The rows of a report are different, so it is smaller than for OLH."""
        return 1.0 - (self.hashes - 1) / (self.cells - 2)

    def _forged(self, codes: Ints, count: int, rng: "np.random.Generator") -> Ints:
        """Return rows for as many of the codes as one bucket can hold."""
        basis = orthogonal(codes[1:] ^ codes[0], self.bits)
        # Too many codes leave too few independent rows.
        while len(basis) < self.hashes:
            codes = codes[:-1]
            basis = orthogonal(codes[1:] ^ codes[0], self.bits)
        combinations = source(rng).independent(count, len(basis), self.hashes)
        choices = combinations[:, :, None] >> np.arange(len(basis)) & 1
        words: Ints = np.bitwise_xor.reduce(choices * basis, axis=2)
        return words

    @property
    def supports_one(self) -> bool:
        """Whether a bucket holds exactly one value: the rows are then a bijection."""
        return self.hashes == self.bits and self.size == self.cells

    @property
    def row_draws(self) -> tuple[RowDraw, ...]:
        """The rows of a report, or none if it names one value."""
        return () if self.supports_one else super().row_draws

    def set_law(self, values: int) -> tuple[int, float, float] | None:
        """Return the law of a set if a bucket holds one code: then values exclude each other."""
        if self.hashes < self.bits:
            return super().set_law(values)
        return 1, self.p + (values - 1) * self.q, values * self.q

    def set_variance(self, n: int, values: int, share: float) -> float:
        """Return the variance of a set. A bucket holds exactly h codes, so the errors of values are dependent."""
        covariance = pair_covariance(self, self.hashes, self.bits, values, share)
        return super().set_variance(n, values, share) + covariance / n


def pair_covariance(oracle: Pure, rows: int, bits: int, values: int, share: float) -> float:
    """Return the sum of the covariances of the values of a set, of one report with so many rows of so many bits."""
    p, q = oracle.exact
    codes = 1 << bits
    h = codes >> rows
    pairs = (codes - 1) * (codes - 2)
    # P(both of two values in the bucket), with the own one among them or not. Enumerated for k = 3 and 4.
    with_own = p * Full.collision(rows, bits)
    without_own = (p * (h - 1) * (h - 2) + (1 - p) * h * (h - 1)) / pairs
    f = Fraction(share)
    covariance = 2 * f * (with_own - p * q) + (values - 2 * f) * (without_own - q * q)
    return float((values - 1) * covariance / (p - q) ** 2)
