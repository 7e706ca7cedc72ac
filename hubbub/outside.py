"""Time and random names. Code that a simulated world runs takes them from here, so that the world can replace them."""

import secrets
import time
from collections.abc import Callable

monotonic: Callable[[], float] = time.monotonic
"""Return a time in seconds that never goes back."""
wall: Callable[[], float] = time.time
"""Return the Unix time in seconds."""
random_hex: Callable[[int], str] = secrets.token_hex
"""Return so many random bytes as hex digits."""


def wall_ms() -> int:
    """Return the Unix time in whole milliseconds."""
    return int(1000 * wall())
