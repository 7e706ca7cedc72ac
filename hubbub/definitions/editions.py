"""The settings that a query keeps if its file leaves them open, and the queries that a new edition would end."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hubbub.definitions.table import dump, query_of
from hubbub.texts import MOST, few
from oracles.errors import HubbubError
from oracles.mechanisms import EDITION
from oracles.query import File, Query


def with_active_settings(query: Query, active: Query | None) -> Query:
    """Return the query with the active oracle, buckets, noise and table, if the file leaves them open.

    If the digest would still differ from the active one, return the query unchanged.
    """
    if active is None or not query.open or query.digest == active.digest:
        return query

    settings = {key: value for key, value in dump(active).items() if key in query.open}
    table = {key: value for key, value in dump(query).items() if key not in query.open} | settings
    try:
        candidate = query_of(query.name, table)
    except HubbubError:  # the active oracle does not suit the new settings
        return query
    return candidate if candidate.digest == active.digest else query


def differs_by_edition(file: File, candidate: Query, active: Query, editions: Mapping[bytes, int]) -> bool:
    """Whether only the edition of the file makes its query another one than the active query.

    `candidate` is the file's query with the active settings. `editions` has the edition of each digest in the topic.
    A change of answers or budget keeps the active settings.
    """
    query = file.queries[active.name]
    if candidate is query or file.edition == editions.get(active.digest, EDITION):
        return False
    return (query.answers, query.budget) == (active.answers, active.budget)


def lines_that_keep(query: Query, edition: int = EDITION) -> str:
    """Return the lines of a query file of this edition that keep the query as it is, in one text."""
    keys = ["noise", "table", "buckets"]
    if not query.attributes:
        keys[2:2] = ["oracle"]
        keys += ["subset", "rows"]
    table = dump(query)
    lines = [f"{key} = {_toml(table[key])}" for key in keys if key in table]
    if edition >= 3:
        # Its default is another one. A definition without the key is on all partitions.
        lines.append(f"spread = {_toml(table.get('spread', 'all'))}")
    return ", ".join(lines)


def _toml(value: Any) -> str:
    """Return a text, a number or a table of numbers as TOML."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(key)} = {number}" for key, number in value.items()) + " }"
    return json.dumps(value)


def edition_text(path: Path, edition: int, lines: Mapping[str, str]) -> str:
    """Return the message about queries whose digest only the edition of the file changes."""
    queries = "; ".join(f"[queries.{name}] {text}" for name, text in list(lines.items())[:MOST])
    more = " and so on" if len(lines) > MOST else ""
    options = " ".join(f"--retire {name}" for name in list(lines)[:MOST])
    return (
        f"{path}: edition = {edition} changes the digests of active queries ({len(lines):,}): {few(list(lines))}. "
        f"Their clients would be charged again. To keep the queries, add these lines: {queries}{more}. "
        f"To start them again with new digests, use {options}{more}"
    )
