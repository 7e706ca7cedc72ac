"""The TLS handshakes of a port. Only some are in progress, and the others wait for their turns."""

import asyncio
import time

from hubbub.http.connections import Connection, ConnectionState
from hubbub.http.cpu_turns import HANDSHAKE_COST, CpuTurns
from hubbub.http.fair_shares import FairShares

HANDSHAKES = 64
"""Limit of the handshakes in progress."""
LOOK = 0.002
"""Seconds between two looks whether a hello has been answered."""


class Handshakes:
    """The handshakes in progress: the port owes each an answer to its hello, which is nearly all of its CPU.

    The next one is of the caller who has used least CPU. After the answer the client owes its part. A silent client
    then holds its connection as in any other state, and no place that a later handshake needs. If it did, attackers
    from more networks than places would stop all others, because only time tells them from slow phones.
    """

    def __init__(self, turns: CpuTurns) -> None:
        self.shares = FairShares(HANDSHAKES, time.monotonic)
        self._turns = turns
        self._places = asyncio.Semaphore(HANDSHAKES)

    async def begin(self, connection: Connection) -> None:
        """Wait until the port may answer the hello of a connection."""
        connection.enter(ConnectionState.WORK, 0.0)
        await self._turns.take(connection, HANDSHAKE_COST)
        await self._places.acquire()
        connection.handshake = self.shares.enter(connection.path, 1, connection.give_way)

        # The work comes later, in callbacks of the event loop, but it belongs to this round.
        self._turns.spend(connection, HANDSHAKE_COST / 1e6)
        asyncio.get_running_loop().call_later(LOOK, self._look, connection)

    def end(self, connection: Connection) -> None:
        """Give the place of a connection to another one. The second call does nothing."""
        if connection.handshake is not None:
            self.shares.leave(connection.handshake)
            connection.handshake = None
            self._places.release()

    def _look(self, connection: Connection) -> None:
        """End the port's part once TLS has taken the hello, because it answers at once. The client owes the rest."""
        if connection.handshake is None:
            return
        if connection.unread:
            asyncio.get_running_loop().call_later(LOOK, self._look, connection)
            return
        self.end(connection)
        connection.enter(ConnectionState.HANDSHAKE, time.monotonic())
