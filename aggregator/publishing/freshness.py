"""Freshness: how old the newest final may become while all is well."""

from oracles.query import Query
from oracles.query.settings import Window

PUBLISHING = 10
"""Seconds that workers may take from the moment when a window can be final to its record."""


def expected(query: Query, window: Window) -> int:
    """The age in seconds that the newest final of a kind of window reaches while all is well and reports come."""
    return (window.step or query.pane) + query.lateness + PUBLISHING


def shortest(query: Query) -> int:
    """Of all kinds of windows of a query, as that of the newest final of any."""
    return min(expected(query, window) for window in query.windows)
