"""The traffic of a simulated crowd, step by step: its frames in time, late or twice.

The caller passes the time, and all randomness comes from the seed, so the same steps make the same frames,
byte for byte.
"""

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import count

import numpy as np

from oracles.types import Ints
from producers.publishers.frames import REPORTS
from producers.simulation.crowd.draws import Draws, generator
from producers.simulation.crowd.population import Answers, Population
from producers.simulation.crowd.scenario import Conduct
from producers.simulation.delivery.schedule import STEP
from producers.simulation.delivery.simulated_frames import FrameBuilder, SimulatedFrame, SpreadAt

_PUNCTUAL = Conduct(1.0)


class Traffic:
    """The frames of a population from `start` on, a whole Unix second."""

    def __init__(
        self,
        population: Population,
        start: int,
        partitions: int,
        most: int = REPORTS,
        spread_at: SpreadAt | None = None,
    ) -> None:
        self.population = population
        self.start = start
        self._rng = generator(population.seed, Draws.FRAMES, start)
        conducts = (*population.scenario.conducts, _PUNCTUAL)
        self._builders = [
            (conduct, FrameBuilder(population.query, partitions, most, self._rng, spread_at)) for conduct in conducts
        ]
        self._late: list[tuple[int, int, SimulatedFrame]] = []
        """A heap of late frames: the time to send each, a number that keeps their order, and the frame."""
        self._number = count()

    def step(self, time_ms: int, answers: int) -> Iterator[SimulatedFrame]:
        """Yield the frames of the step that begins at `time_ms`, with so many answers."""
        for part in self.population.answers(answers, time_ms / 1000 - self.start, time_ms / 1000):
            for index, (conduct, builder) in enumerate(self._builders):
                for group, rows in _rows(part, index):
                    pane = builder.pane(time_ms + 1000 * conduct.clock)
                    reports = part.reports[rows]
                    frames = builder.put(pane, reports, part.values[rows], part.honest[rows], time_ms, group)
                    yield from self._on_time(conduct, frames)

        for conduct, builder in self._builders:
            yield from self._on_time(conduct, builder.overdue(time_ms + STEP))

        # Late frames wait in a heap, since a later pane may be due earlier: lateness belongs to the client.
        while self._late and self._late[0][0] <= time_ms:
            yield from self._duplicate(heapq.heappop(self._late)[2])

    def rest(self) -> Iterator[SimulatedFrame]:
        """Yield the open frames at the end. Late clients no longer send theirs."""
        for conduct, builder in self._builders:
            if conduct.late is None:
                yield from self._on_time(conduct, builder.rest())

    def _on_time(self, conduct: Conduct, frames: Iterable[SimulatedFrame]) -> Iterator[SimulatedFrame]:
        """Yield the frames of punctual clients, and keep the frames of late clients until their time."""
        for frame in frames:
            if conduct.late is None:
                yield from self._duplicate(frame)
            else:
                query = self.population.query
                moment = 1000 * (frame.pane + query.pane + query.lateness + conduct.late)
                heapq.heappush(self._late, (moment, next(self._number), frame))

    def _duplicate(self, frame: SimulatedFrame) -> Iterator[SimulatedFrame]:
        """Yield a frame, and sometimes a copy of it, which adds no true answers."""
        yield frame
        share = self.population.scenario.duplicates
        if share and self._rng.random() < share:
            yield replace(frame, values=frame.values[:0])


def _rows(part: Answers, conduct: int) -> Iterator[tuple[int, slice | Ints]]:
    """Yield the groups of the clients with a conduct, each with the rows of its clients."""
    # Most crowds have neither, and a slice saves a copy of their reports.
    if part.conduct is None and not part.groups.any():
        yield 0, slice(None)
        return
    behaves = np.ones(len(part.reports), np.bool_) if part.conduct is None else part.conduct == conduct
    for group in np.unique(part.groups[behaves]).tolist():
        yield group, np.flatnonzero(behaves & (part.groups == group))
