"""The surge of a demo: the scenario in which one value of a query surges. Pure."""

import json

from oracles.query import Query
from oracles.query.domain import OTHER

BEGINS, RISES, LASTS = 60, 5, 180
"""Seconds: after the start, until all who do have taken the value up, and until they let go of it again."""
SHARE = 0.1
"""Of all clients."""


def surging(query: Query) -> str:
    """The value that surges: one that few hold before, where the first values are the most common."""
    domain = query.domains[0]
    return domain.name(min(domain.named - 1, max(1, 42 * domain.named // 100))) if domain.named else OTHER


def scenario(query: Query) -> str:
    """The scenario as `hubbub simulate` reads it."""
    attribute = f"attribute = {_quoted(query.attributes[0].name)}\n" if query.attributes else ""
    return (
        f"[[surge]]\n{attribute}value = {_quoted(surging(query))}\nshare = {SHARE}\n"
        f'begins = "{BEGINS}s"\nrises = "{RISES}s"\nlasts = "{LASTS}s"\n'
    )


def _quoted(text: str) -> str:
    """A TOML string: JSON's, but for one character."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
