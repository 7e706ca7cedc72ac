"""What all kinds of answers take and return: one attribute of a window, and what has changed in it."""

from collections.abc import Set as AbstractSet
from typing import NamedTuple

from aggregator.merging.name_history import NameHistory, NameSearch
from aggregator.records.alert import Alert
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
    is_impossible: bool | None = None
    """Whether no crowd has these counts, or None if the counts themselves are to be tested."""


class AttributeChanges(NamedTuple):
    """The alerts of one attribute of a final, and what later finals need."""

    alerts: list[Alert]
    state: bytes
    """The alert state after the final."""
    search: NameSearch | None = None
    """The search of a final of unknown strings, for the history of names."""
