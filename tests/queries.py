"""Queries for tests: a table of keys with usual values, and all that is made from it."""

import json
import re
from collections.abc import Mapping
from datetime import date
from types import MappingProxyType

from oracles.query import Query, parse

USUAL = MappingProxyType({"epsilon": 1.0, "pane": "10s"})
"""The keys that a file must have, for tests to which their values do not matter."""
LIVE = MappingProxyType({"crowd": 1, "budget": 1e9, "pane": "1s"})
"""Keys for tests with a real worker: a pane is final soon, and each client may report in each."""


def make_table(base: Mapping = USUAL, /, **keys) -> dict:
    """Return the table of a query. `keys` replace those of `base`, and `base` those that are usual."""
    return {**USUAL, **base, **keys}


def make_query(base: Mapping = USUAL, /, *, name="q", edition=1, standing=False, **keys) -> Query:
    """Return a query of a table."""
    return make_queries({name: make_table(base, **keys)}, edition=edition, standing=standing)[name]


def make_queries(tables: Mapping[str, Mapping], *, edition=1, standing=False) -> dict[str, Query]:
    """Return the queries of tables, by name."""
    return parse({"edition": edition, "queries": dict(tables)}, "test", ".", standing=standing)


def make_text(name: str, base: Mapping = USUAL, /, **keys) -> str:
    """Return a table as text of a query file. Texts of several queries may be joined."""
    lines = [f"{key} = {_toml(value)}\n" for key, value in make_table(base, **keys).items()]
    return f"[queries.{_key(name)}]\n" + "".join(lines)


def _key(name: str) -> str:
    return name if re.fullmatch(r"[\w-]+", name, re.ASCII) else json.dumps(name, ensure_ascii=False)


def _toml(value) -> str:
    """Return a value in TOML. Numbers, strings and truth values are written as in JSON."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(key)} = {_toml(part)}" for key, part in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, date):
        return value.isoformat()
    return json.dumps(value, ensure_ascii=False)
