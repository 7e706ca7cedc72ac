"""Records in flight, which a sender has sent and Kafka or a gateway has not acknowledged yet."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from oracles.errors import HubbubError


class _Send(NamedTuple):
    size: int
    reports: int
    start: float


def _nothing() -> int:
    return 0


class InFlight:
    """The records of one sender in flight: their bytes, room for more, the oldest, and the refused ones.

    They take at most `most` bytes, together with the bytes that `others` returns. A larger record goes alone. A record
    below `least` bytes neither counts nor waits.
    """

    def __init__(self, most: int, others: Callable[[], int] = _nothing, least: int = 0) -> None:
        self.bytes = 0
        """Bytes in flight, and bytes of reserved room."""
        self.refused = 0
        """The number of reports in failed records, until `take_refused`."""
        self.trouble: BaseException | None = None
        """The reason of the last failure, until a record is acknowledged."""
        self.progress = 0.0
        """The time of the last acknowledgement or failure, by the loop's clock."""

        self._most = most
        self._others = others
        self._least = least
        self._sends: dict[asyncio.Future[Any], _Send] = {}
        """The records in the order in which they were sent."""
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def room(self, size: int, seconds: float | None = None) -> AsyncIterator[None]:
        """Wait until `size` bytes fit, and reserve them during the block. Callers are served in their order.

        Raise TimeoutError after `seconds`.
        """
        if size < self._least:
            yield
            return
        await self._reserve(size, seconds)
        try:
            yield
        finally:
            self._release(size)

    def add(self, ack: "asyncio.Future[Any]", size: int, reports: int = 0) -> None:
        """Count a record until its future is done. Several records may share a future."""
        if size < self._least:
            return

        send = self._sends.get(ack)
        if send is None:
            send = _Send(0, 0, asyncio.get_running_loop().time())
            ack.add_done_callback(self._finish)
        self._sends[ack] = _Send(send.size + size, send.reports + reports, send.start)
        self.bytes += size

    @property
    def oldest(self) -> float | None:
        """The time at which the oldest record was sent, by the loop's clock. None if no record is in flight."""
        return next(iter(self._sends.values())).start if self._sends else None

    async def flush(self, seconds: float) -> int:
        """Wait until all present records are done, and return the number of reports that are not after `seconds`."""
        if not self._sends:
            return 0
        _, pending = await asyncio.wait(set(self._sends), timeout=seconds)
        return sum(self._sends[ack].reports for ack in pending)

    async def cancel(self) -> bool:
        """Cancel all records and wait for their ends. Return whether there was a record."""
        sends = set(self._sends)
        for ack in sends:
            ack.cancel()
        if sends:
            await asyncio.wait(sends)
        return bool(sends)

    def take_refused(self) -> int:
        """Return the number of refused reports since the last call."""
        reports = self.refused
        self.refused = 0
        return reports

    @property
    def reason(self) -> str:
        """The last trouble as the end of a message."""
        if self.trouble is None:
            return ""
        kind = "" if isinstance(self.trouble, HubbubError) else f"{type(self.trouble).__name__}: "
        return f": {kind}{self.trouble}"

    def _finish(self, ack: "asyncio.Future[Any]") -> None:
        send = self._sends.pop(ack)
        self.progress = asyncio.get_running_loop().time()
        error = None if ack.cancelled() else ack.exception()
        if error is not None:
            self.refused += send.reports
            self.trouble = error
        # Nobody has taken the refused reports yet, so their reason must stay.
        elif not self.refused:
            self.trouble = None
        self._release(send.size)

    async def _reserve(self, size: int, seconds: float | None) -> None:
        # A small record must not overtake one that waits, or a large one would wait for ever.
        if not self._waiting and self._fits(size):
            self.bytes += size
            return

        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size, turn))
        try:
            async with asyncio.timeout(seconds):
                await turn
        except BaseException:
            has_room = turn.done() and not turn.cancelled()  # the room came at the same moment
            self._release(size if has_room else 0)
            raise

    def _release(self, size: int) -> None:
        self.bytes -= size
        while self._waiting:
            size, turn = self._waiting[0]
            if not turn.cancelled() and not self._fits(size):
                break
            self._waiting.popleft()
            if not turn.cancelled():
                self.bytes += size
                turn.set_result(None)

    def _fits(self, size: int) -> bool:
        total = self.bytes + self._others()
        # A record above the limit goes if nothing else is in flight, because it never fits otherwise.
        return total == 0 or total + size <= self._most
