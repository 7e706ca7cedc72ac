"""OLH, optimised local hashing: a random hash of the value, told with noise, in a few bytes."""

from decimal import localcontext

from oracles.mechanisms import chance
from oracles.mechanisms.hashing import MAX_ROWS, Hashing


class Olh(Hashing):
    """Local hashing into the power of two of buckets, g up to 256, with the smallest variance.

    Claim: epsilon-LDP. The rows are drawn whatever the value is; given them, the bucket is GRR among
    g, and p is the largest multiple of 2**-64 whose ratio p/q' is at most exp(epsilon), q' the
    probability of each other bucket: p is about e/(e + g - 1), and q = 1/g exactly.
    Variance: n Var = (e + g - 1)^2/((g - 1)(e - 1)^2) at f = 0, at most 7.7% above that of the ideal
    g = e + 1 while g is not at its limit.
    Shown in tests/unit/test_privacy.py and test_conformance.py.

    Wang, Blocki, Li and Jha 2017; the hash family of Carter and Wegman 1979.
    """

    def __init__(self, epsilon: float, size: int) -> None:
        e = chance.exp(epsilon)
        with localcontext(chance.DIGITS):
            rows = min(range(1, MAX_ROWS + 1), key=lambda l: (e + (1 << l) - 1) ** 2 / ((1 << l) - 1))
        super().__init__("olh", epsilon, size, rows)
