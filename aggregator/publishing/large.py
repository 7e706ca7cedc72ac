"""Large queries: their estimates are made apart from those of others, which they would hold up."""

from oracles.query import Query

LARGE = 1 << 16
"""Values that a query may have beside others."""


def value_count(query: Query) -> int:
    """How many values it has, of all attributes."""
    return sum(domain.size for domain in query.domains)


def is_large(query: Query) -> bool:
    """Whether its estimates take so long that others must not wait for them."""
    return value_count(query) > LARGE
