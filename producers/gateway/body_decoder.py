"""The decoder of bodies. It decodes long ones in slices, one slice at a time, so that other requests come between."""

import asyncio
import time
from collections.abc import Callable

from producers.gateway.access.limits import Work
from producers.gateway.access.tokens import Caller
from producers.gateway.intake.active_definitions import ActiveDefinitions
from producers.gateway.intake.submission import Reading, Submission

SLICE = 0.005
"""Seconds of a slice."""
SHORT_BODY = 8 << 10
"""Bytes of a body that is decoded at once, because it takes less than a slice."""


class BodyDecoder:
    """The reader of submissions. It charges the caller for each frame."""

    def __init__(
        self, definitions: ActiveDefinitions, limit: int, work: Work, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._definitions = definitions
        self._limit = limit
        self._work = work
        self._clock = clock
        self._turn = asyncio.Lock()
        """The right to decode a slice. Long bodies get it in turn."""

    async def submissions(self, body: bytes, kind: str, caller: Caller, time_s: float) -> list[Submission]:
        """Return the submissions of a body, or raise a Problem. `time_s` is in Unix seconds."""
        reading = Reading(body, kind, self._definitions.value, int(1000 * time_s), self._limit)
        self._work.charge(caller, reading.frames)

        steps = reading.steps()

        # A body of 2.4 kB with 10,000 frames held the loop for 0.3 s, so the decompressed length counts.
        if len(body) <= SHORT_BODY:
            for _ in steps:
                pass
            return reading.submissions()

        while True:
            async with self._turn:
                end = self._clock() + SLICE
                if all(self._clock() < end for _ in steps):
                    return reading.submissions()
            # Other requests get the loop here, even if no other body waits for the turn.
            await asyncio.sleep(0)
