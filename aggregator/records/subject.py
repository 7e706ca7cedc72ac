"""The subjects of records: the attributes of a query, and how many values they have."""

from typing import NamedTuple

from oracles.query import Query
from oracles.query.domain import Domain, Ranges, Sets

PARTIAL_GROUPS = "partial_groups"
"""The flag of a total that lacks a group with reports, because the group is withheld."""
IMPOSSIBLE = "impossible"
"""The flag of counts that no crowd has. Such a record proves and promises nothing, and makes no alert."""
LARGE = 1 << 16
"""Values up to which a query shares its process with others."""


class Subject(NamedTuple):
    """A subject of estimates: one of several attributes, or the only answer, which has no name."""

    name: str | None
    domain: Domain
    sets: Sets
    ranges: Ranges


def subjects(query: Query) -> list[Subject]:
    """Return the subjects of a query, in the order of its attributes."""
    subjects = [Subject(part.name, part.domain, part.sets, part.ranges) for part in query.attributes]
    return subjects or [Subject(None, query.domains[0], query.sets, query.ranges)]


def value_count(query: Query) -> int:
    """Return the number of values of all attributes."""
    return sum(domain.size for domain in query.domains)


def estimate_count(query: Query) -> int:
    """Return the number of shares that a window estimates: of all values in the total and in each group."""
    return value_count(query) * (1 + len(query.groups.labels))
