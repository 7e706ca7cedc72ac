"""Predictions of the error and cost of each oracle, and of the clients or epsilon for a goal."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from oracles import ORACLES
from oracles.discover import FAMILY_ERROR
from oracles.errors import ParameterError
from oracles.kernels.exact import POWER
from oracles.mechanisms import NEWEST, fitted
from oracles.mechanisms.protocol import Oracle
from oracles.query import Query, parse
from oracles.types import MAX_EPSILON

MOST_CLIENTS = 10**15
_MORE = (100, 101, 102, 103)
"""Percentages of the clients to test, because power falls at some numbers but must stay above the goal."""
_STEPS_BACK = 64
"""Numbers of holders to try below the first solution."""
EPSILON_STEPS = 1000
"""Steps of epsilon per unit. A required epsilon is rounded up to one."""


@dataclass(frozen=True)
class Plan:
    """The setting to plan for, in which each client answers once with one of `size` values."""

    clients: int
    size: int
    epsilon: float
    family_error: float = FAMILY_ERROR
    answers: str = "once"
    budget: float | None = None
    """Epsilon of a round for answers for life. None means four times the epsilon of a report."""

    def limit(self, epsilon: float) -> float | None:
        """Return the budget of answers for life with this epsilon, or None for other answers."""
        if self.answers != "life":
            return None
        return 4.0 * epsilon if self.budget is None else self.budget

    @property
    def query(self) -> Query:
        """The query that a file of the newest edition would have."""
        table: dict[str, object] = {"domain": self.size, "other": False, "epsilon": self.epsilon, "pane": "1d"}
        table |= {"answers": self.answers, "family_error": self.family_error}
        if self.budget is not None:
            table["budget"] = self.budget
        return parse({"edition": NEWEST, "queries": {"planned": table}}, "plan", None)["planned"]


@dataclass(frozen=True)
class Prospect:
    """The predicted error and cost of one oracle."""

    oracle: Oracle
    sigma: float
    """The standard error of a share near zero."""
    detectable: float | None
    """The share that is significant with probability 0.9, or None if not even a share of 1 is."""
    work: int
    """Integers that the server changes for a report. 64 bits of a unary report are one integer."""
    shift_per_fake: float
    """The shift of a share by one fake report."""

    @property
    def fake_clients(self) -> float:
        """Return how many honest clients must change their answer to shift a share as much as one fake report."""
        return self.oracle.shift_per_fake(1)


@dataclass(frozen=True)
class Need:
    """The changes that make a share detectable with one oracle, or None if nothing within the limits does."""

    oracle: str
    clients: int | None
    """The clients at the epsilon of the plan."""
    epsilon: float | None
    """The epsilon with the clients of the plan."""


def prospects(plan: Plan) -> tuple[list[Prospect], dict[str, str]]:
    """Return the prospect of each available oracle, and the reasons why the others are not available."""
    choices = []
    reasons = {}
    for name in ORACLES:
        try:
            choices.append(prospect(plan, fitted(name, plan.epsilon, plan.size, plan.limit(plan.epsilon))))
        except ParameterError as error:
            reasons[name] = str(error)
    return choices, reasons


def prospect(plan: Plan, candidate: Oracle) -> Prospect:
    n = plan.clients
    detectable = candidate.detectable(n, plan.family_error)
    return Prospect(candidate, candidate.noise(n).sigma, detectable, candidate.work, candidate.shift_per_fake(n))


def need(plan: Plan, name: str, share: float) -> Need:
    """Return the clients, and the epsilon, that make `share` detectable."""

    def is_enough(clients: int, epsilon: float) -> bool:
        try:
            candidate = fitted(name, epsilon, plan.size, plan.limit(epsilon))
            return enough(candidate, clients, share, plan.family_error)
        except ParameterError:  # the epsilon is too small to compute with
            return False

    clients = least(lambda number: is_enough(number, plan.epsilon), MOST_CLIENTS)
    if clients is not None:  # fewer may be enough: power jumps with each whole client that has the value
        people = math.ceil(clients * share)
        starts = (math.floor(k / share) + 1 for k in range(max(people - _STEPS_BACK, 0), people))
        clients = next((n for n in starts if n < clients and is_enough(n, plan.epsilon)), clients)
        while clients > 1 and is_enough(clients - 1, plan.epsilon):
            clients -= 1

    steps = least(lambda number: is_enough(plan.clients, number / EPSILON_STEPS), int(MAX_EPSILON * EPSILON_STEPS))
    return Need(name, clients, None if steps is None else steps / EPSILON_STEPS)


def enough(candidate: Oracle, clients: int, share: float, family_error: float) -> bool:
    """Whether a share is significant with probability 0.9 for so many clients, and for a few more."""
    return all(candidate.power(more * clients // 100, share, family_error) >= POWER for more in _MORE)


def least(holds: Callable[[int], bool], most: int) -> int | None:
    """Return the least number from 1 to `most` for which `holds`, or None. Above that number it must hold too.

    >>> least(lambda number: number * number >= 50, 100)
    8
    """
    high = 1
    while not holds(high):
        if high >= most:
            return None
        high = min(2 * high, most)

    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
