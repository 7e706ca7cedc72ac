"""When simulated clients answer: so many a second, on the real clock or a made-up one, or as fast as possible."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Protocol

from producers.simulation.traffic import STEP

Turns = AsyncIterator[tuple[int, int]]
"""When a step begins, in milliseconds since the Unix epoch, and how many answer in it."""

FLOOD = 1 << 14
"""Answers of a step where as many are sent as possible."""


class WallClock(Protocol):
    """Unix seconds, and whether someone has asked to end."""

    stop: asyncio.Event

    def now(self) -> float: ...

    async def until(self, moment: float) -> None:
        """Wait for a moment, or until someone asks to end."""


class Wall:
    """The time that it is."""

    def __init__(self) -> None:
        self.stop = asyncio.Event()

    def now(self) -> float:
        return time.time()

    async def until(self, moment: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self.stop.wait(), max(0.0, moment - self.now()))


class Virtual:
    """A time that passes only when it is waited for: the same steps always, as fast as they can be made."""

    def __init__(self, start: int) -> None:
        self.stop = asyncio.Event()
        self._now = float(start)

    def now(self) -> float:
        return self._now

    async def until(self, moment: float) -> None:
        self._now = max(self._now, moment)
        await asyncio.sleep(0)


async def paced(clock: WallClock, start: int, end: float, rate: Callable[[float], float]) -> Turns:
    """Steps from `start` to `end` in order, each once its time is over; `rate` is in answers a second."""
    owed, at = 0.0, 1000 * start
    while at < 1000 * end:
        await clock.until((at + STEP) / 1000)
        if clock.stop.is_set():
            return
        owed += rate(at / 1000) * STEP / 1000
        answers = int(owed)
        owed -= answers
        yield at, answers
        at += STEP


async def flooding(clock: WallClock, end: float) -> Turns:
    """Steps at the time that it is, one after another."""
    while clock.now() < end and not clock.stop.is_set():
        yield int(1000 * clock.now()), FLOOD
        await asyncio.sleep(0)
