"""How slow this machine is now. Limits that end a hang last longer on a slow or a busy one."""

import os
import time
from functools import cache

WORK = 0.05
"""Seconds of CPU that the timed piece of work takes."""


def patience(seconds: float) -> float:
    """Return the seconds after which an event that an idle machine shows within `seconds` counts as absent."""
    return seconds * slowness()


def slowness() -> float:
    """Return how many times longer work takes than on an idle core, at least 1."""
    # The load is the mean of a minute, so it comes too late for a test that begins together with other work.
    return max(1.0, _slowness_of_work(), os.getloadavg()[0] / (os.cpu_count() or 1))


@cache
def _slowness_of_work() -> float:
    """Return how many times longer a piece of work took than its CPU time, when this process first asked."""
    begin = time.perf_counter()
    end = time.thread_time() + WORK
    while time.thread_time() < end:
        pass
    return (time.perf_counter() - begin) / WORK
