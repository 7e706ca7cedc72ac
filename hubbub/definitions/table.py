"""The table of a query, as a query file would have it, with all defaults and domain files resolved."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from oracles.query import Query, parse
from oracles.query.keys import dump

__all__ = ["dump", "query_of"]

TIMES = ("from", "until")
"""The keys whose values are times."""


def query_of(name: str, definition: Mapping[str, Any]) -> Query:
    """Return the query of a table."""
    times = {key: datetime.fromtimestamp(definition[key], UTC) for key in TIMES if key in definition}
    queries = {"queries": {name: {**definition, **times}}}
    return parse(queries, "the topic of definitions", None, standing=True)[name]
