"""Parts of messages."""

from collections.abc import Sequence
from decimal import ROUND_CEILING, Context, Decimal

MOST = 5
"""The most names in a message."""


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
