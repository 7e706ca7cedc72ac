"""The traffic of a simulated crowd, step by step: its frames, in time, late, or twice.

Time is given and randomness is the seed's, so the same steps make the same frames, byte for byte.
"""

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import count

import numpy as np

from producers.batch import REPORTS
from producers.simulation.framing import Framer, Shipment
from producers.simulation.population import Draws, Population, generator
from producers.simulation.scenario import Conduct

STEP = 100
"""Milliseconds of a step: a whole number of them is a second, so that no step touches two panes."""
_PUNCTUAL = Conduct(1.0)


class Traffic:
    """The frames of a population from `start` on, in whole seconds since the Unix epoch."""

    def __init__(self, population: Population, start: int, partitions: int, most: int = REPORTS) -> None:
        self.population = population
        self.start = start
        self.answered = 0
        self._rng = generator(population.seed, Draws.FRAMES, start)
        conducts = (*population.scenario.conducts, _PUNCTUAL)
        self._ways = [(conduct, Framer(population.query, partitions, most, self._rng)) for conduct in conducts]
        self._held: list[tuple[int, int, Shipment]] = []
        """A heap of late shipments: when they are sent, and a number that keeps their order."""
        self._number = count()

    def step(self, at: int, answers: int) -> Iterator[Shipment]:
        """The frames of the step that begins at `at` (milliseconds), in which so many clients answer."""
        for group in self.population.answers(self.answered, answers, at / 1000 - self.start, at / 1000):
            for index, (conduct, framer) in enumerate(self._ways):
                rows = slice(None) if group.conduct is None else np.flatnonzero(group.conduct == index)
                reports = group.reports[rows]
                if len(reports):
                    pane = framer.pane(at + 1000 * conduct.clock)
                    full = framer.put(pane, reports, group.values[rows], group.honest[rows], at)
                    yield from self._sent(conduct, full)
        self.answered += answers
        for conduct, framer in self._ways:
            yield from self._sent(conduct, framer.overdue(at + STEP))
        while self._held and self._held[0][0] <= at:
            yield from self._twice(heapq.heappop(self._held)[2])

    def rest(self) -> Iterator[Shipment]:
        """The frames that still waited to be filled. Clients that would have been late never send."""
        for conduct, framer in self._ways:
            if conduct.late is None:
                yield from self._sent(conduct, framer.rest())

    def _sent(self, conduct: Conduct, shipments: Iterable[Shipment]) -> Iterator[Shipment]:
        """Those of these frames that are sent at once; the rest is held until it is late."""
        for shipment in shipments:
            if conduct.late is None:
                yield from self._twice(shipment)
            else:
                query = self.population.query
                due = 1000 * (shipment.pane + query.pane + query.lateness + conduct.late)
                heapq.heappush(self._held, (due, next(self._number), shipment))

    def _twice(self, shipment: Shipment) -> Iterator[Shipment]:
        """A shipment, and sometimes its frame once more, which counts for nobody."""
        yield shipment
        share = self.population.scenario.duplicates
        if share and self._rng.random() < share:
            yield replace(shipment, values=shipment.values[:0])
