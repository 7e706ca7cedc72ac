"""The scenario of a demo, in which one value of a query surges. Pure."""

import json

from oracles.query import Query
from oracles.query.domain import OTHER

BEGINS, RISES, LASTS = 60, 5, 180
"""Seconds from the start to the surge, of its rise, and of its whole length."""
SHARE = 0.1
"""Share of all clients that take part."""


def surge_value(query: Query) -> str:
    """Return the value that surges. Few clients hold it before, because the first values are the most common."""
    domain = query.domains[0]
    return domain.name(min(domain.named - 1, max(1, 42 * domain.named // 100))) if domain.named else OTHER


def scenario(query: Query) -> str:
    """Return the scenario as `hubbub simulate` reads it."""
    attribute = f"attribute = {_quote(query.attributes[0].name)}\n" if query.attributes else ""
    return (
        f"[[surge]]\n{attribute}value = {_quote(surge_value(query))}\nshare = {SHARE}\n"
        f'begins = "{BEGINS}s"\nrises = "{RISES}s"\nlasts = "{LASTS}s"\n'
    )


def _quote(text: str) -> str:
    """Return a TOML string. It equals the JSON string, except for one character."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
