"""The open connections of a port, and which of them is closed for a newcomer when there are too many."""

from collections.abc import Callable
from enum import Enum, auto
from weakref import WeakValueDictionary

from hubbub.http.addresses import Networks, shares

CONNECTIONS = 1_000
"""Limit of the connections of a port."""
EACH = 64
"""Limit of the connections of an address."""


class ConnectionState(Enum):
    SILENT = auto()
    """It has not sent a whole header yet."""
    IDLE = auto()
    """It is between two requests."""
    BUSY = auto()
    """It is within a request."""


class Group:
    """The connections that share a limit."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._members: dict[ConnectionState, dict[Connection, None]] = {state: {} for state in ConnectionState}
        """The connections of each state. The first one has been in it for the longest time."""

    def __len__(self) -> int:
        return sum(map(len, self._members.values()))

    @property
    def full(self) -> bool:
        return len(self) >= self._limit

    @property
    def replaceable(self) -> "Connection | None":
        """The connection to close for a newcomer, or None if all are within a request."""
        return next(iter(self._members[ConnectionState.SILENT] or self._members[ConnectionState.IDLE]), None)

    def add(self, connection: "Connection", state: ConnectionState) -> None:
        self._members[state][connection] = None

    def remove(self, connection: "Connection", state: ConnectionState) -> None:
        del self._members[state][connection]


class Connection:
    """An open connection, which counts in the group of the port and in those of its address."""

    def __init__(self, close: Callable[[], None], groups: tuple[Group, ...]) -> None:
        self.close = close
        self._groups = groups
        self._state = ConnectionState.SILENT
        for group in groups:
            group.add(self, self._state)

    def move(self, state: ConnectionState) -> None:
        for group in self._groups:
            group.remove(self, self._state)
            group.add(self, state)
        self._state = state

    def leave(self) -> None:
        """Count no more. The second call does nothing."""
        for group in self._groups:
            group.remove(self, self._state)
        self._groups = ()


class ConnectionLimits:
    """The connections of one port, with a limit for all and a limit for each address.

    At a limit a newcomer replaces the oldest connection that has not sent a whole header, or else the one that is idle
    for the longest time between two requests. If all are within a request, the newcomer is refused. So clients that
    only hold connections keep nobody out. Addresses in `exempt` have no limit of their own.
    """

    def __init__(self, most: int = CONNECTIONS, each: int = EACH, exempt: Networks = ()) -> None:
        self.refused = 0
        """Connections refused, or closed for a newcomer."""
        self._each = each
        self._exempt = exempt
        self._port = Group(most)
        self._networks: WeakValueDictionary[str, Group] = WeakValueDictionary()
        """The group of each network. Its connections keep it."""

    @property
    def open(self) -> int:
        return len(self._port)

    def admit(self, peer: str, close: Callable[[], None]) -> Connection | None:
        """Count a new connection from an address, or return None to refuse it. `close` closes the connection."""
        limits = shares(peer, self._each, self._exempt)
        groups = [self._networks.setdefault(network, Group(limit)) for network, limit in limits.items()]
        groups.append(self._port)
        full = next((group for group in groups if group.full), None)
        if full is not None:
            self.refused += 1
            replaceable = full.replaceable
            if replaceable is None:
                return None
            replaceable.leave()  # it is in all wider groups too, so they have room now
            replaceable.close()
        return Connection(close, tuple(groups))
