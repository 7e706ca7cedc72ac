"""Lifetimes: the charges of a client's answers to a query, and the definitions that a budget allows."""

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

from oracles.errors import ParameterError
from oracles.mechanisms.protocol import Charge, Oracle
from oracles.multi.attributes import Multi
from oracles.query.settings import Place

_SLACK = 1 + Fraction(1, 10**12)
"""Tolerance of a budget, so that 0.3 is three times 0.1."""
# Fifty halvings reach the last bits of a float.
_ROUNDS = 50
DEVICE_EPSILON = 8.0
"""Epsilon that a device reveals over all queries, by default."""

Make = Callable[..., Oracle | Multi]
"""Function that returns the oracle of a query for another `oracle`, `buckets` or `epsilon`."""


def affords(budget: Fraction | float, amount: Fraction | float) -> bool:
    """Whether the budget allows this charge."""
    return Fraction(amount) <= Fraction(budget) * _SLACK


def times(budget: float, epsilon: float) -> int:
    """Return how often a budget allows an epsilon."""
    return int(Fraction(budget) / Fraction(epsilon) * _SLACK)


def check_lifetime(oracle: Oracle | Multi, budget: float, make: Make, place: Place) -> None:
    """Raise QueryError if the budget cannot pay for answers for life: then clients would be silent."""
    charge = oracle.life
    if charge is None:
        raise place.error(
            'must be "once" or "fresh" for rsfd, got "life": a fake answer that stays while the real one moves '
            "would tell which is real; smp can be answered for life"
        )
    if affords(budget, charge.amount):
        return
    ways = ", or ".join(_ways(charge, oracle.epsilon, budget, make))
    classes = f"K = {charge.times:,} classes at an epsilon of {charge.epsilon:g} are {float(charge.amount):g}"
    raise place.error(f'"life" charges more than the budget of {budget:g}: {classes}; {ways}')


def _ways(charge: Charge, epsilon: float, budget: float, make: Make) -> Iterator[str]:
    """Yield settings that would fit instead, in words."""
    yield f"use budget = {float(charge.amount):g}"
    fits = [
        buckets for buckets in (256, 128, 64, 32, 16, 8, 4, 2) if _fits(budget, make, oracle="olh", buckets=buckets)
    ]
    if fits:
        yield f'oracle = "olh" with buckets = {fits[0]}'
    less = _largest_epsilon(lambda smaller: _fits(budget, make, epsilon=smaller), epsilon)
    if less is not None:
        yield f"epsilon = {less:g}"
    yield 'answers = "once" or "fresh"'


def _fits(budget: float, make: Make, **other: Any) -> bool:
    try:
        charge = make(**other).life
    except ParameterError:
        return False
    return charge is not None and affords(budget, charge.amount)


def _largest_epsilon(holds: Callable[[float], bool], most: float) -> float | None:
    """Return the largest epsilon of five digits for which `holds` is true, or None.

    `holds` must be true for every smaller epsilon too.
    """
    low = 0.0
    high = most
    for _ in range(_ROUNDS):
        middle = (low + high) / 2
        if holds(middle):
            low = middle
        else:
            high = middle
    if not low:
        return None

    # Five digits may round up beyond the bound. Then the next smaller number of five digits is the answer.
    text = f"{low:.4e}"
    nearest = float(text)
    if holds(nearest):
        return nearest
    mantissa, _, exponent = text.partition("e")
    return float(f"{float(mantissa) - 1e-4:.4f}e{exponent}")
