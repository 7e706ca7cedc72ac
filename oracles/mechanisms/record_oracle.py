"""An oracle as records name it: by its name, p and q. Readers rebuild estimates with it."""

from fractions import Fraction
from functools import lru_cache

from oracles.estimate.pure import Pure
from oracles.mechanisms.full import Full
from oracles.mechanisms.grr import set_as_value
from oracles.mechanisms.pair_law import Subsets
from oracles.mechanisms.sub import Sub


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
        if self.name not in _CHOICES:
            return super().set_variance(n, values, share)
        subsets = _subsets(self.name, self.size, *self.exact)
        return super().set_variance(n, values, share) + subsets.covariance(self, values, share) / n


_CHOICES = {"full": Full.all_subsets, "sub": Sub.all_subsets}


@lru_cache(maxsize=1 << 8)
def _subsets(name: str, size: int, p: Fraction, q: Fraction) -> Subsets:
    """Return the subsets of buckets of an oracle. A record does not name them, but each choice has another q."""
    return min(_CHOICES[name](size), key=lambda choice: abs(choice.rate(p) - q))
