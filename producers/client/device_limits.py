"""The limit that an application sets for a device: max_epsilon in any stretch of a time."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from oracles.errors import ParameterError
from oracles.query.settings import seconds, shown

SHORTEST = 60
LONGEST = 10**9


@dataclass(frozen=True)
class Limits:
    """The noise that a device uses in any `per` seconds costs at most `max_epsilon`."""

    max_epsilon: float
    per: int | None
    """Seconds after the last use of a noise at which its charge expires. None: charges never expire."""
    shares: Mapping[str, float] = field(default_factory=dict)
    """The parts of max_epsilon that belong to the definitions of one name alone."""

    @classmethod
    def read(cls, max_epsilon: float, per: int | str | None, shares: Mapping[str, float] | None = None) -> "Limits":
        """Return the limits of an application. `per` is in seconds, or a text such as "30d"."""
        if not 0 < max_epsilon < math.inf:
            raise ParameterError(f"max_epsilon must be a number above 0, got {max_epsilon!r}")
        parts = _read_shares(shares, max_epsilon)
        if per is None:
            return cls(max_epsilon, None, parts)

        length = seconds(per) if isinstance(per, str) else per
        if type(length) is not int or not SHORTEST <= length <= LONGEST:
            raise ParameterError(
                f'per must be a whole number of seconds from {SHORTEST} to {LONGEST}, or a text such as "30d", '
                f"got {shown(per)}"
            )
        return cls(max_epsilon, length, parts)

    def since(self, device_time: float) -> float:
        """Return the device time after which a use counts."""
        return -math.inf if self.per is None else device_time - self.per

    def room(self, name: str) -> Fraction:
        """Return the most that may count for a name: its share, or what the shares of others leave."""
        if name in self.shares:
            return Fraction(self.shares[name])
        return Fraction(self.max_epsilon) - sum(map(Fraction, self.shares.values()), Fraction())

    def in_room(self, name: str, charges: Mapping[str, Fraction]) -> Fraction:
        """Return the sum of the charges that take room from a name. Names without a share have one room together."""
        if name in self.shares:
            return charges.get(name, Fraction())
        return sum((charge for other, charge in charges.items() if other not in self.shares), Fraction())


def _read_shares(shares: Mapping[str, float] | None, max_epsilon: float) -> dict[str, float]:
    parts = dict(shares or {})
    for name, part in parts.items():
        if not isinstance(name, str) or isinstance(part, bool) or not isinstance(part, int | float) or not part > 0:
            raise ParameterError(f"shares must have numbers above 0 by the names of queries, got {shown(parts)}")
    if not sum(parts.values()) < math.inf or sum(map(Fraction, parts.values()), Fraction()) > Fraction(max_epsilon):
        raise ParameterError(f"the sum of shares must be at most max_epsilon, {max_epsilon:g}, got {shown(parts)}")
    return parts
