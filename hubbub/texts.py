"""Parts of messages."""

from collections.abc import Sequence

NAMED = 5
"""The most names in a message."""


def few(names: Sequence[str]) -> str:
    """Return the first names, and the number of the others.

    >>> few(["a", "b"]), few(list("abcdefg"))
    ('a, b', 'a, b, c, d, e and 2 more')
    """
    more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
