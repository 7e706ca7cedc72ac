"""The scarce things of one port, which its callers share by one rule, and the look that ends slow connections."""

import asyncio
import socket
import time
from collections import Counter
from math import inf

from hubbub.http.addresses import Networks, contains, network_path
from hubbub.http.connections import Connection, ConnectionState
from hubbub.http.cpu_turns import CpuTurns
from hubbub.http.fair_shares import CallerPath, FairShares
from hubbub.http.handshakes import Handshakes
from hubbub.http.rates import TIMES, NetworkRates

CONNECTIONS = 1_000
"""Limit of the connections of a port."""
ANSWERS = 32 << 20
"""Limit of the unsent bytes of all answers of a port."""
PATIENCE = 10.0
"""Seconds of lag that end a connection or a body, also if nothing is full."""
LOOK = 1.0
"""Seconds between two looks at the bytes that have moved."""
PROXIES = ("proxies",)
"""The path of trusted proxies before a header and between requests."""
_SLICE = 500
"""Connections of a look without a turn of the event loop."""
_WIDEST = ("/24", "/32")
"""The networks without a limit of their own, because many customers of a provider are in one."""


class PortShares:
    """The connections, handshakes, unsent bytes and CPU of a port."""

    def __init__(
        self, connections: int = CONNECTIONS, each: float = inf, proxies: Networks = (), rate: float = inf
    ) -> None:
        """Share so many connections. `each` limits those of an address, except for trusted proxies.

        `rate` limits the requests of an address in a second, and with it those of the networks around it.
        """
        self._each = each
        self.proxies = proxies
        self.places = FairShares(connections, time.monotonic, self._limit)
        self.answers = FairShares(ANSWERS, time.monotonic)
        self.turns = CpuTurns()
        self.handshakes = Handshakes(self.turns)
        self.rates = NetworkRates(rate)
        self.ends: Counter[str] = Counter()
        """The connections, streams and bodies that were ended or refused, by reason."""
        self._connections: set[Connection] = set()

    @property
    def open(self) -> int:
        return self.places.held

    @property
    def refused(self) -> int:
        return self.ends.total()

    def admit(self, client: socket.socket, peer: str, *, has_tls: bool = False) -> Connection | None:
        """Give a new connection a place, or return None to refuse it."""
        is_proxy = contains(self.proxies, peer)
        path = PROXIES if is_proxy else network_path(peer)
        connection = Connection(client, path, self.answers, self.ends, is_proxy=is_proxy)
        connection.place = self.places.enter(path, 1, connection.give_way)
        if connection.place is None:
            self.ends["full"] += 1
            return None
        connection.enter(ConnectionState.HANDSHAKE if has_tls else ConnectionState.HEADER, time.monotonic())
        self._connections.add(connection)
        return connection

    def move(self, connection: Connection, client: str | None) -> None:
        """Let the connection of a trusted proxy count for a client, or for no client between requests."""
        connection.path = PROXIES if client is None else network_path(client)
        if connection.place is not None:
            self.places.move(connection.place, connection.path)

    def leave(self, connection: Connection) -> None:
        """Count a connection no more. The second call does nothing."""
        self._connections.discard(connection)
        connection.leave_answers()
        self.handshakes.end(connection)
        self.turns.settle(connection)
        if connection.place is not None:
            self.places.leave(connection.place)

    async def watch(self) -> None:
        """End connections with too great a lag, until cancelled."""
        while True:
            await asyncio.sleep(min(LOOK, PATIENCE / 4))
            for index, connection in enumerate(list(self._connections), 1):
                self._look(connection)
                if index % _SLICE == 0:
                    await asyncio.sleep(0)

    def _look(self, connection: Connection) -> None:
        if connection.place is None or not connection.place.is_held:
            self._connections.discard(connection)
            return
        lag = connection.look(time.monotonic())
        if lag > PATIENCE:
            self._end_slow(connection)
        elif not connection.hold_answer():
            self.leave(connection)
            connection.give_way()

    def _end_slow(self, connection: Connection) -> None:
        self.ends["slow"] += 1
        refuse = connection.on_slow
        if refuse is not None:
            refuse()
            return
        self.leave(connection)
        connection.close()

    def _limit(self, path: CallerPath) -> float:
        if path == PROXIES:
            return inf
        length = path[-1][-3:]
        return inf if length in _WIDEST else TIMES.get(length, 1.0) * self._each
