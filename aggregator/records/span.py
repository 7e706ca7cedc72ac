"""A window's bounds, and the age that its newest final reaches in normal operation."""

from typing import NamedTuple

from hubbub.next_window import final_step
from oracles.query import Query
from oracles.query.settings import Window

PUBLISH_SECONDS = 10
"""Seconds that workers may need from the time when a window can be final to its record."""
QUIET_PANES = 2
"""Closed panes in a row without reports after which a query is quiet."""
SCALES = (1, 2, 4, 8, 16, 32, 64)
"""Numbers of windows in the stretches of time that are compared."""


class Span(NamedTuple):
    """One window: [start, end) in Unix seconds."""

    window: Window
    start: int
    end: int

    def independent(self, n: int, query: Query) -> int:
        """Return how many of the window's n reports are independent, whatever values the clients have."""
        # A client whose noise repeats counts once, and in the worst case each client repeats it in every period.
        return n // query.repeats(self.start, self.end)


def expected_age(query: Query, window: Window) -> int:
    """Return the age in seconds that the newest final of a kind of window reaches in normal operation."""
    return final_step(query, window) + query.lateness + PUBLISH_SECONDS


def shortest_expected_age(query: Query) -> int:
    """Return the age in seconds that the newest final of any kind reaches in normal operation."""
    return min(expected_age(query, window) for window in query.windows)
