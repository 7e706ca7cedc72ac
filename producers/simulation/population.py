"""Simulated clients: what each of them answers, made anew from the seed whenever it is its turn.

Nothing is kept of a client. Its value, whether it takes part in a change and its memoised report
are all drawn from generators that the seed, a purpose and the number of its block determine, so a
client that is asked again says the same again, and ten million of them take no more memory than a
thousand. The randomness is NumPy's, fast and repeatable: it is a simulation, no person's answer.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from oracles.errors import ParameterError
from oracles.pure import Ints, Reports
from oracles.query import Query
from producers.simulation.attack import forge
from producers.simulation.distribution import Crowd, Floats
from producers.simulation.scenario import Attack, Change, Fade, Scenario, Surge

_BLOCK = 1 << 14
"""The most clients that are made at once."""
_BITS = 1 << 25
"""The most bits that their reports have together."""


class Purpose(IntEnum):
    """What a generator is for; each draws a stream of its own."""

    VALUES = 0
    REPORTS = 1
    CONDUCT = 2
    CHANGE = 3
    CHANGED_REPORTS = 4
    FRAMES = 5
    RUN = 6


def generator(seed: int, purpose: Purpose, *key: int) -> np.random.Generator:
    """The generator of a purpose: the same for the same seed and key, independent of all others."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(purpose, *key)))


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """What some clients say at a time, in their order."""

    reports: Reports
    values: Ints
    """The true ones, or records of them; of attackers what they pretend."""
    honest: NDArray[np.bool_]
    conduct: NDArray[np.intp] | None
    """Which of the scenario's conducts each client has, their number for none; None: none has one."""


class Population:
    """Clients that answer in turn, round after round: answer k is that of client k modulo their number."""

    def __init__(
        self,
        query: Query,
        crowd: Crowd,
        clients: int,
        seed: int,
        scenario: Scenario = Scenario(),  # noqa: B008 - it is immutable
        *,
        fresh: bool = False,
    ) -> None:
        if clients < 1:
            raise ParameterError(f"a population has at least 1 client, got {clients}")
        self.query = query
        self.crowd = crowd
        self.clients = clients
        self.seed = seed
        self.scenario = scenario
        self.fresh = fresh
        """Clients perturb anew in every round, as they should not, in place of sending the first report again."""
        self.block = max(1, min(_BLOCK, clients, _BITS // (8 * query.oracle.width)))
        self._latest: _Block | None = None

    def answers(self, begin: int, count: int, elapsed: float) -> Iterator[Answers]:
        """Answers number `begin` to `begin + count`, given `elapsed` seconds after the start."""
        end = begin + count
        while begin < end:
            turn, client = divmod(begin, self.clients)
            number, first = divmod(client, self.block)
            block = self._at(number, turn if self.fresh else 0)
            last = min(block.count, first + end - begin)
            yield block.answers(slice(first, last), elapsed)
            begin += last - first

    def _at(self, number: int, turn: int) -> "_Block":
        if self._latest is None or (self._latest.number, self._latest.turn) != (number, turn):
            self._latest = _Block(self, number, turn)
        return self._latest


@dataclass(frozen=True, slots=True, eq=False)
class _Layer:
    """What a change makes those of a block say who may take part in it."""

    rows: Ints
    eager: Floats
    """In 0..1: who is below the share of a time takes part in it."""
    values: Ints
    reports: Reports


class _Block:
    """Consecutive clients, in one round."""

    def __init__(self, population: Population, number: int, turn: int) -> None:
        self.number, self.turn = number, turn
        self._population = population
        self.count = min(population.block, population.clients - number * population.block)
        self.values = population.crowd.draw(self._rng(Purpose.VALUES), self.count)
        self._layers: dict[int, _Layer] = {}

    def _rng(self, purpose: Purpose, *key: int) -> np.random.Generator:
        return generator(self._population.seed, purpose, self.number, *key)

    @cached_property
    def reports(self) -> Reports:
        return self._population.query.oracle.perturb(self.values, self._rng(Purpose.REPORTS, self.turn))

    @cached_property
    def conduct(self) -> NDArray[np.intp] | None:
        shares = [conduct.share for conduct in self._population.scenario.conducts]
        drawn = self._rng(Purpose.CONDUCT).random(self.count) if shares else None
        return None if drawn is None else np.searchsorted(np.cumsum(shares), drawn, side="right")

    def answers(self, part: slice, elapsed: float) -> Answers:
        """What the clients of a part of the block say."""
        reports, values = self.reports[part], self.values[part]
        honest = np.ones(len(reports), np.bool_)
        changed = False
        for index, change in enumerate(self._population.scenario.changes):
            share = change.course.at(elapsed)
            if not share:
                continue
            layer = self._layer(index, change)
            begin, end = np.searchsorted(layer.rows, (part.start, part.stop))
            chosen = begin + np.flatnonzero(layer.eager[begin:end] < share)
            rows = layer.rows[chosen] - part.start
            if not changed:
                reports, values, changed = reports.copy(), values.copy(), True
            reports[rows], values[rows] = layer.reports[chosen], layer.values[chosen]
            honest[rows] = not isinstance(change, Attack)
        return Answers(reports, values, honest, None if self.conduct is None else self.conduct[part])

    def _layer(self, index: int, change: Change) -> _Layer:
        if index not in self._layers:
            self._layers[index] = self._make(index, change)
        return self._layers[index]

    def _make(self, index: int, change: Change) -> _Layer:
        rng = self._rng(Purpose.CHANGE, index)
        eager = rng.random(self.count)
        able = eager < change.course.share
        if isinstance(change, Fade):
            able &= _column(self.values, change.attribute) == change.value
        rows = np.flatnonzero(able)
        values = self._values(change, rows, rng)
        draw = self._rng(Purpose.CHANGED_REPORTS, index, self.turn)
        oracle = self._population.query.oracle
        if isinstance(change, Attack) and change.kind == "maximal_gain":
            reports = forge(oracle, [np.array(aims, np.int64) for aims in change.targets], values, draw)
        else:
            reports = oracle.perturb(values, draw)
        return _Layer(rows, eager[rows], values, reports)

    def _values(self, change: Change, rows: Ints, rng: np.random.Generator) -> Ints:
        """What those who take part hold, or pretend to hold."""
        if isinstance(change, Fade):
            return self._population.crowd.without(change.attribute, change.value).draw(rng, len(rows))
        values = self.values[rows]
        if isinstance(change, Surge):
            _column(values, change.attribute)[:] = change.value
            return values
        for j, aims in enumerate(change.targets):
            if aims:
                _column(values, j)[:] = rng.choice(aims, len(rows))
        return values


def _column(values: Ints, attribute: int) -> Ints:
    """The values of one attribute, to be read or written."""
    return values if values.ndim == 1 else values[:, attribute]
