"""The next window of a query that closes, for a reader who waits for a result. Pure."""

import math
from typing import NamedTuple

from oracles.query import Query
from oracles.query.settings import Window


class NextWindow(NamedTuple):
    """The window of a query whose final comes first. Times are Unix seconds."""

    window: Window
    end: int
    due: int
    """The end plus the lateness. Workers publish the final a few seconds later, if the window has reports."""

    def ends(self, time: float) -> str:
        """Return the verb for the end. A window whose lateness is not over has ended already."""
        return "ends" if self.end > time else "ended"


def all_step(query: Query) -> int:
    """Return the seconds between two finals of `all`: a pane, or the time between searches for names."""
    return query.search or query.pane


def final_step(query: Query, window: Window) -> int:
    """Return the seconds between two finals of a kind of window."""
    return window.step or all_step(query)


def next_window(query: Query, time: float) -> NextWindow | None:
    """Return the first window whose final is due later than `time`, or None if the query has ended by then."""
    if math.isinf(time):
        return None
    # A definition may begin later. No window that ends before has reports.
    earliest = max(time - query.lateness, query.starts or 0)
    ends = {window: _multiple_after(earliest, final_step(query, window)) for window in query.windows}
    window = min(ends, key=lambda kind: (ends[kind], kind.size))
    end = ends[window]
    if query.until is not None and end - final_step(query, window) >= query.until:
        return None
    return NextWindow(window, end, end + query.lateness)


def _multiple_after(time: float, step: int) -> int:
    return (int(time // step) + 1) * step
