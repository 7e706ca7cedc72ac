"""Lifetimes: what a client's answers to a query cost it, and which definitions a budget can bear."""

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

from oracles.errors import ParameterError
from oracles.mechanisms.protocol import Charge, Oracle
from oracles.multi.attributes import Multi
from oracles.query.settings import Place

_SLACK = 1 + Fraction(1, 10**12)
"""A budget of 0.3 is three times 0.1."""
_ROUNDS = 50
DEVICE_EPSILON = 8.0
"""The epsilon that a device reveals over all queries, unless the application says otherwise."""

Make = Callable[..., Oracle | Multi]
"""The oracle of a query, had its file another `oracle`, `buckets` or `epsilon`."""


def affords(budget: float, amount: Fraction | float) -> bool:
    """Whether so much may be charged."""
    return Fraction(amount) <= Fraction(budget) * _SLACK


def times(budget: float, epsilon: float) -> int:
    """How often a budget bears an epsilon."""
    return int(Fraction(budget) / Fraction(epsilon) * _SLACK)


def bearable(oracle: Oracle | Multi, budget: float, make: Make, at: Place) -> None:
    """Refuse what a client that answers for life could not pay for, and would fall silent under."""
    charge = oracle.life
    if charge is None:
        raise at.error(
            'must be "once" or "fresh" for rsfd, got "life": a fake answer that stays while the real one moves '
            "would tell which is real; smp can be answered for life"
        )
    if affords(budget, charge.amount):
        return
    ways = ", or ".join(_ways(charge, oracle.epsilon, budget, make))
    classes = f"K = {charge.times:,} classes at an epsilon of {charge.epsilon:g} are {float(charge.amount):g}"
    raise at.error(f'"life" charges more than the budget of {budget:g}: {classes}; {ways}')


def _ways(charge: Charge, epsilon: float, budget: float, make: Make) -> Iterator[str]:
    """Settings that would do instead, in words."""
    yield f"budget = {float(charge.amount):g} would do"
    fits = [buckets for buckets in (256, 128, 64, 32, 16, 8, 4, 2) if _bears(budget, make, name="olh", buckets=buckets)]
    if fits:
        yield f'oracle = "olh" with buckets = {fits[0]}'
    less = _largest_epsilon(lambda smaller: _bears(budget, make, epsilon=smaller), epsilon)
    if less is not None:
        yield f"epsilon = {less:g}"
    yield 'answers = "once" or "fresh"'


def _bears(budget: float, make: Make, **other: Any) -> bool:
    try:
        charge = make(**other).life
    except ParameterError:
        return False
    return charge is not None and affords(budget, charge.amount)


def _largest_epsilon(holds: Callable[[float], bool], most: float) -> float | None:
    """The largest epsilon of five digits for which `holds`, which it does for every smaller one; None for none."""
    low, high = 0.0, most
    for _ in range(_ROUNDS):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    if not low:
        return None
    text = f"{low:.4e}"
    rounded = float(text)
    if holds(rounded):
        return rounded
    mantissa, _, exponent = text.partition("e")
    return float(f"{float(mantissa) - 1e-4:.4f}e{exponent}")
