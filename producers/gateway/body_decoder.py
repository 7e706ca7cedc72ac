"""The decoder of bodies. It decodes long ones in slices, so that other requests come between."""

import asyncio
import time
from collections.abc import Callable

from hubbub.http.connections import Connection
from hubbub.http.cpu_turns import SLICE, SLICE_COST, CpuTurns
from producers.gateway.access.limits import Work
from producers.gateway.access.tokens import Caller
from producers.gateway.intake.active_definitions import ActiveDefinitions
from producers.gateway.intake.submission import Reading, Submission

SHORT_BODY = 8 << 10
"""Bytes of a body that is decoded at once, because it takes less than a slice."""


class BodyDecoder:
    """The reader of submissions. It charges the caller for each frame."""

    def __init__(
        self,
        definitions: ActiveDefinitions,
        limit: int,
        work: Work,
        turns: CpuTurns,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._definitions = definitions
        self._limit = limit
        self._work = work
        self._turns = turns
        self._clock = clock

    async def submissions(
        self, body: bytes, kind: str, caller: Caller, time_s: float, connection: Connection | None = None
    ) -> list[Submission]:
        """Return the submissions of a body, or raise a Problem. `time_s` is in Unix seconds.

        Slices wait for the turns of a connection.
        """
        reading = Reading(body, kind, self._definitions.value, int(1000 * time_s), self._limit)
        self._work.charge(caller, reading.frames)

        steps = reading.steps()

        # A body of 2.4 kB with 10,000 frames held the loop for 0.3 s, so the decompressed length counts.
        if len(body) <= SHORT_BODY:
            for _ in steps:
                pass
            return reading.submissions()

        while True:
            if connection is not None:
                await self._turns.take(connection, SLICE_COST)
            end = self._clock() + SLICE
            if all(self._clock() < end for _ in steps):
                return reading.submissions()
            # Other requests get the loop here, even if no other body waits for the turn.
            await asyncio.sleep(0)
