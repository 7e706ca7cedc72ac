"""HR, Hadamard response: the client reports one random coefficient of its value's Hadamard code, with noise."""

from collections.abc import Iterator

from oracles.mechanisms.hashing import Hashing
from oracles.mechanisms.protocol import Oracle
from oracles.mechanisms.table import Forms


class Hr(Hashing):
    """A random row r of 0..K-1, K = 2**ceil(log2(d + 1)), and parity(r & (v + 1)): p = e/(e + 1), q = 1/2.

    Claim: epsilon-LDP. The row does not depend on the value. Given the row, the bit is randomised response. Here p
    is the largest multiple of 2**-64 whose ratio p/(1 - p) is at most exp(epsilon).
    Variance: n Var = (e + 1)^2/(e - 1)^2 at f = 0, as BLH.
    Test: tests/unit/test_privacy.py and test_conformance.py.

    Acharya, Sun and Zhang 2019.
    """

    auto_edition = 2
    takes_table = True

    def __init__(self, epsilon: float, size: int, *, table: int | None = None) -> None:
        super().__init__("hr", epsilon, size, rows=1, offset=1, table=table)

    @classmethod
    def versions(cls, epsilon: float, size: int, forms: Forms) -> Iterator[Oracle]:
        yield cls(epsilon, size, table=forms.points(2))
