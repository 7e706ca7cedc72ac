"""SIGTERM before a command handles signals by itself. It ends the command like Ctrl-C.

Python loses an exception that a signal raises in a destructor, or in the callback that ends an import. So the signal is
noted too, and a command looks for it when its event loop starts.
"""

import signal
from types import FrameType
from typing import NoReturn

_numbers: list[int] = []
"""The signals that have come."""


def install() -> None:
    """Let SIGTERM raise KeyboardInterrupt, and note it."""
    _numbers.clear()
    signal.signal(signal.SIGTERM, _interrupt)


def has_come() -> bool:
    """Whether SIGTERM has come since `install`."""
    return bool(_numbers)


def _interrupt(number: int, _frame: FrameType | None) -> NoReturn:
    _numbers.append(number)
    raise KeyboardInterrupt
