"""Parts of messages."""

import math
from collections.abc import Sequence
from decimal import ROUND_CEILING, Context, Decimal

MOST = 5
"""The most names in a message."""
_MOST_ODDS = 1e12
"""Odds above which a text names no number."""


def few(names: Sequence[str]) -> str:
    """Return the first names, and the number of the others.

    >>> few(["a", "b"]), few(list("abcdefg"))
    ('a, b', 'a, b, c, d, e and 2 more')
    """
    more = f" and {len(names) - MOST:,} more" if len(names) > MOST else ""
    return ", ".join(names[:MOST]) + more


def percent(share: float) -> str:
    """Return a share in percent, with two digits.

    >>> percent(0.0221), percent(0.5), percent(0.00034)
    ('2.2%', '50%', '0.034%')
    """
    return f"{float(f'{100 * share:.2g}'):g}%"


def up(number: float | Decimal) -> str:
    """Return a number rounded up to five digits, so that the text never promises too much."""
    return f"{Context(prec=5, rounding=ROUND_CEILING).create_decimal(str(number)).normalize():f}"


def odds(epsilon: float) -> str:
    """Return the largest factor by which an epsilon changes odds, in three digits.

    >>> odds(1.0), odds(2.202062733218), odds(6.6852270786), odds(12.50667961609), odds(64.0)
    ('2.72', '9.04', '801', '270,000', 'more than 10^12')
    """
    # The epsilon is that of the text, so whoever computes with it gets the same odds.
    exponent = float(up(epsilon))
    if exponent > math.log(_MOST_ODDS):
        return "more than 10^12"

    factor = float(f"{math.exp(exponent):.3g}")
    return f"{factor:g}" if factor < 1000.0 else f"{factor:,.0f}"


def most_odds(epsilon: float) -> str:
    """Return the largest factor by which an epsilon changes odds, as a bound.

    >>> most_odds(1.0), most_odds(64.0)
    ('at most 2.72', 'perhaps more than 10^12')
    """
    factor = odds(epsilon)
    return f"perhaps {factor}" if factor.startswith("more") else f"at most {factor}"
