"""Rates of addresses: so many requests a second each, in memory only, and of so many addresses at most."""

from collections import OrderedDict
from math import inf

ADDRESSES = 100_000
"""How many are remembered; the longest silent one is forgotten first, and begins anew."""


class Rates:
    """A bucket of one second's requests an address. Time is told, not read."""

    def __init__(self, rate: float, most: int = ADDRESSES) -> None:
        self._rate = rate
        self._room = max(1.0, rate)
        self._most = most
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """The tokens left in a bucket, and since when."""

    @property
    def limited(self) -> bool:
        return self._rate != inf

    def take(self, address: str, now: float) -> float:
        """Take one request; the seconds to wait where there is none left, else 0. An infinite rate is no limit."""
        if not self.limited:
            return 0.0
        level, since = self._levels.pop(address, (self._room, now))
        level = min(self._room, level + (now - since) * self._rate)
        wait = 0.0 if level >= 1 else (1 - level) / self._rate
        self._levels[address] = (level if wait else level - 1, now)
        if len(self._levels) > self._most:
            self._levels.popitem(last=False)
        return wait
