"""How a worker ends: because it was asked to, or because it must not go on."""

import asyncio
import logging

from oracles.errors import HubbubError

log = logging.getLogger(__name__)


class Guarantee(HubbubError, RuntimeError):
    """A guarantee cannot be kept; the message says what to do."""

    exit_code = 4


class Ending:
    """Fail-stop: whoever finds that memory and log may differ ends the process; a supervisor starts it again."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()
        self.code = 0

    def stop(self) -> None:
        """In order, as SIGTERM asks for."""
        self._event.set()

    def fail(self, error: BaseException) -> None:
        """At once. May be called from any thread."""
        if isinstance(error, asyncio.CancelledError):
            return
        expected = isinstance(error, HubbubError)
        log.critical("%s", error or repr(error), exc_info=None if expected else error)
        self.code = getattr(error, "exit_code", 1) or 1
        self._loop.call_soon_threadsafe(self._event.set)

    async def wait(self) -> int:
        await self._event.wait()
        return self.code
