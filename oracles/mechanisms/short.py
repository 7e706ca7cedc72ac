"""SHORT, local hashing with a short seed: two words give all rows, so a report for many buckets stays small."""

from oracles.kernels import c_library
from oracles.kernels.galois import POLYNOMIALS
from oracles.mechanisms.buckets import Buckets
from oracles.mechanisms.families import FAMILIES
from oracles.types import Ints, Reports


class Short(Buckets):
    """Local hashing by H(v) = the low l bits of a v + b v**2, in the field of 2**k elements, with random a and b.

    Claim: epsilon-LDP. a and b do not depend on the value. Given both, the bucket is GRR among g = 2**l, as in OLH.
    Variance: that of OLH with g buckets. Two supports are uncorrelated and q = 1/g, because (H(u xor w), H(v xor w)) is
    uniform for different u, v and w. A report has l + 2 k bits, instead of l + l k.
    Test: tests/unit/test_privacy.py, test_conformance.py and test_buckets.py.
    """

    family = FAMILIES["short"]
    least_rows = 3

    def __init__(self, epsilon: float, size: int, buckets: int | None = None, *, table: int | None = None) -> None:
        super().__init__("short", epsilon, size, buckets, table=table)

    def _add_compiled(self, state: Ints, reports: Reports) -> None:
        signs = state[: self.cells]
        marks = state[self.cells :]
        c_library.add_short(signs, marks, reports, self.hashes, self.bits, POLYNOMIALS[self.bits])

    def _extra_kurtosis(self, values: int) -> float:
        """Return the mean over sets of this size. Any four values fall together under some of the few a and b."""
        g = self.buckets
        return g * (values / self.cells * g / (g - 1)) ** 2
