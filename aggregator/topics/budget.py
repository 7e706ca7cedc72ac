"""A budget of bytes in flight: large records that a producer has, and that no broker has acknowledged yet.

One produce request holds a batch for every partition of a broker. Above socket.request.max.bytes
(100 MiB) the broker closes the connection, and an idempotent producer tries again for ever.
"""

import asyncio
from collections import deque
from typing import Any

MOST = 64 << 20
"""One record of the largest size, or several that come to no more."""
SMALL = 32 << 10
"""Below it a record is not counted: batches of those are small, whatever there is of them."""


class Budget:
    """The one of a producer; whoever came first is served first."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._taken = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def take(self, size: int) -> int:
        """Wait for so much; what was taken is returned, and goes to `hold` or `give_back`."""
        size = min(size, self._most)
        if size < SMALL:
            return 0
        if self._waiting or self._taken + size > self._most:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((size, turn))
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self.give_back(size)
                raise
        else:
            self._taken += size
        return size

    def give_back(self, size: int) -> None:
        self._taken -= size
        while self._waiting:
            size, turn = self._waiting[0]
            if not turn.cancelled() and self._taken + size > self._most:
                break
            self._waiting.popleft()
            if not turn.cancelled():
                self._taken += size
                turn.set_result(None)

    def hold(self, size: int, sent: "asyncio.Future[Any]") -> None:
        """Until the record is acknowledged, or has failed."""
        if size:
            sent.add_done_callback(lambda _: self.give_back(size))
