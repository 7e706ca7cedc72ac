"""Probabilities as integers: thresholds T of 2**64 whose ratio never exceeds exp(epsilon).

Floats are not exact enough: the floor of a float broke exp(epsilon) in half of all cases tried. For this reason exp is
computed from the exact value of the float to 60 digits, and the integers are compared at that precision.
"""

import math
from decimal import Context, Decimal
from fractions import Fraction

ONE = 1 << 64
DIGITS = Context(prec=60)
"""Decimal context of every step. The decimal context of a caller changes no integer."""


def exp(epsilon: float, parts: int = 1) -> Decimal:
    """Return e to the exact value of `epsilon`, or of epsilon / `parts`, to 60 digits."""
    return DIGITS.exp(DIGITS.divide(Decimal(epsilon), parts))


def largest(losing: int, winning: int, limit: Decimal) -> int:
    """Return the largest T with (T / winning) / ((2**64 - T) / losing) <= limit.

    T / 2**64 is the probability of a group of `winning` equally likely outputs, and the rest that of a group of
    `losing`, so the ratio is that of one output's probabilities under two inputs.
    """
    share = DIGITS.multiply(limit, winning)
    guess = int(DIGITS.divide(DIGITS.multiply(share, ONE), DIGITS.add(share, losing)))

    def holds(threshold: int) -> bool:
        return threshold * losing <= DIGITS.multiply(share, ONE - threshold)

    # The quotient of 60 digits is rounded, so it can be off by one in either direction.
    while holds(guess + 1):
        guess += 1
    while not holds(guess):
        guess -= 1
    return guess


def amplified(epsilon: float, attributes: int) -> float:
    """Return ln(d (e - 1) + 1), rounded down to a float: the epsilon of the attribute that RS+FD answers."""
    inner = DIGITS.add(DIGITS.multiply(DIGITS.subtract(exp(epsilon), 1), attributes), 1)
    return _down(DIGITS.ln(inner))


def divided(epsilon: float, attributes: int) -> float:
    """Return epsilon / d, rounded down to a float, so that d of them never exceed epsilon."""
    return _down(DIGITS.divide(Decimal(epsilon), attributes))


def fraction(threshold: int) -> Fraction:
    """Return the exact probability of an event with this threshold."""
    return Fraction(threshold, ONE)


def up(value: Fraction) -> float:
    """Return a float that is not below the value."""
    approximation = float(value)
    return math.nextafter(approximation, math.inf) if Fraction(approximation) < value else approximation


def _down(value: Decimal) -> float:
    approximation = float(value)
    return math.nextafter(approximation, 0.0) if Decimal(approximation) > value else approximation
