"""OLH, optimised local hashing: the client reports a random hash of its value, with noise, in a few bytes."""

from collections.abc import Iterator
from decimal import Decimal, localcontext

from oracles.errors import ParameterError
from oracles.mechanisms import chance
from oracles.mechanisms.hashing import MAX_ROWS, Hashing
from oracles.mechanisms.protocol import Oracle
from oracles.mechanisms.table import Forms


class Olh(Hashing):
    """Local hashing into g buckets, the power of two up to 256 with the smallest variance, or into fewer.

    Claim: epsilon-LDP. The rows do not depend on the value. Given the rows, the bucket is GRR among g. Here p is
    the largest multiple of 2**-64 whose ratio p/q' is at most exp(epsilon), and q' the probability of each other
    bucket, so p is about e/(e + g - 1), and q = 1/g exactly.
    Variance: n Var = (e + g - 1)^2/((g - 1)(e - 1)^2) at f = 0. This is at most 7.7% above the ideal g = e + 1,
    until g reaches its limit. Fewer buckets have a larger variance, and fewer classes: a client that repeats
    itself gives at most min(g, d) different answers.
    Test: tests/unit/test_privacy.py and test_conformance.py.

    Wang, Blocki, Li and Jha 2017; the hash family of Carter and Wegman 1979.
    """

    auto_edition = 1
    takes_buckets = True
    takes_table = True

    def __init__(self, epsilon: float, size: int, buckets: int | None = None, *, table: int | None = None) -> None:
        e = chance.exp(epsilon)
        with localcontext(chance.DIGITS):
            best = min(range(1, MAX_ROWS + 1), key=lambda rows: _spread(e, 1 << rows))
        if buckets is not None and buckets not in [1 << rows for rows in range(1, best + 1)]:
            range_text = f"to {1 << best}, the best for epsilon = {epsilon:g}"
            raise ParameterError(f"buckets must be a power of two from 2 {range_text}, got {buckets!r}")
        self.fewer = None if buckets in (None, 1 << best) else buckets
        """Number of buckets, or None if it is the best for epsilon."""
        rows = best if buckets is None else int(buckets).bit_length() - 1
        super().__init__("olh", epsilon, size, rows, table=table)

    @classmethod
    def within(cls, epsilon: float, size: int, classes: int | None) -> "Olh | None":
        """Return OLH with the best number of buckets for at most `classes` classes, or None if there is none."""
        olh = cls(epsilon, size)
        while classes is not None and olh.classes > classes:
            if olh.hashes == 1:
                return None
            olh = cls(epsilon, size, olh.buckets // 2)
        return olh

    @classmethod
    def candidate(cls, epsilon: float, size: int, classes: int | None = None) -> "Olh | None":
        """Return OLH within `classes`, or None if only two buckets fit: then BLH is the candidate."""
        olh = cls.within(epsilon, size, classes)
        return None if olh is None or (classes is not None and olh.hashes == 1) else olh

    @classmethod
    def versions(cls, epsilon: float, size: int, forms: Forms) -> Iterator[Oracle]:
        """Yield the best number of buckets. If fewer are considered, yield smaller numbers too. Two buckets are HR."""
        buckets = cls(epsilon, size).buckets
        while buckets > 2:
            yield cls(epsilon, size, buckets, table=forms.points(buckets))
            buckets = buckets // 2 if forms.fewer else 0

    def __repr__(self) -> str:
        return super().__repr__() if self.fewer is None else f"{super().__repr__()[:-1]}, buckets={self.fewer})"


def _spread(e: Decimal, buckets: int) -> Decimal:
    """Return the part of the variance that depends on the buckets."""
    return (e + buckets - 1) ** 2 / (buckets - 1)
