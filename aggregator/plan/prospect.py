"""What a query would give before anyone answers it: the error and the cost of each oracle, and what a goal needs."""

from collections.abc import Callable
from dataclasses import dataclass

from oracles import ORACLES, oracle
from oracles.errors import ParameterError
from oracles.mechanisms.grr import Grr
from oracles.mechanisms.hashing import Hashing
from oracles.pure import MAX_EPSILON, Oracle

MOST_CLIENTS = 10**15
EPSILON_STEPS = 1000
"""An epsilon that is needed is said in thousandths, rounded up."""
WORD = 64


@dataclass(frozen=True)
class Plan:
    """What is asked: so many clients answer once, each one of `size` values."""

    clients: int
    size: int
    epsilon: float
    family_error: float = 0.05


@dataclass(frozen=True)
class Prospect:
    """What one oracle would give."""

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
    """What would make a share detectable with one oracle; None: nothing within the limits does."""

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
    noise = chosen.noise(plan.clients)
    detectable = noise.detectable(plan.size, plan.family_error)
    return Prospect(chosen, noise.sigma, detectable, work(chosen), chosen.shift_per_fake(plan.clients))


def work(chosen: Oracle) -> int:
    """Integers that counting one report changes."""
    if isinstance(chosen, Grr):
        return 1
    if isinstance(chosen, Hashing):
        return chosen.buckets - 1
    return -(-chosen.size // WORD)


def need(plan: Plan, name: str, share: float) -> Need:
    """How many clients, or which epsilon, make `share` detectable."""

    def found(clients: int, epsilon: float) -> bool:
        try:
            noise = oracle(name, epsilon=epsilon, size=plan.size).noise(clients)
        except ParameterError:  # an epsilon too small to be told from zero
            return False
        detectable = noise.detectable(plan.size, plan.family_error)
        return detectable is not None and detectable <= share

    clients = least(lambda number: found(number, plan.epsilon), MOST_CLIENTS)
    steps = least(lambda number: found(plan.clients, number / EPSILON_STEPS), int(MAX_EPSILON * EPSILON_STEPS))
    return Need(name, clients, None if steps is None else steps / EPSILON_STEPS)


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
