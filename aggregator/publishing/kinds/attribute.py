"""One attribute of a window, as all kinds of answers take it."""

from collections.abc import Set as AbstractSet
from typing import NamedTuple

from aggregator.merging.name_history import NameHistory
from aggregator.records.span import Span
from aggregator.records.subject import Subject
from aggregator.tallies.snapshot import Snapshot
from oracles.estimate import Estimate
from oracles.query import Query


class CountedAttribute(NamedTuple):
    """One attribute of a window, before its findings."""

    query: Query
    span: Span
    subject: Subject
    total: Snapshot
    """The reports of all attributes."""
    estimate: Estimate | None
    """The estimate of this one. Unknown strings have none."""
    flags: AbstractSet[str]
    history: NameHistory
    """The names that earlier searches have found."""
