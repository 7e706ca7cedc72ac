"""The end of a command, by request or after an error."""

import asyncio
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from hubbub.command import early_sigterm, logs
from hubbub.kafka.rights import access_refusal
from oracles.errors import HubbubError

log = logging.getLogger(__name__)

ORDER = 9.0
HASTE = 3.0
"""Seconds until the process exits even if a task hangs. Nothing is lost: the next process starts at the checkpoint."""
AGAIN = 0.5
"""Seconds until a task that has not ended is cancelled again."""

_Result = TypeVar("_Result")


class Ending:
    """The exit of a worker. If its memory may differ from the log, it exits, and a supervisor starts it again."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()
        self._code = 0

    def stop(self) -> None:
        """Stop in order, as after SIGTERM."""
        # The code is looked up at the deadline, because an error may follow the request.
        logs.mute_libraries()
        _exit_after(ORDER, lambda: self._code)
        self._event.set()

    def fail(self, error: BaseException) -> None:
        """Stop at once because of an error. Any thread may call it."""
        error = access_refusal("worker", error) or error
        is_ours = isinstance(error, HubbubError)
        log.critical("%s", error if is_ours else repr(error), exc_info=None if is_ours else error)
        if is_ours:
            logs.mute_libraries()
        self._code = getattr(error, "exit_code", 1)
        _exit_after(HASTE, lambda: self._code)
        self._loop.call_soon_threadsafe(self._event.set)

    async def wait(self) -> int:
        """Wait for the stop and return the exit code."""
        await self._event.wait()
        return self._code


async def until_asked(work: Coroutine[Any, Any, _Result]) -> _Result | None:
    """Run `work` until Ctrl-C or SIGTERM. Return its result, or None if a signal has ended it.

    `work` may set signal handlers of its own. Libraries can lose a cancellation. So `work` is cancelled again until it
    ends, and the process exits in any case.
    """
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(work)
    request = asyncio.Event()

    def cancel() -> None:
        if not task.done():
            task.cancel()
            # A library may have lost the cancellation, and the task would go on for ever.
            loop.call_later(AGAIN, cancel)

    def end() -> None:
        request.set()
        logs.mute_libraries()
        _exit_after(ORDER, lambda: 0)
        cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, end)
    # The signal may have come before these handlers, and a destructor may have lost its exception.
    if early_sigterm.has_come():
        end()
    try:
        return await task
    except asyncio.CancelledError:
        # Nobody asked for the end, so the caller itself was cancelled, and must see it.
        if not request.is_set():
            raise
        return None


def _exit_after(seconds: float, code: Callable[[], int]) -> None:
    """Exit in so many seconds, unless the process has ended by then."""
    deadline = threading.Timer(seconds, lambda: exit_process(code()))
    # The interpreter waits for threads that are no daemons, so each exit would take until the deadline.
    deadline.daemon = True
    deadline.start()


def exit_process(code: int) -> None:
    """End the process, including the threads of libraries."""
    # `os._exit` writes no buffers, so the last lines would be lost.
    logging.shutdown()
    sys.stdout.flush()
    os._exit(code)
