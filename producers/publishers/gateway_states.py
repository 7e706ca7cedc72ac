"""The newest state of a gateway, read when an answer needs it and kept in a file for the next process."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from producers.files import read_file, replace_file
from producers.publishers.known_state import KnownState, Moment
from producers.publishers.spool import STATE

log = logging.getLogger(__name__)

_MOST = 32 << 20
"""Upper limit of the file, in bytes."""

Read = Callable[[], Awaitable[tuple[int, bytes]]]
"""A request for the state. It returns the status, or 0 without an answer, and the body."""


class GatewayStates:
    """The states that a publisher reads. Callers that wait together share one request."""

    def __init__(
        self,
        folder: Path,
        read: Read,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = folder / STATE
        self._read = read
        self._clock = clock
        self._monotonic = monotonic
        self._turn = asyncio.Lock()
        self._state: KnownState | None = None
        with suppress(OSError, ValueError):
            self._state = KnownState.restore(read_file(self._path, _MOST))
        self._file_state = self._state
        """The state in the file."""

    def moment(self) -> Moment:
        return Moment(self._clock(), self._monotonic())

    async def newest(self) -> KnownState | None:
        """Return a fresh state if a gateway answers, else the newest one that is known."""
        async with self._turn:
            if self._state is None or not self._state.is_fresh(self.moment()):
                await self._refresh()
            return self._state

    async def keep(self) -> None:
        """Write the state to the file, so that the next process may answer without contact."""
        state = self._state
        if state is None or state is self._file_state:
            return
        try:
            await asyncio.to_thread(replace_file, self._path, state.dump())
            self._file_state = state
        except OSError as error:
            # Without the file only a restart without contact is worse off.
            log.warning("the gateway's state cannot be kept: %s", error)

    def forget(self) -> None:
        """Forget the state, because a refusal shows that it is old."""
        self._state = None

    async def _refresh(self) -> None:
        # Noted before the request: what the gateway says may be as old as that.
        moment = self.moment()
        status, body = await self._read()
        if status == 404:
            self._state = KnownState(None, moment)
        elif status == 200:
            try:
                self._state = KnownState.parse(body, moment)
            except ValueError as error:
                log.warning("the gateway's state cannot be read: %s", error)
