"""Rounding up, so that a number of people in a text never promises too much."""


def round_up(number: int, digits: int) -> int:
    """Return a number, rounded up to so many digits.

    >>> round_up(31_813, 3), round_up(99_901, 2), round_up(7, 2)
    (31900, 100000, 7)
    """
    unit: int = 10 ** max(0, len(str(number)) - digits)
    return -(-number // unit) * unit
