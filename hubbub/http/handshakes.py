"""The TLS handshakes of a port. Only some are in progress, and the others wait in the order of used CPU."""

import asyncio
import time
from collections.abc import Callable

from hubbub.http.connections import Connection, ConnectionState
from hubbub.http.cpu_order import CpuOrder
from hubbub.http.cpu_turns import HANDSHAKE_COST, CpuTurns
from hubbub.http.fair_shares import FairShares

HANDSHAKES = 64
"""Limit of the handshakes in progress."""
GRACE = 1.0
"""Seconds before a handshake owes progress, because the work for many others may delay it so long."""
WAIT = 0.25
"""Seconds that a handshake waits for a free place, before another one may give way to it."""
_MOST = 2.0
"""Seconds between two attempts to take a place."""


class Handshakes:
    """The places of handshakes in progress, and the connections that wait for one."""

    def __init__(self, turns: CpuTurns) -> None:
        self.shares = FairShares(HANDSHAKES, time.monotonic)
        self._turns = turns
        self._order = CpuOrder(turns.use)

    async def begin(self, connection: Connection, on_close: Callable[[], object]) -> None:
        """Wait until the handshake of a connection may begin. The other side owes its part from then on.

        `on_close` ends the wait if the connection has to give way.
        """
        connection.on_close = on_close
        try:
            if self._order.is_waiting or self.shares.held >= HANDSHAKES or not self._enter(connection):
                await self._wait(connection)
            await self._turns.take(connection, HANDSHAKE_COST)
        finally:
            connection.on_close = None

        # The work comes later, in callbacks of the event loop, but it belongs to this round.
        self._turns.spend(connection, HANDSHAKE_COST / 1e6)
        connection.enter(ConnectionState.HANDSHAKE, time.monotonic() + GRACE)

    def end(self, connection: Connection) -> None:
        """Give the place of a connection to another one. The second call does nothing."""
        place = connection.handshake
        if place is None:
            return
        connection.handshake = None
        connection.parts.discard(place)
        self.shares.leave(place)

        while self.shares.held < HANDSHAKES:
            waiter = self._order.next()
            if waiter is None:
                break
            waiter.wake()

    def _enter(self, connection: Connection) -> bool:
        """Take a place, and return whether the rule of fair shares allows it."""
        place = self.shares.enter(connection.path, 1, connection.give_way)
        if place is None:
            return False
        connection.handshake = place
        connection.parts.add(place)
        return True

    async def _wait(self, connection: Connection) -> None:
        """Wait for a free place, and try from time to time whether another handshake gives way."""
        loop = asyncio.get_running_loop()
        seconds = WAIT
        while connection.handshake is None:
            is_over = loop.create_future()

            def wake(is_over: asyncio.Future[None] = is_over) -> None:
                self._enter(connection)
                if not is_over.done():
                    is_over.set_result(None)

            waiter = self._order.wait(connection.path, 0, wake)
            try:
                async with asyncio.timeout(seconds):
                    await is_over
            except TimeoutError:
                seconds = min(2 * seconds, _MOST)
            finally:
                self._order.leave(waiter)
            if connection.handshake is None:
                self._enter(connection)
