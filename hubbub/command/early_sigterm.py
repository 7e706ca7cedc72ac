"""SIGTERM before a command handles signals by itself.

While modules are imported, nothing has begun, so the process ends at once. An exception would not do: Python and C
libraries replace it there, lose it, or crash. Afterwards the signal raises KeyboardInterrupt, like Ctrl-C. Python loses
an exception in a destructor, so the signal is noted too, and a command looks for it when its event loop starts.

Until this module is imported, the signal ends the process with -15. So it must not load typing, which takes as long as
the start of Python. `_signal` is the module signal without its enumerations.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from types import FrameType
    from typing import NoReturn
else:
    import _signal

_numbers: list[int] = []
"""The signals that have come."""


def exit_at_once() -> None:
    """Let SIGTERM end the process, with code 0. It is for the time of imports."""
    _numbers.clear()
    _signal.signal(_signal.SIGTERM, _exit)


def interrupt() -> None:
    """Let SIGTERM raise KeyboardInterrupt, and note it. It is for the time after the imports."""
    _signal.signal(_signal.SIGTERM, _interrupt)


def has_come() -> bool:
    """Whether SIGTERM has come since `interrupt`."""
    return bool(_numbers)


def _exit(_number: int, _frame: "FrameType | None") -> "NoReturn":
    os._exit(0)


def _interrupt(number: int, _frame: "FrameType | None") -> "NoReturn":
    _numbers.append(number)
    # An event loop that is only half made fails in its destructor, and its traceback would hide a wanted end.
    sys.unraisablehook = _ignore
    raise KeyboardInterrupt


def _ignore(_: object) -> None:
    """Say nothing of an error in a destructor."""
