"""The times of simulated answers: at a rate, on the real clock or on a virtual one, or as fast as possible."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Protocol

Steps = AsyncIterator[tuple[int, int]]
"""The start of each step, in milliseconds since the Unix epoch, and the number of answers in it."""

STEP = 100
"""Milliseconds of a step. A second is a whole number of steps, so that no step touches two panes."""
FLOOD = 1 << 14
"""Answers of a step at the highest rate."""


class SimulationClock(Protocol):
    """A clock in Unix seconds, with an event that ends the simulation."""

    stop: asyncio.Event

    def now(self) -> float: ...

    async def until(self, moment: float) -> None:
        """Wait for a moment, or until `stop` is set."""


class RealClock:
    """The clock of the system."""

    def __init__(self) -> None:
        self.stop = asyncio.Event()

    def now(self) -> float:
        return time.time()

    async def until(self, moment: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, moment - self.now())):
                await self.stop.wait()


class VirtualClock:
    """A clock that jumps to each moment that a caller waits for. The steps are always the same."""

    def __init__(self, start: int) -> None:
        self.stop = asyncio.Event()
        self._now = float(start)

    def now(self) -> float:
        return self._now

    async def until(self, moment: float) -> None:
        self._now = max(self._now, moment)
        await asyncio.sleep(0)


async def steady_steps(clock: SimulationClock, start: int, end: float, rate: Callable[[float], float]) -> Steps:
    """Yield the steps from `start` to `end`, each when its time is over. `rate` is in answers per second."""
    balance = 0.0
    time_ms = 1000 * start
    while time_ms < 1000 * end:
        # A step waits for its end, because no answer may be from the future.
        await clock.until((time_ms + STEP) / 1000)
        if clock.stop.is_set():
            return
        # The parts of an answer add up, so that a low rate is kept too.
        balance += rate(time_ms / 1000) * STEP / 1000
        answers = int(balance)
        balance -= answers

        yield time_ms, answers
        time_ms += STEP


async def fastest_steps(clock: SimulationClock, end: float) -> Steps:
    """Yield steps of `FLOOD` answers at the present time, without a pause."""
    while clock.now() < end and not clock.stop.is_set():
        yield int(1000 * clock.now()), FLOOD
        await asyncio.sleep(0)
