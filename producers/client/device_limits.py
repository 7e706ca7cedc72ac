"""The limit that an application sets for a device: max_epsilon in any stretch of a time."""

import math
from dataclasses import dataclass

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

    @classmethod
    def read(cls, max_epsilon: float, per: int | str | None) -> "Limits":
        """Return the limits of an application. `per` is in seconds, or a text such as "30d"."""
        if not 0 < max_epsilon < math.inf:
            raise ParameterError(f"max_epsilon must be a number above 0, got {max_epsilon!r}")
        if per is None:
            return cls(max_epsilon, None)

        length = seconds(per) if isinstance(per, str) else per
        if type(length) is not int or not SHORTEST <= length <= LONGEST:
            raise ParameterError(
                f'per must be a whole number of seconds from {SHORTEST} to {LONGEST}, or a text such as "30d", '
                f"got {shown(per)}"
            )
        return cls(max_epsilon, length)

    def since(self, device_time: float) -> float:
        """Return the device time after which a use counts."""
        return -math.inf if self.per is None else device_time - self.per
