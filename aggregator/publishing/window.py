"""A window with its reports: all that its findings, its records and its alerts depend on, except earlier finals.

`find(window)` gives findings, `encode(findings)` records, and `decide(findings, ...)` alerts and states.
"""

from collections.abc import Sequence
from typing import NamedTuple

from aggregator.merging.marks import Withheld
from aggregator.merging.name_history import NameHistory
from aggregator.records.span import Span
from aggregator.tallies.snapshot import Snapshot
from oracles.query import Query


class CountedWindow(NamedTuple):
    """A window with the sum of its panes."""

    query: Query
    span: Span
    total: Snapshot
    withheld: Sequence[Withheld | None] = ()
    """The reason for which it shows no values, for each place. See QueryMarks."""
    through: int | None = None
    """The end of the panes of a provisional window, or None for a final."""
    totals: Sequence[bool] = ()
    """Whether a provisional window has the total of each attribute. Empty if it has all of them."""
    history: NameHistory = NameHistory()
    """The names that earlier searches have found."""

    @property
    def counted_span(self) -> Span:
        """The span of the panes in `total`."""
        return self.span if self.through is None else self.span._replace(end=self.through)
