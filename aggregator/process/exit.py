"""How a worker ends: because it was asked to, or because it must not go on."""

import asyncio
import logging
import os
import signal
import sys
import threading
from collections.abc import Coroutine

from hubbub.rights import explained
from oracles.errors import HubbubError

log = logging.getLogger(__name__)

ORDER, HASTE = 9.0, 3.0
"""Seconds until the process ends whatever still hangs: nothing is lost, the next one goes on from the checkpoint."""


class Ending:
    """Fail-stop: whoever finds that memory and log may differ ends the process; a supervisor starts it again."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()
        self._code = 0

    def stop(self) -> None:
        """In order, as SIGTERM asks for."""
        self._end_within(ORDER)
        self._event.set()

    def fail(self, error: BaseException) -> None:
        """At once. May be called from any thread."""
        error = explained("worker", error) or error
        expected = isinstance(error, HubbubError)
        log.critical("%s", error if expected else repr(error), exc_info=None if expected else error)
        self._code = getattr(error, "exit_code", 1)
        self._end_within(HASTE)
        self._loop.call_soon_threadsafe(self._event.set)

    async def wait(self) -> int:
        """The exit code, once there is one."""
        await self._event.wait()
        return self._code

    def _end_within(self, seconds: float) -> None:
        deadline = threading.Timer(seconds, lambda: leave(self._code))
        deadline.daemon = True
        deadline.start()


async def until_asked(work: Coroutine[None, None, None]) -> None:
    """Do it until Ctrl-C or SIGTERM."""
    task = asyncio.ensure_future(work)
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    try:
        await task
    except asyncio.CancelledError:
        return


def leave(code: int) -> None:
    """End the process, threads of libraries included."""
    logging.shutdown()
    sys.stdout.flush()
    os._exit(code)
