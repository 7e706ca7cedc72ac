"""The crowd of a demo, in which one value of a query surges, or a tenth of its numbers grow. Pure."""

import json
import math

from oracles.numbers import LOG
from oracles.query import Query
from oracles.query.domain import OTHER

BEGINS, RISES, LASTS = 60, 5, 180
"""Seconds from the start to the surge, of its rise, and of its whole length."""
SHARE = 0.1
"""Share of all clients that take part."""
MIDDLE, WIDTH = 0.46, 0.092
"""Mean and standard deviation of numbers, as parts of their scale."""
FACTOR = 4.0
"""The factor by which their numbers grow."""
EXPONENTS = (1.1, 0.7, 1.5)
"""How uneven the values of the groups are, in turn. The first values are the most common."""
APART = 0.04
"""How far the numbers of the groups are apart, as a part of their scale."""


def values(query: Query, group: int = 0) -> str:
    """Return the distribution of the values in a group. Most numbers are somewhat below the middle of their scale."""
    scale, turn = query.domains[0].scale, group % len(EXPONENTS)
    if scale is None or query.attributes:
        return f"zipf:{EXPONENTS[turn]}"
    is_log = scale.kind == LOG
    low, high = (math.log(scale.low), math.log(scale.high)) if is_log else (scale.low, scale.high)
    law, mean, deviation = (
        "lognormal" if is_log else "normal",
        low + (MIDDLE + APART * turn) * (high - low),
        WIDTH * (high - low),
    )
    return f"{law}:{mean:.4g},{deviation:.4g}" if mean > 0.0 else "uniform"


def groups(query: Query) -> list[str]:
    """Return the options of `hubbub simulate` for groups that differ. The first ones are the largest."""
    if query.groups is None:
        return []
    names = query.groups.values
    total = sum(1.0 / place for place in range(1, 1 + len(names)))
    shares = ",".join(f"{name}={1.0 / place / total!r}" for place, name in enumerate(names, 1))
    own = [f"{name}={values(query, place)}" for place, name in enumerate(names)]
    return ["--groups", shares, *(text for spec in own for text in ("--group-values", spec))]


def event(query: Query) -> str:
    """Return what happens in the demo, in words."""
    has_numbers = query.domains[0].scale is not None
    what = "p95" if has_numbers else surge_value(query)
    return f"{'regression' if has_numbers else 'surge'}: {what} of {query.name}, {BEGINS} s from now"


def surge_value(query: Query) -> str:
    """Return the value that surges. Few clients hold it before, because the first values are the most common."""
    domain = query.domains[0]
    return domain.name(min(domain.named - 1, max(1, 42 * domain.named // 100))) if domain.named else OTHER


def scenario(query: Query) -> str:
    """Return the scenario as `hubbub simulate` reads it."""
    table, change = "surge", f"value = {_quote(surge_value(query))}"
    if query.domains[0].scale is not None:
        table, change = "shift", f"factor = {FACTOR}"
    attribute = f"attribute = {_quote(query.attributes[0].name)}\n" if query.attributes else ""
    return (
        f"[[{table}]]\n{attribute}{change}\nshare = {SHARE}\n"
        f'begins = "{BEGINS}s"\nrises = "{RISES}s"\nlasts = "{LASTS}s"\n'
    )


def _quote(text: str) -> str:
    """Return a TOML string. It equals the JSON string, except for one character."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
