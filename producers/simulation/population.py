"""Simulated clients: what each of them answers, made anew from the seed whenever it is its turn.

Nothing is kept of a client. Its values, whether it takes part in a change and its noise are all drawn
from generators that the seed, a purpose and the number of its block determine, so a client that is
asked again says what its query's `answers` demands, and ten million of them take no more memory than a
thousand. The randomness is NumPy's, fast and repeatable: it is a simulation, no person's answer.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property, lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from oracles.errors import ParameterError
from oracles.mechanisms.protocol import Oracle
from oracles.multi.attributes import Multi
from oracles.query import Query
from oracles.types import Ints, Reports
from producers.respondents import Respondents
from producers.simulation.distribution import Crowd, Floats
from producers.simulation.repeats import Histories, few, one_by_one, respondents
from producers.simulation.scenario import Attack, Change, Fade, Scenario, Surge

_BLOCK = 1 << 14
"""The most clients that are made at once."""
_BITS = 1 << 25
"""The most bits that their reports have together."""


class Draws(IntEnum):
    """The uses of a generator; each draws a stream of its own."""

    VALUES = 0
    REPORTS = 1
    CONDUCT = 2
    CHANGE = 3
    CHANGED_REPORTS = 4
    FRAMES = 5
    RUN = 6
    LUCK = 7
    """When a client draws a new value."""


def generator(seed: int, purpose: Draws, *key: int) -> np.random.Generator:
    """The generator of a purpose: the same for the same seed and key, independent of all others."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(purpose, *key)))


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """The answers of some clients at a time, in their order; those that are silent are none of them."""

    reports: Reports
    values: Ints
    """The true ones, or records of them; of attackers what they pretend."""
    honest: NDArray[np.bool_]
    conduct: NDArray[np.intp] | None
    """Which of the scenario's conducts each client has, their number for none; None: none has one."""


class Population:
    """Clients that answer in turn, round after round: answer k is that of client k modulo their number.

    The share `churn` of them draws a new value from one of its answers to the next, each of them once in
    1/churn answers. Charges, rounds and silence are those of the query.
    """

    def __init__(
        self,
        query: Query,
        crowd: Crowd,
        clients: int,
        seed: int,
        scenario: Scenario = Scenario(),  # noqa: B008 - it is immutable
        *,
        churn: float = 0.0,
    ) -> None:
        if clients < 1:
            raise ParameterError(f"a population has at least 1 client, got {clients}")
        if not 0.0 <= churn <= 1.0:
            raise ParameterError(f"churn is a share from 0 to 1, got {churn}")
        self.query = query
        self.crowd = crowd
        self.clients = clients
        self.seed = seed
        self.scenario = scenario
        self.churn = churn
        self.block = max(1, min(_BLOCK, clients, _BITS // (8 * query.oracle.width)))
        self._asked = 0
        self._begun, self._first = 0, 0
        """The present round, and the number of its first answer."""
        self._latest: _Block | None = None

    @property
    def silent(self) -> float:
        """The share of clients whose budget is spent."""
        if self.query.answers != "fresh":
            return 0.0
        turns, more = divmod(self._asked - self._first, self.clients)
        spent = self.query.charges
        return 1.0 if turns >= spent else more / self.clients if turns + 1 >= spent else 0.0

    def answers(self, begin: int, count: int, elapsed: float, at: float = 0.0) -> Iterator[Answers]:
        """Answers number `begin` to `begin + count`, given `elapsed` seconds after the start, at a Unix time."""
        begun = self.query.round(at)
        if begun > self._begun:
            self._begun, self._first = begun, begin
        end = begin + count
        self._asked = max(self._asked, end)
        while begin < end:
            turn, client = divmod(begin, self.clients)
            number, first = divmod(client, self.block)
            block = self._at(number, turn)
            last = min(block.count, first + end - begin)
            said = block.answers(slice(first, last), elapsed)
            if len(said.reports):
                yield said
            begin += last - first

    def _at(self, number: int, turn: int) -> "_Block":
        key = (number, turn, self._begun)
        if self._latest is None or self._latest.key != key:
            self._latest = _Block(self, *key, self._first)
        return self._latest


@dataclass(frozen=True, slots=True, eq=False)
class _Layer:
    """The values that a change gives those of a block who may take part in it."""

    rows: Ints
    eager: Floats
    """In 0..1: who is below the share of a time takes part in it."""
    values: Ints
    reports: Reports


class _Block:
    """Consecutive clients, when they answer once, in one round."""

    def __init__(self, population: Population, number: int, turn: int, begun: int, first: int) -> None:
        self.key = (number, turn, begun)
        self.number, self.turn, self.begun = number, turn, begun
        self._population = population
        self.count = min(population.block, population.clients - number * population.block)
        self._clients = number * population.block + np.arange(self.count)
        self._first = first // population.clients + (self._clients < first % population.clients)
        """The turn of each client's first answer of the round."""
        self._held = lru_cache(maxsize=None)(self._draw_values)
        self.values = self._values_at(np.full(self.count, turn))
        self._layers: dict[int, _Layer] = {}

    def _rng(self, purpose: Draws, *key: int) -> np.random.Generator:
        return generator(self._population.seed, purpose, self.number, *key)

    def _draw_values(self, index: int) -> Ints:
        """The value of each client after it drew a new value so many times."""
        key = (index,) if index else ()
        return self._population.crowd.draw(self._rng(Draws.VALUES, *key), self.count)

    @cached_property
    def _luck(self) -> Floats:
        return self._rng(Draws.LUCK).random(self.count)

    def _indices(self, turns: Ints) -> Ints:
        """How often each client has drawn a new value by its turn."""
        churn = self._population.churn
        return np.floor(turns * churn + self._luck).astype(np.int64) if churn else np.zeros(self.count, np.int64)

    def _values_at(self, turns: Ints) -> Ints:
        indices = self._indices(turns)
        first, *others = np.unique(indices)
        values = self._held(int(first)).copy()
        for index in others:
            those = indices == index
            values[those] = self._held(int(index))[those]
        return values

    @cached_property
    def reports(self) -> Reports:
        """Of those who take part in no change, where it does not hang on what others of them say."""
        query = self._population.query
        if query.answers == "fresh":
            return query.oracle.perturb(self.values, self._rng(Draws.REPORTS, self.turn))
        return query.oracle.perturb(self._values_at(self._first), self._rng(Draws.REPORTS, self.begun))

    @cached_property
    def _respondents(self) -> Respondents:
        draw = partial(self._rng, Draws.REPORTS, self.begun)
        return respondents(self._population.query.oracle, self.count, draw)

    @cached_property
    def conduct(self) -> NDArray[np.intp] | None:
        shares = [conduct.share for conduct in self._population.scenario.conducts]
        drawn = self._rng(Draws.CONDUCT).random(self.count) if shares else None
        return None if drawn is None else np.searchsorted(np.cumsum(shares), drawn, side="right")

    def answers(self, part: slice, elapsed: float) -> Answers:
        """The answers of the clients of a part of the block."""
        values = self.values[part].copy()
        honest = np.ones(len(values), np.bool_)
        changed: list[tuple[Change, Ints, Reports]] = []
        for index, change in enumerate(self._population.scenario.changes):
            share = change.course.at(elapsed)
            if not share:
                continue
            layer = self._layer(index, change)
            begin, end = np.searchsorted(layer.rows, (part.start, part.stop))
            chosen = begin + np.flatnonzero(layer.eager[begin:end] < share)
            rows = layer.rows[chosen] - part.start
            values[rows] = layer.values[chosen]
            honest[rows] = not isinstance(change, Attack)
            changed.append((change, rows, layer.reports[chosen]))
        reports = self._said(values, part, changed)
        conduct = None if self.conduct is None else self.conduct[part]
        query = self._population.query
        if query.answers == "fresh":
            speaks = self.turn - self._first[part] < query.charges
            if not speaks.all():
                conduct = None if conduct is None else conduct[speaks]
                return Answers(reports[speaks], values[speaks], honest[speaks], conduct)
        return Answers(reports, values, honest, conduct)

    def _said(self, values: Ints, part: slice, changed: list[tuple[Change, Ints, Reports]]) -> Reports:
        """The reports of a part, some of whose clients take part in changes."""
        query, oracle = self._population.query, self._population.query.oracle
        anew = np.zeros(len(values), np.bool_)
        if query.answers != "life":
            reports = self.reports[part].copy() if changed else self.reports[part]
            # Who answers once has answered before anything changed, but an attacker lies whenever it likes.
            anew[:] = query.answers == "fresh"
        elif few(oracle):
            reports = self._respondents.reports(values, part)
        elif isinstance(oracle, Multi):
            reports = one_by_one(oracle, values, self._clients[part], self._population.seed, self.begun)
        else:
            reports, rows = self._histories.reports(values, part)
            anew[rows] = True
        for change, rows, drawn in changed:
            forged = isinstance(change, Attack) and (change.kind == "maximal_gain" or query.answers == "once")
            these = anew[rows] | forged
            reports[rows[these]] = drawn[these]
        return reports

    @cached_property
    def _histories(self) -> Histories:
        oracle = self._population.query.oracle
        assert isinstance(oracle, Oracle)  # noqa: S101 - records go another way
        draw = partial(self._rng, Draws.REPORTS, self.begun)
        now = self._indices(np.full(self.count, self.turn))
        return Histories(oracle, self._held, draw, self._indices(self._first), now)

    def _layer(self, index: int, change: Change) -> _Layer:
        if index not in self._layers:
            self._layers[index] = self._make(index, change)
        return self._layers[index]

    def _make(self, index: int, change: Change) -> _Layer:
        rng = self._rng(Draws.CHANGE, index)
        eager = rng.random(self.count)
        able = eager < change.course.share
        if isinstance(change, Fade):
            able &= _column(self.values, change.attribute) == change.value
        rows = np.flatnonzero(able)
        values = self._values(change, rows, rng)
        query = self._population.query
        when = self.turn if query.answers == "fresh" else self.begun
        draw = self._rng(Draws.CHANGED_REPORTS, index, when)
        if isinstance(change, Attack) and change.kind == "maximal_gain":
            reports = query.oracle.attack([np.array(aims, np.int64) for aims in change.targets], values, draw)
        else:
            reports = query.oracle.perturb(values, draw)
        return _Layer(rows, eager[rows], values, reports)

    def _values(self, change: Change, rows: Ints, rng: np.random.Generator) -> Ints:
        """The values that those who take part hold, or pretend to hold."""
        if isinstance(change, Fade):
            return self._population.crowd.without(change.attribute, change.value).draw(rng, self.count)[rows]
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
