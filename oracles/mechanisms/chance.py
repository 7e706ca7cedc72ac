"""Probabilities as integers: thresholds T of 2**64 whose ratio never exceeds exp(epsilon).

Floating point will not do: the floor of a float broke exp(epsilon) in half of all cases tried.
exp is taken of the float's exact value, at 60 digits, and the integers are compared there.
"""

import math
from decimal import Context, Decimal
from fractions import Fraction

ONE = 1 << 64
DIGITS = Context(prec=60)
"""Every step is taken here, so that no caller's own decimal context can change an integer."""


def exp(epsilon: float, parts: int = 1) -> Decimal:
    """E to the exact value of `epsilon`, or to that divided by `parts`, to 60 digits."""
    return DIGITS.exp(DIGITS.divide(Decimal(epsilon), parts))


def largest(losing: int, winning: int, limit: Decimal) -> int:
    """The largest T with (T / winning) / ((2**64 - T) / losing) <= limit.

    T of 2**64 is the chance of a group of `winning` equally likely outputs, the rest that of a
    group of `losing`: the ratio is that of one output's probabilities under two inputs.
    """
    share = DIGITS.multiply(limit, winning)
    guess = int(DIGITS.divide(DIGITS.multiply(share, ONE), DIGITS.add(share, losing)))

    def holds(threshold: int) -> bool:
        return threshold * losing <= DIGITS.multiply(share, ONE - threshold)

    while holds(guess + 1):
        guess += 1
    while not holds(guess):
        guess -= 1
    return guess


def amplified(epsilon: float, attributes: int) -> float:
    """ln(d (e - 1) + 1), rounded down to a float: what RS+FD spends on the attribute that it answers."""
    inner = DIGITS.add(DIGITS.multiply(DIGITS.subtract(exp(epsilon), 1), attributes), 1)
    return _down(DIGITS.ln(inner))


def divided(epsilon: float, attributes: int) -> float:
    """Epsilon / d, rounded down to a float, so that d of them never exceed epsilon."""
    return _down(DIGITS.divide(Decimal(epsilon), attributes))


def fraction(threshold: int) -> Fraction:
    """The exact probability of an event with this threshold."""
    return Fraction(threshold, ONE)


def _down(value: Decimal) -> float:
    near = float(value)
    return math.nextafter(near, 0.0) if Decimal(near) > value else near
