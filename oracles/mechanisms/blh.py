"""BLH, binary local hashing: one random parity of the value, told with noise."""

from oracles.mechanisms.hashing import Hashing


class Blh(Hashing):
    """Local hashing into two buckets: p = e/(e + 1), q = 1/2.

    Claim: epsilon-LDP. The row is drawn whatever the value is; given it, the bit is randomised
    response, and p is the largest multiple of 2**-64 whose ratio p/(1 - p) is at most exp(epsilon).
    Variance: n Var = (e + 1)^2/(e - 1)^2 at f = 0: as good as OLH where epsilon is small.
    Shown in tests/unit/test_privacy.py and test_conformance.py.

    Bassily and Smith 2015; Wang, Blocki, Li and Jha 2017.
    """

    def __init__(self, epsilon: float, size: int) -> None:
        super().__init__("blh", epsilon, size, rows=1)
