"""The people that each arm of an experiment needs, so that a difference of one value is proved."""

import argparse
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from textwrap import wrap
from typing import cast

from aggregator.plan.check_text import WIDTH
from aggregator.plan.prospect import MOST_CLIENTS, Plan, least
from hubbub.command.options import share, whole
from oracles.errors import ParameterError
from oracles.estimate.covariance import quantile
from oracles.estimate.looks import EVERY_LOOK, ONE_LOOK, Looks
from oracles.mechanisms.protocol import Oracle
from oracles.types import MAX_SIZE, usable_epsilon

OPTIONS = ("--delta", "--values", "--json")
VALUES = 8
MOST_ARMS = 64
POWER_REACH = quantile(0.1)
"""Standard errors that an estimate stays above, with probability 0.9."""


@dataclass(frozen=True)
class Arms:
    """An experiment with arms of equal size. The first arm is compared with each of the others.

    All values have one share in the first arm. In another arm, one of them has `delta` more.
    """

    number: int
    delta: float
    plan: Plan
    """Its `clients` are not used."""

    def __post_init__(self) -> None:
        if self.delta + 1.0 / self.plan.size > 1.0:
            raise ParameterError(f"a value of share 1/{self.plan.size} cannot have {self.delta:g} more")

    @property
    def oracle(self) -> Oracle:
        """The oracle of the query that a file of the newest edition would have."""
        return cast(Oracle, self.plan.query.only_oracle)

    def people(self, looks: Looks) -> int | None:
        """Return the least people an arm with which the difference is proved with probability 0.9, or None."""
        oracle = self.oracle
        share = 1.0 / self.plan.size
        shares = share, share + self.delta
        sampling = sum(f * (1.0 - f) for f in shares)
        # The pairs share the family error, like those that `compare` of a query watches.
        level = 1.0 - self.plan.family_error / (self.plan.size * (self.number - 1))

        def is_enough(people: int) -> bool:
            noise = oracle.noise(people)
            variance = sum(noise.a + noise.b * f for f in shares) + sampling / people
            reach = looks.law(people, people).reach(level) + POWER_REACH
            return math.sqrt(variance) * reach <= self.delta

        return least(is_enough, MOST_CLIENTS)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of an experiment."""
    number = "plan an experiment of so many arms: the people that each arm needs"
    parser.add_argument("--arms", type=whole(2, MOST_ARMS), metavar="N", help=number)
    delta = "with --arms, the difference of a share that is proved with probability 0.9, such as 0.03"
    parser.add_argument("--delta", type=share, metavar="D", help=delta)
    values = f"with --arms, the number of values (default: {VALUES})"
    parser.add_argument("--values", type=whole(2, MAX_SIZE), default=VALUES, metavar="V", help=values)
    parser.add_argument("--json", action="store_true", help="with --arms, write one line of JSON for each plan")


def plan_lines(options: argparse.Namespace) -> Iterator[str]:
    """Yield the lines about the experiment of the options."""
    epsilon = usable_epsilon(options.epsilon)
    plan = Plan(1, options.values, epsilon, options.family_error, options.answers, options.budget)
    arms = Arms(options.arms, options.delta, plan)
    once = arms.people(ONE_LOOK)
    always = arms.people(EVERY_LOOK)
    if options.json:
        yield json.dumps({"arms": {"one": once, "always": always}})
        return

    yield f"{arms.number} arms, one of {plan.size:,} values each, epsilon {plan.epsilon:g}, {arms.oracle.name}"
    yield ""
    yield f"one look: {_people(once)}"
    yield f"read at every final: {_people(always)}"
    yield ""
    text = (
        f"A value with share 1/{plan.size:,} in the first arm and {arms.delta:g} more in another one is then proved to "
        f"differ with probability 0.9. Any false proof has probability {plan.family_error:g} at most, over all values "
        "and arms."
    )
    yield from wrap(text, WIDTH)


def _people(number: int | None) -> str:
    return "more than 10^15 people an arm" if number is None else f"{number:,} people an arm"
