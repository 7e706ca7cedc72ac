"""The tables of docs/alternatives.md, which compare four ways to count at equal numbers of people: `make pages`."""

import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from oracles.central import crowd_epsilon, honest
from oracles.mechanisms import NEWEST, automatic

PAGE = Path(__file__).with_name("alternatives.md")
SIZE, FAMILY_ERROR, POWER = 64, 0.05, 0.9
CROWDS = (10_000, 100_000, 1_000_000)
EPSILONS = (1.0, 4.0)
THRESHOLD = 50
_BLOCK = re.compile(r"(<!-- (\w+) -->\n).*?(?=\n\n|\Z)", re.DOTALL)


def chances(epsilon: float, servers: int) -> NDArray[np.float64]:
    """Return the law of the noise that servers add to a count: each a discrete Laplace with a = exp(-epsilon/2).

    The middle of the array is zero. A person who changes the answer changes two counts by one each.
    """
    a = math.exp(-epsilon / 2)
    reach = math.ceil(60 / epsilon) * 2
    one = (1 - a) / (1 + a) * a ** np.abs(np.arange(-reach, reach + 1, dtype=np.float64))
    law = one
    for _ in range(servers - 1):
        law = np.convolve(law, one)
    return law


def central_error(epsilon: float, servers: int) -> float:
    """Return the standard deviation of a count, in people."""
    a = math.exp(-epsilon / 2)
    return math.sqrt(servers * 2 * a) / (1 - a)


def central_visible(epsilon: float, servers: int) -> int:
    """Return the smallest group that is significant with probability 0.9, by the same test as `detectable`."""
    law = chances(epsilon, servers)
    middle, tail = len(law) // 2, np.cumsum(law[::-1])[::-1]
    critical = int(np.argmax(tail <= FAMILY_ERROR / SIZE)) - middle
    return critical - int(np.flatnonzero(tail >= POWER)[-1] - middle)


def local_error(epsilon: float, people: int) -> float:
    """Return the standard error of a rare value, in people."""
    return people * automatic(epsilon, SIZE, edition=NEWEST).noise(people).sigma


def local_visible(epsilon: float, people: int) -> float:
    share = automatic(epsilon, SIZE, edition=NEWEST).detectable(people, FAMILY_ERROR)
    assert share is not None
    return share * people


def _number(value: float) -> str:
    """Return a number with three digits at most.

    >>> _number(1916.2), _number(3.958), _number(50)
    ('1,920', '3.96', '50')
    """
    return f"{float(f'{value:.3g}'):,g}" if value < 1_000 else f"{int(float(f'{value:.3g}')):,}"


def rows(
    local: Callable[[float, int], float], central: Callable[[float, int], float], star: float
) -> Iterator[tuple[str, list[float]]]:
    """Yield the label of each way, and its figures by the number of people."""
    for epsilon in EPSILONS:
        yield f"LDP, epsilon {epsilon:g}", [local(epsilon, people) for people in CROWDS]
    for label, servers in (("Prio, each of two servers adds noise", 2), ("enclave that adds noise", 1)):
        for epsilon in EPSILONS:
            yield f"{label}, epsilon {epsilon:g}", [central(epsilon, servers)] * len(CROWDS)
    yield f"STAR, threshold {THRESHOLD}", [star] * len(CROWDS)


def table(first: str, lines: Iterator[tuple[str, list[float]]]) -> str:
    head = [f"| {first} | {' | '.join(f'{people:,} people' for people in CROWDS)} |", f"|--|{'--|' * len(CROWDS)}"]
    return "\n".join([*head, *(f"| {label} | {' | '.join(map(_number, figures))} |" for label, figures in lines)])


def estimates_only() -> Iterator[tuple[str, list[float]]]:
    """Yield the figures for somebody who sees one published record of LDP at epsilon 1, and nothing else."""
    epsilons = [crowd_epsilon(EPSILONS[0], honest(people))[0] for people in CROWDS]
    yield "epsilon of one person against this reader", epsilons
    yield "standard error of LDP, in people", [local_error(EPSILONS[0], people) for people in CROWDS]
    yield "standard error of central noise at that epsilon", [central_error(epsilon, 1) for epsilon in epsilons]


def tables() -> dict[str, str]:
    """Return the tables by their names on the page."""
    return {
        "error": table("standard error of a rare value, in people", rows(local_error, central_error, 0)),
        "visible": table("smallest visible group, in people", rows(local_visible, central_visible, THRESHOLD)),
        "estimates": table("LDP at epsilon 1, for a reader of one record", estimates_only()),
    }


def page(content: str) -> str:
    """Return the page with current tables."""
    current = tables()
    return _BLOCK.sub(lambda match: match[1] + current[match[2]], content)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
