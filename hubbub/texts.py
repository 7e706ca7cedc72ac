"""Parts of messages."""

from collections.abc import Sequence

MOST = 5
"""The most names in a message."""


def few(names: Sequence[str]) -> str:
    """Return the first names, and the number of the others.

    >>> few(["a", "b"]), few(list("abcdefg"))
    ('a, b', 'a, b, c, d, e and 2 more')
    """
    more = f" and {len(names) - MOST:,} more" if len(names) > MOST else ""
    return ", ".join(names[:MOST]) + more
