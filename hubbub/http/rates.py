"""The rates of requests: of each address, and of the networks around it."""

from collections import OrderedDict
from math import inf

from hubbub.http.fair_shares import CallerPath

SENDERS = 100_000
"""Limit of the number of remembered senders. The one with the oldest request is forgotten first."""
TIMES = {"/24": 64.0, "/32": 64.0, "/48": 16.0, "/56": 4.0}
"""Times the limit of an address that a network of IPv4 or IPv6 may have. One customer of a provider may own a /48."""


class Rates:
    """The rates of senders. Each may use `rate` units a second, and as many at once."""

    def __init__(self, rate: float, most: int = SENDERS) -> None:
        self._rate = rate
        # With less than one unit at once nobody could ever send.
        self._room = max(1.0, rate)
        self._most = most
        self._levels: OrderedDict[object, tuple[float, float]] = OrderedDict()
        """The remaining units of each sender, and the time of that number."""

    @property
    def limited(self) -> bool:
        return self._rate != inf

    def wait(self, sender: object, time_s: float) -> float:
        """Return the seconds until the sender has a unit, or 0 if it has one."""
        if not self.limited:
            return 0.0
        level = self.level(sender, time_s)
        self.keep(sender, level, time_s)
        return self.wait_at(level)

    def take(self, sender: object, time_s: float) -> float:
        """Take a unit and return 0, or return the seconds until the sender has one."""
        if not self.limited:
            return 0.0
        level = self.level(sender, time_s)
        wait = self.wait_at(level)
        self.keep(sender, level if wait else level - 1.0, time_s)
        return wait

    def charge(self, sender: object, time_s: float, units: float) -> None:
        """Take units, even more than the sender has, which then waits longer for the next one."""
        if self.limited:
            self.keep(sender, self.level(sender, time_s) - units, time_s)

    def level(self, sender: object, time_s: float) -> float:
        """Return the units of a sender, with those since its last request. A clock that was set back adds none."""
        entry = self._levels.get(sender)
        if entry is None:
            return self._room
        level, charge_time = entry
        return min(self._room, level + max(0.0, time_s - charge_time) * self._rate)

    def keep(self, sender: object, level: float, time_s: float) -> None:
        """Set the units of a sender. A refused request counts as its last one too, so that it is not forgotten."""
        self._levels[sender] = level, time_s
        self._levels.move_to_end(sender)
        # Strangers with many addresses would fill the memory. A forgotten sender starts with all its units.
        if len(self._levels) > self._most:
            self._levels.popitem(last=False)

    def wait_at(self, level: float, units: float = 1.0) -> float:
        """Return the seconds until a sender with this level has so many units."""
        return 0.0 if level >= units else (units - level) / self._rate


class NetworkRates:
    """The rates of all networks on the paths of callers. A request takes a unit of each, or a part of one."""

    def __init__(self, rate: float = inf) -> None:
        self._rates = {times: Rates(times * rate) for times in (1.0, *TIMES.values())}
        self.limited = rate != inf

    def take(self, path: CallerPath, time_s: float, units: float = 1.0) -> float:
        """Take these units of each network and return 0, or return the seconds until all of them have them."""
        if not self.limited:
            return 0.0
        wait = 0.0
        levels: list[tuple[Rates, str, float]] = []
        for name in path:
            rates = self._rates[TIMES.get(name[-3:], 1.0)]
            level = rates.level(name, time_s)
            levels.append((rates, name, level))
            if level < units:
                wait = max(wait, rates.wait_at(level, units))

        taken_units = 0.0 if wait else units
        for rates, name, level in levels:
            rates.keep(name, level - taken_units, time_s)
        return wait
