"""The end of a worker, by request or after an error."""

import asyncio
import logging
import os
import signal
import sys
import threading
from collections.abc import Coroutine

from hubbub.kafka.rights import access_refusal
from oracles.errors import HubbubError

log = logging.getLogger(__name__)

ORDER, HASTE = 9.0, 3.0
"""Seconds until the process exits even if a task hangs. Nothing is lost: the next process starts at the checkpoint."""


class Ending:
    """The exit of a worker. If its memory may differ from the log, it exits, and a supervisor starts it again."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()
        self._code = 0

    def stop(self) -> None:
        """Stop in order, as after SIGTERM."""
        self._end_within(ORDER)
        self._event.set()

    def fail(self, error: BaseException) -> None:
        """Stop at once because of an error. Any thread may call it."""
        error = access_refusal("worker", error) or error
        is_ours = isinstance(error, HubbubError)
        log.critical("%s", error if is_ours else repr(error), exc_info=None if is_ours else error)
        self._code = getattr(error, "exit_code", 1)
        self._end_within(HASTE)
        self._loop.call_soon_threadsafe(self._event.set)

    async def wait(self) -> int:
        """Wait for the stop and return the exit code."""
        await self._event.wait()
        return self._code

    def _end_within(self, seconds: float) -> None:
        deadline = threading.Timer(seconds, lambda: exit_process(self._code))
        deadline.daemon = True
        deadline.start()


async def until_asked(work: Coroutine[None, None, None]) -> None:
    """Run `work` until Ctrl-C or SIGTERM."""
    task = asyncio.ensure_future(work)
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    try:
        await task
    except asyncio.CancelledError:
        return


def exit_process(code: int) -> None:
    """End the process, including the threads of libraries."""
    logging.shutdown()
    sys.stdout.flush()
    os._exit(code)
