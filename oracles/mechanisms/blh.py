"""BLH, binary local hashing: the client reports one random parity of its value, with noise."""

from collections.abc import Iterator

from oracles.mechanisms.hashing import Hashing
from oracles.mechanisms.olh import Olh
from oracles.mechanisms.protocol import Oracle
from oracles.mechanisms.table import Forms


class Blh(Hashing):
    """Local hashing into two buckets: p = e/(e + 1), q = 1/2.

    Claim: epsilon-LDP. The row does not depend on the value. Given the row, the bit is randomised response. Here p
    is the largest multiple of 2**-64 whose ratio p/(1 - p) is at most exp(epsilon).
    Variance: n Var = (e + 1)^2/(e - 1)^2 at f = 0, as good as OLH if epsilon is small.
    Test: tests/unit/test_privacy.py and test_conformance.py.

    Bassily and Smith 2015; Wang, Blocki, Li and Jha 2017.
    """

    auto_edition = 1
    takes_table = True

    def __init__(self, epsilon: float, size: int, *, table: int | None = None) -> None:
        super().__init__("blh", epsilon, size, rows=1, table=table)

    @classmethod
    def candidate(cls, epsilon: float, size: int, classes: int | None = None) -> "Blh | None":
        """Return BLH if `classes` limits OLH to two buckets, else None. Without a limit OLH is the candidate."""
        olh = None if classes is None else Olh.within(epsilon, size, classes)
        return None if olh is None or olh.hashes > 1 else cls(epsilon, size)

    @classmethod
    def versions(cls, epsilon: float, size: int, forms: Forms) -> Iterator[Oracle]:
        """Yield nothing: HR has the same error and the same classes."""
        del epsilon, size, forms
        return iter(())
