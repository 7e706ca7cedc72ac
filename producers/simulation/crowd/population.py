"""Simulated clients: arrays of the values that they hold, of the changes that they join, and of their reports.

The randomness is NumPy's, fast and repeatable. It is for simulations, never for a person's answer.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from oracles.discover import Slots
from oracles.errors import ParameterError
from oracles.mechanisms.entropy import Seeded
from oracles.numbers import Scale
from oracles.query import Query
from oracles.types import Flags, Ints, Reports
from producers.client.respondents import RepeatedReports, Respondents
from producers.simulation.crowd.crowd_groups import CrowdGroups
from producers.simulation.crowd.distribution import Crowd
from producers.simulation.crowd.draws import Draws, generator
from producers.simulation.crowd.scenario import Attack, Change, Fade, Scenario, Shift, Surge
from producers.simulation.crowd.words import Dictionary, Words, placed

_BLOCK = 1 << 14
"""The most clients that are made at once."""
_BITS = 1 << 25
"""The most bits of their reports together."""


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """The answers of some clients at one time, in the order of the clients."""

    reports: Reports
    values: Ints
    """The true values or records; for attackers, the pretended ones."""
    honest: Flags
    conduct: NDArray[np.integer] | None
    """The position of each client's conduct in the scenario, or the number of conducts for a client without one.

    None if the scenario has no conducts.
    """
    groups: NDArray[np.uint8]
    """The number of each client's group."""


class Population:
    """Clients that answer in turn, round after round: after the last client the first one answers again.

    In each turn the share `churn` of the clients draws a new value, each client once in 1/churn turns.
    Charges, rounds and silence are those of the query.
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
        groups: CrowdGroups | None = None,
    ) -> None:
        if clients < 1:
            raise ParameterError(f"a population has at least 1 client, got {clients}")
        if not 0.0 <= churn <= 1.0:
            raise ParameterError(f"churn is a share from 0 to 1, got {churn}")

        self.query = query
        self.dictionary: Dictionary | None = None
        """The words of unknown strings, or None if the values are listed."""
        self.largest = max(domain.size for domain in query.answer_domains) - 1
        """The largest value."""
        if isinstance(query.oracle, Slots) and isinstance(crowd, Words):
            scenario, crowd = placed(scenario, crowd)
            self.dictionary = Dictionary(crowd, query.oracle)
            self.largest = len(crowd.texts) - 1

        self.clients = clients
        self.seed = seed
        self.scenario = scenario
        self.churn = churn
        self.groups = groups or CrowdGroups({0: 1.0}, {0: crowd})
        """The groups of the clients. Their distributions replace `crowd`."""
        changes = enumerate(scenario.changes)
        self.shifts = {index: _moves(query, change) for index, change in changes if isinstance(change, Shift)}
        """For each shift of the scenario, the bin to which it moves the numbers of each bin."""
        # A block of wide reports has fewer clients, so that their bits fit into memory.
        self.block = max(1, min(_BLOCK, clients, _BITS // (8 * query.oracle.width)))
        self.noise = generator(seed, Draws.REPORTS)
        self._blocks: dict[int, _Block] = {}

        self._answers = 0
        """The number of answers so far, those of silent clients included."""
        self._round = 0
        """The start of the present round."""
        self._round_start_answers = 0
        """The number of answers before the present round."""

    @property
    def silent(self) -> float:
        """The share of clients whose budget is spent."""
        if self.query.answers != "fresh":
            return 0.0
        last_answers = self._answers - self._round_start_answers - (self.query.charges - 1) * self.clients
        return min(max(last_answers, 0) / self.clients, 1.0)

    def inputs(self, values: Ints) -> Ints:
        """Return what clients perturb: their values, or the cells of their words."""
        return values if self.dictionary is None else self.dictionary.cells(values)

    def targets(self, attack: Attack) -> list[Ints]:
        """Return the targets of an attack for each attribute, or for each level and map of unknown strings."""
        if self.dictionary is not None:
            return self.dictionary.targets(int(target) for target in attack.targets[0])
        return [np.array(of_attribute, np.int64) for of_attribute in attack.targets]

    def answers(self, count: int, seconds: float, at: float = 0.0) -> Iterator[Answers]:
        """Yield the answers of the next `count` clients, `seconds` after the start, at a Unix time.

        Silent clients have their turn, but send nothing.
        """
        round_start = self.query.round(at)
        if round_start > self._round:
            self._round = round_start
            self._round_start_answers = self._answers

        begin = self._answers
        end = self._answers + count
        self._answers = end
        # Silent clients have their turn, so that the others answer at the same times as without them.
        if self.query.answers == "fresh":
            end = min(end, self._round_start_answers + self.query.charges * self.clients)

        while begin < end:
            turn, client = divmod(begin, self.clients)
            number, start = divmod(client, self.block)
            if number not in self._blocks:
                self._blocks[number] = _Block(self, number)
            block = self._blocks[number]
            stop = min(block.count, start + end - begin)
            yield block.answers(slice(start, stop), turn, self._round, seconds)
            begin += stop - start


class _Block:
    """Consecutive clients: each array has a place for each of them."""

    def __init__(self, population: Population, number: int) -> None:
        self.count = min(population.block, population.clients - number * population.block)
        self._population = population
        # Each stream has its own key, so that a change of the scenario leaves the values of all clients as they are.
        self._rng = generator(population.seed, Draws.VALUES, number)

        self._members = population.groups.draw_members(generator(population.seed, Draws.GROUPS, number), self.count)

        # The narrowest type, because a population of millions keeps the value of each client.
        self._values = self._draw(self._rng).astype(np.min_scalar_type(population.largest))
        self._phases = self._rng.random(self.count if population.churn else 0, np.float32)
        """When each client draws new values, as a part of 1/churn turns."""

        self._conduct = self._conducts(generator(population.seed, Draws.CONDUCT, number))
        self._eager: list[NDArray[np.float32]] = []
        """For each change a number in 0..1 a client: if the change's share is larger, the client takes part."""
        self._substitutes: list[NDArray[np.integer] | None] = []
        """For each change the values that its clients take up, or None if they follow from the change alone."""

        for index, change in enumerate(population.scenario.changes):
            rng = generator(population.seed, Draws.CHANGE, number, index)
            self._eager.append(rng.random(self.count, np.float32))
            self._substitutes.append(self._take_up(change, rng))
        self._start_round(0)

    def _conducts(self, rng: np.random.Generator) -> NDArray[np.integer] | None:
        shares = [conduct.share for conduct in self._population.scenario.conducts]
        if not shares:
            return None
        conducts = np.searchsorted(np.cumsum(shares), rng.random(self.count), side="right")
        return conducts.astype(np.min_scalar_type(len(shares)))

    def _draw(self, rng: np.random.Generator, rows: Ints | None = None, fade: Fade | None = None) -> Ints:
        """Draw values for these clients, or for all, without the value of a fade."""
        groups = self._population.groups
        if fade is not None:
            groups = groups.without(fade.attribute, int(fade.value))
        return groups.draw(rng, self._members if rows is None else self._members[rows])

    def _take_up(self, change: Change, rng: np.random.Generator) -> NDArray[np.integer] | None:
        if isinstance(change, Surge | Shift):
            return None
        if isinstance(change, Fade):
            return self._draw(rng, fade=change).astype(self._values.dtype)
        values = self._values.copy()
        for j, targets in enumerate(change.targets):
            if targets:
                _column(values, j)[:] = rng.choice(targets, self.count)
        return values

    def _start_round(self, round_start: int) -> None:
        """Forget the reports of the round before."""
        oracle = self._population.query.oracle
        noise = self._population.noise
        self._round = round_start
        self._respondents = Respondents(oracle, self.count, lambda *_: Seeded(noise))
        labels = 1 + len(self._population.scenario.changes)
        self._repeats = RepeatedReports(self.count, labels, oracle.width)
        """Whole reports: label 0 is the answer of a client that answers once, 1 and more are the attacks."""

    def answers(self, part: slice, turn: int, round_start: int, seconds: float) -> Answers:
        """Return the answers of a part of the block, in a turn and in the round that begins at `round_start`."""
        if round_start != self._round:
            self._start_round(round_start)
        if turn:
            self._draw_values(part, turn)

        own_values = self._values[part].astype(np.int64)
        values = own_values.copy()
        honest = np.ones(len(own_values), np.bool_)
        attacks: list[tuple[int, Attack, Ints]] = []

        for index, change in enumerate(self._population.scenario.changes):
            takes_part = self._eager[index][part] < change.course.at(seconds)
            if isinstance(change, Fade):
                takes_part &= _column(own_values, change.attribute) == change.value

            rows = np.flatnonzero(takes_part)
            substitutes = self._substitutes[index]
            if isinstance(change, Surge):
                _column(values, change.attribute)[rows] = change.value
            elif isinstance(change, Shift):
                column = _column(values, change.attribute)
                column[rows] = self._population.shifts[index][column[rows]]
            elif substitutes is not None:
                values[rows] = substitutes[part][rows]

            if isinstance(change, Attack):
                honest[rows] = False
                attacks.append((index, change, rows))

        reports = self._reports(part, own_values, values)
        # After all changes, because an attacker replaces a whole report.
        for index, change, rows in attacks:
            self._attack(reports, part, values, index, change, rows)

        conduct = None if self._conduct is None else self._conduct[part]
        return Answers(reports, values, honest, conduct, self._members[part])

    def _draw_values(self, part: slice, turn: int) -> None:
        """Draw new values for the clients of a part that change theirs in this turn."""
        churn = self._population.churn
        phases = self._phases[part].astype(np.float64)
        rows = part.start + np.flatnonzero(np.floor(turn * churn + phases) > np.floor((turn - 1) * churn + phases))
        if len(rows):
            self._values[rows] = self._draw(self._rng, rows)

    def _reports(self, part: slice, own_values: Ints, values: Ints) -> Reports:
        """Return the reports of a part, whose values with all changes are `values`."""
        query = self._population.query
        noise = self._population.noise
        if query.answers == "life":
            return self._respondents.reports(self._population.inputs(values), part)
        if query.answers == "fresh":
            return query.oracle.perturb(self._population.inputs(values), noise)

        # A client that answers once answered before anything changed.
        clients = np.arange(part.start, part.stop)
        inputs = self._population.inputs
        return self._repeats.reports(
            clients, 0, lambda positions: query.oracle.perturb(inputs(own_values[positions]), noise)
        )

    def _attack(self, reports: Reports, part: slice, values: Ints, index: int, change: Attack, rows: Ints) -> None:
        """Replace the reports of attackers, unless they are those of an honest client that holds the target."""
        query = self._population.query
        noise = self._population.noise
        targets = self._population.targets(change)
        inputs = self._population.inputs

        def forge(positions: Ints) -> Reports:
            if change.kind == "maximal_gain":
                return query.oracle.attack(targets, values[rows[positions]], noise)
            return query.oracle.perturb(inputs(values[rows[positions]]), noise)

        # Its report is that of an honest client already, unless it answered before the attack.
        if change.kind == "random_value" and query.answers != "once":
            return
        if query.answers == "fresh":
            reports[rows] = forge(np.arange(len(rows)))
        else:
            reports[rows] = self._repeats.reports(part.start + rows, index + 1, forge)


def _moves(query: Query, shift: Shift) -> Ints:
    """Return the bin of each bin's middle, multiplied by the factor of a shift."""
    scale = cast(Scale, query.domains[shift.attribute].scale)
    return scale.positions(scale.middles * shift.factor)


def _column(values: NDArray[np.integer], attribute: int) -> NDArray[np.integer]:
    """Return the values of one attribute, to be read or written."""
    return values if values.ndim == 1 else values[:, attribute]
