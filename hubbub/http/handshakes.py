"""The TLS handshakes of a port. Only some are in progress, and the others wait in the order of used CPU."""

import asyncio
import time

from hubbub.http.connections import Connection, ConnectionState
from hubbub.http.cpu_order import CpuOrder, Waiter
from hubbub.http.cpu_turns import HANDSHAKE_COST, CpuTurns
from hubbub.http.fair_shares import FairShares

HANDSHAKES = 64
"""Limit of the handshakes in progress."""
GRACE = 2.5
"""Seconds of silence before a handshake owes progress. The slowest phones have a round trip of 2 s."""
PAUSE = 0.25
"""Seconds between two looks for handshakes that give way to those that wait."""


class Handshakes:
    """The places of handshakes in progress, and the connections that wait for one, in the order of used CPU."""

    def __init__(self, turns: CpuTurns) -> None:
        self.shares = FairShares(HANDSHAKES, time.monotonic)
        self._turns = turns
        self._order = CpuOrder(turns.use)
        self._waiting: dict[Waiter, Connection] = {}
        self._started: set[Connection] = set()
        """The connections with a place."""
        self._timer: asyncio.TimerHandle | None = None

    async def begin(self, connection: Connection) -> None:
        """Wait until the handshake of a connection may begin. The other side owes its part from then on."""
        connection.enter(ConnectionState.WORK, 0.0)
        if self._waiting or self.shares.held >= HANDSHAKES or not self._enter(connection):
            await self._wait(connection)
        await self._turns.take(connection, HANDSHAKE_COST)

        # The work comes later, in callbacks of the event loop, but it belongs to this round.
        self._turns.spend(connection, HANDSHAKE_COST / 1e6)
        connection.enter(ConnectionState.HANDSHAKE, time.monotonic() + GRACE)
        if connection.handshake is not None and connection.place is not None:
            connection.handshake.follow(connection.place)

    def end(self, connection: Connection) -> None:
        """Give the place of a connection to another one. The second call does nothing."""
        place = connection.handshake
        if place is None:
            return
        connection.handshake = None
        connection.parts.discard(place)
        self._started.discard(connection)
        self.shares.leave(place)
        while self._waiting and self.shares.held < HANDSHAKES:
            if not self._start_next():
                break

    def _enter(self, connection: Connection) -> bool:
        """Take a place, and return whether the rule of fair shares allows it."""
        place = self.shares.enter(connection.path, 1, connection.give_way)
        if place is None:
            return False
        connection.handshake = place
        connection.parts.add(place)
        self._started.add(connection)
        return True

    async def _wait(self, connection: Connection) -> None:
        loop = asyncio.get_running_loop()
        turn = loop.create_future()

        def wake() -> None:
            if not turn.done():
                turn.set_result(None)

        waiter = self._order.wait(connection.path, 0, wake)
        self._waiting[waiter] = connection
        if self._timer is None:
            self._timer = loop.call_later(PAUSE, self._look)
        try:
            await turn
        finally:
            self._order.leave(waiter)
            self._waiting.pop(waiter, None)

    def _look(self) -> None:
        """Let handshakes give way to those that wait."""
        self._timer = None
        for _ in range(HANDSHAKES):
            if not self._waiting or not self._start_next():
                break
        if self._waiting:
            self._timer = asyncio.get_running_loop().call_later(PAUSE, self._look)

    def _start_next(self) -> bool:
        """Give a place to the next connection, if there is one or if a handshake gives way."""
        waiter = self._order.first()
        if waiter is None:
            return False
        connection = self._waiting[waiter]
        if not self._enter(connection) and not (self._end_silent() and self._enter(connection)):
            return False
        del self._waiting[waiter]
        self._order.leave(waiter)
        waiter.wake()
        return True

    def _end_silent(self) -> bool:
        """End the handshake that lags most, if any does. With more callers than places each holds just one."""
        now = time.monotonic()
        silent = max(self._started, key=lambda connection: _lag(connection, now), default=None)
        if silent is None or silent.handshake is None or not _lag(silent, now):
            return False
        self.shares.leave(silent.handshake)
        silent.give_way()
        return True


def _lag(connection: Connection, now: float) -> float:
    place = connection.handshake
    return place.lag(now) if place is not None and place.is_held else 0.0
