"""An oracle as records name it: by its name, p and q. Readers rebuild estimates with it."""

from fractions import Fraction

from oracles.estimate.pure import Pure
from oracles.mechanisms.full import Full, pair_covariance
from oracles.mechanisms.grr import set_as_value


class RecordOracle(Pure):
    """An oracle of a record. With a table a client never repeats an answer after its class changed."""

    def __init__(self, name: str, size: int, p: Fraction, q: Fraction, *, has_table: bool = False) -> None:
        super().__init__(name, size, p, q)
        self._has_table = has_table

    @property
    def excludes(self) -> bool:
        return self._has_table

    def set_variance(self, n: int, values: int, share: float) -> float:
        """Return the variance of a set. The errors of the values of grr and full are dependent."""
        if self.name == "grr":
            return set_as_value(self, n, values, share)
        if self.name != "full":
            return super().set_variance(n, values, share)

        bits = Full.code_bits_of(self.size)
        p, q = self.exact
        # A record does not name its buckets, but each number of them has another q.
        rows = min(range(Full.least_rows, bits + 1), key=lambda rows: abs(_rate(p, rows, bits) - q))
        return super().set_variance(n, values, share) + pair_covariance(self, rows, bits, values, share) / n


def _rate(p: Fraction, rows: int, bits: int) -> Fraction:
    """Return q of full with so many rows."""
    collision = Full.collision(rows, bits)
    return p * collision + (1 - p) * (1 - collision) / ((1 << rows) - 1)
