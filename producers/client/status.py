"""The charges of a device, for a page that shows a person what was revealed."""

from dataclasses import dataclass


@dataclass(frozen=True)
class QueryStatus:
    """The charges of all definitions with one name, in epsilon."""

    name: str
    counted: float
    """The part that counts against max_epsilon now."""
    life: float
    """All charges ever."""


@dataclass(frozen=True)
class Status:
    """The charges of a device, in epsilon, and the time of the next answer to one query."""

    due: float
    """A time in the next open period, in Unix seconds."""
    spent: float
    """The charge of this query in its present round."""
    remaining: float
    """The rest of the query's budget in its present round, or of max_epsilon if that is less."""
    max_epsilon: float
    per: int | None
    """Seconds after which a charge expires, or None if charges never expire."""
    counted: float
    """The sum that counts against max_epsilon now, over all queries."""
    life: float
    """The sum of all charges ever, over all queries."""
    lengthened: bool
    """Whether the present round is longer than the query's `renew` says."""
    queries: tuple[QueryStatus, ...]
    """The charges of each query that has any, in the order of the names."""
