"""The keys that a reader presses in the terminal, one at a time."""

import asyncio
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def keys(press: Callable[[str], None]) -> Iterator[None]:
    """Call `press` with each key until the end. Without a terminal for the input nothing happens."""
    if not sys.stdin.isatty():
        yield
        return

    import termios
    import tty

    number = sys.stdin.fileno()
    attributes = termios.tcgetattr(number)
    loop = asyncio.get_running_loop()
    # The shell would keep this mode, so the end restores the attributes, also after an error.
    tty.setcbreak(number)  # Ctrl-C still ends the command
    loop.add_reader(number, lambda: _read(number, press))
    try:
        yield
    finally:
        loop.remove_reader(number)
        termios.tcsetattr(number, termios.TCSADRAIN, attributes)


def _read(number: int, press: Callable[[str], None]) -> None:
    """Read what was typed. An escape sequence, as of an arrow, counts as its first character only."""
    text = os.read(number, 64).decode(errors="ignore")
    typed_keys = text[:1] if text.startswith("\x1b") else text
    for key in typed_keys:
        press(key)
