"""OLH, optimised local hashing: a random hash of the value, told with noise, in a few bytes."""

from decimal import Decimal, localcontext

from oracles.errors import ParameterError
from oracles.mechanisms import chance
from oracles.mechanisms.hashing import MAX_ROWS, Hashing


class Olh(Hashing):
    """Local hashing into the power of two of buckets, g up to 256, with the smallest variance, or into fewer.

    Claim: epsilon-LDP. The rows are drawn whatever the value is; given them, the bucket is GRR among
    g, and p is the largest multiple of 2**-64 whose ratio p/q' is at most exp(epsilon), q' the
    probability of each other bucket: p is about e/(e + g - 1), and q = 1/g exactly.
    Variance: n Var = (e + g - 1)^2/((g - 1)(e - 1)^2) at f = 0, at most 7.7% above that of the ideal
    g = e + 1 while g is not at its limit. Fewer buckets have a larger one, and fewer classes: a client
    that repeats itself gives min(g, d) different answers at most.
    Shown in tests/unit/test_privacy.py and test_conformance.py.

    Wang, Blocki, Li and Jha 2017; the hash family of Carter and Wegman 1979.
    """

    def __init__(self, epsilon: float, size: int, buckets: int | None = None) -> None:
        e = chance.exp(epsilon)
        with localcontext(chance.DIGITS):
            best = min(range(1, MAX_ROWS + 1), key=lambda rows: _spread(e, 1 << rows))
        if buckets is not None and buckets not in [1 << rows for rows in range(1, best + 1)]:
            most = f"to {1 << best}, the best for epsilon = {epsilon:g}"
            raise ParameterError(f"buckets must be a power of two from 2 {most}; got {buckets!r}")
        self.fewer = None if buckets in (None, 1 << best) else buckets
        """The number of buckets where it is not the best for epsilon."""
        super().__init__("olh", epsilon, size, best if buckets is None else int(buckets).bit_length() - 1)

    def __repr__(self) -> str:
        return super().__repr__() if self.fewer is None else f"{super().__repr__()[:-1]}, buckets={self.fewer})"


def _spread(e: Decimal, buckets: int) -> Decimal:
    """The part of the variance that depends on the buckets."""
    return (e + buckets - 1) ** 2 / (buckets - 1)
