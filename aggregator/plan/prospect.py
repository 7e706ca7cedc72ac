"""The prospect of a query before anyone answers it: the error and the cost of each oracle, and what a goal needs."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from oracles import ORACLES, oracle
from oracles.errors import ParameterError
from oracles.kernels.exact import POWER
from oracles.mechanisms.protocol import Oracle
from oracles.types import MAX_EPSILON

MOST_CLIENTS = 10**15
_MORE = (100, 101, 102, 103)
"""Percent of the clients asked for: power is a saw in their number, and must not fall below again."""
_TEETH = 64
EPSILON_STEPS = 1000
"""An epsilon that is needed is said in thousandths, rounded up."""


@dataclass(frozen=True)
class Plan:
    """A question to plan for: so many clients answer once, each one of `size` values."""

    clients: int
    size: int
    epsilon: float
    family_error: float = 0.05


@dataclass(frozen=True)
class Prospect:
    """The error and the cost of one oracle."""

    oracle: Oracle
    sigma: float
    """The standard error of a share near zero."""
    detectable: float | None
    """A share as large is found significant with probability 0.9; None: not even a share of 1 is."""
    work: int
    """Integers that the server changes a report: 64 bits of a unary report are one."""
    shift_per_fake: float

    @property
    def fake_clients(self) -> float:
        """How many honest clients have to change their answer to shift a share as far as one fake report."""
        return self.oracle.shift_per_fake(1)


@dataclass(frozen=True)
class Need:
    """The change that would make a share detectable with one oracle; None: nothing within the limits does."""

    oracle: str
    clients: int | None
    """At the epsilon of the plan."""
    epsilon: float | None
    """With the clients of the plan."""


def prospects(plan: Plan) -> tuple[list[Prospect], dict[str, str]]:
    """Of every oracle that can be had, and why the others cannot."""
    found, refused = [], {}
    for name in ORACLES:
        try:
            found.append(prospect(plan, oracle(name, epsilon=plan.epsilon, size=plan.size)))
        except ParameterError as error:
            refused[name] = str(error)
    return found, refused


def prospect(plan: Plan, chosen: Oracle) -> Prospect:
    n = plan.clients
    detectable = chosen.detectable(n, plan.family_error)
    return Prospect(chosen, chosen.noise(n).sigma, detectable, chosen.work, chosen.shift_per_fake(n))


def need(plan: Plan, name: str, share: float) -> Need:
    """How many clients, or which epsilon, make `share` detectable."""

    def found(clients: int, epsilon: float) -> bool:
        try:
            return enough(oracle(name, epsilon=epsilon, size=plan.size), clients, share, plan.family_error)
        except ParameterError:  # an epsilon too small to be told from zero
            return False

    clients = least(lambda number: found(number, plan.epsilon), MOST_CLIENTS)
    if clients is not None:  # fewer may do: power falls until the next whole person holds the value
        people = math.ceil(clients * share)
        starts = (math.floor(k / share) + 1 for k in range(max(people - _TEETH, 0), people))
        clients = next((n for n in starts if n < clients and found(n, plan.epsilon)), clients)
        while clients > 1 and found(clients - 1, plan.epsilon):
            clients -= 1
    steps = least(lambda number: found(plan.clients, number / EPSILON_STEPS), int(MAX_EPSILON * EPSILON_STEPS))
    return Need(name, clients, None if steps is None else steps / EPSILON_STEPS)


def enough(chosen: Oracle, clients: int, share: float, family_error: float) -> bool:
    """Whether a share is found with probability 0.9 by so many clients, and by a few more too."""
    return all(chosen.power(more * clients // 100, share, family_error) >= POWER for more in _MORE)


def least(holds: Callable[[int], bool], most: int) -> int | None:
    """The least number from 1 to `most` for which `holds`, which stays true once it is; None where it never is.

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
