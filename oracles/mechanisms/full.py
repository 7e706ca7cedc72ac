"""FULL, local hashing with independent rows: every bucket holds equally many codes, so no report is wasted."""

from oracles.kernels import c_library
from oracles.kernels.arrays import either
from oracles.kernels.parity import dependent
from oracles.mechanisms.buckets import Buckets
from oracles.mechanisms.families import FAMILIES
from oracles.mechanisms.hashing import nonzero_marks
from oracles.mechanisms.pair_law import Subsets
from oracles.types import Flags, Floats, Reports


class Full(Buckets):
    """Local hashing by l linearly independent rows: each of g = 2**l buckets holds exactly h = 2**(k - l) codes.

    Claim: epsilon-LDP. The rows do not depend on the value. Given the rows, the bucket is GRR among g, as in OLH.
    Variance: by q = p c + (1 - p) (1 - c)/(g - 1), where c = (h - 1)/(2**k - 1) is the probability that two codes
    collide. If the domain has 2**k values, no oracle has a smaller variance with g buckets.
    Test: tests/unit/test_privacy.py, test_conformance.py and test_buckets.py.
    """

    family = FAMILIES["full"]
    least_rows = 2

    def __init__(self, epsilon: float, size: int, buckets: int | None = None, *, table: int | None = None) -> None:
        super().__init__("full", epsilon, size, buckets, table=table)

    @classmethod
    def all_subsets(cls, size: int) -> list[Subsets]:
        """Return the laws of all numbers of buckets."""
        bits = cls.code_bits_of(size)
        return [Subsets(cls.family, rows, bits) for rows in range(cls.least_rows, bits + 1)]

    @property
    def overlap(self) -> None:
        """None: the common part of the reports of two values is not that of independent rows."""
        return

    def _malformed(self, reports: Reports) -> Flags | None:
        if c_library.in_use():
            flags = c_library.find_dependent(reports, self.hashes, self.bits)
        else:
            flags = dependent(self._words(self._integers(reports)))
        return either(self._padded(reports), flags if flags.any() else None)

    @property
    def honest_marks(self) -> Floats:
        """Probability of each mark. A row is never 0."""
        return nonzero_marks(self.cells)

    @property
    def mark_variance(self) -> float:
        """Variance of the counts of marks. The rows of a report are different, so it is smaller than for OLH."""
        return 1.0 - (self.hashes - 1) / (self.cells - 2)

    def set_law(self, values: int) -> tuple[int, float, float] | None:
        """Return the law of a set if a bucket holds one code: then values exclude each other."""
        if not self.subsets.names_one_code:
            return super().set_law(values)
        return 1, self.p + (values - 1) * self.q, values * self.q

    def set_variance(self, n: int, values: int, share: float) -> float:
        """Return the variance of a set. A bucket holds exactly h codes, so the errors of values are dependent."""
        return super().set_variance(n, values, share) + self.subsets.covariance(self, values, share) / n
