"""The crowd of a demo, in which one value of a query surges, or a tenth of its numbers grow. Pure."""

import json
import math
from collections.abc import Iterator
from pathlib import Path

from aggregator.demo.forecast import Promise, shortest_step
from oracles.numbers import LOG
from oracles.query import Query
from oracles.query.domain import OTHER

PART: float | None = None
"""The crowd shares the answers of a demo with the others of its kind."""
FEWEST = 1
BEGINS = 60
"""Seconds from the start to the surge."""
RISES = 5
"""Seconds of its rise."""
LASTS = 180
"""Seconds of its whole length."""
SHARE = 0.1
"""Share of all clients that take part."""
MIDDLE = 0.46
"""Mean of numbers, as a part of their scale."""
WIDTH = 0.092
"""Standard deviation of numbers, as a part of their scale."""
FACTOR = 4.0
"""The factor by which their numbers grow."""
NUMBER = "p95"
"""The quantile that grows with them."""
EXPONENTS = (1.1, 0.7, 1.5)
"""How uneven the values of the groups are, in turn. The first values are the most common."""
GROUP_DISTANCE = 0.04
"""How far the numbers of the groups are apart, as a part of their scale."""


def values(query: Query, group: int = 0) -> str:
    """Return the distribution of the values in a group. Most numbers are somewhat below the middle of their scale."""
    scale = query.domains[0].scale
    turn = group % len(EXPONENTS)
    if scale is None or query.attributes:
        return f"zipf:{EXPONENTS[turn]}"

    # Loading times and other numbers on a logarithmic scale have a long tail, so their logarithm is normal.
    is_log = scale.kind == LOG
    low, high = (math.log(scale.low), math.log(scale.high)) if is_log else (scale.low, scale.high)
    law = "lognormal" if is_log else "normal"
    mean = low + (MIDDLE + GROUP_DISTANCE * turn) * (high - low)
    deviation = WIDTH * (high - low)
    return f"{law}:{mean:.4g},{deviation:.4g}" if mean > 0.0 else "uniform"


def groups(query: Query) -> list[str]:
    """Return the options of `hubbub simulate` for groups that differ. The first ones are the largest."""
    if not query.groups:
        return []
    names = query.groups.values
    total = sum(1.0 / place for place in range(1, 1 + len(names)))
    shares = ",".join(f"{name}={1.0 / place / total!r}" for place, name in enumerate(names, 1))
    options = ["--groups", shares]
    for place, name in enumerate(names):
        options += ["--group-values", f"{name}={values(query, place)}"]
    return options


def options(query: Query, folder: Path) -> list[str]:
    """Return the options of `hubbub simulate` for the values of the clients."""
    del folder
    return ["--values", values(query), *groups(query)]


def events(query: Query, delay: int = 0) -> list[str]:
    """Return what happens in the demo, in words."""
    del delay
    has_numbers = query.domains[0].scale is not None
    what = NUMBER if has_numbers else surge_value(query)
    return [f"{'regression' if has_numbers else 'surge'}: {what} of {query.name}, {BEGINS} s from now"]


def promises(query: Query, delay: int = 0) -> Iterator[Promise]:
    """Yield the change that an alert will tell."""
    del delay
    name = surge_value(query)
    text = f"the surge of {name}"
    if query.domains[0].scale is not None:
        name = NUMBER
        text = f"the growth of {name} of {query.name}"
    step = shortest_step(query)
    yield Promise(query.name, name, text, BEGINS + RISES + step + query.lateness, step)


def surge_value(query: Query) -> str:
    """Return the value that surges. Few clients hold it before, because the first values are the most common."""
    domain = query.domains[0]
    return domain.name(min(domain.named - 1, max(1, 42 * domain.named // 100))) if domain.named else OTHER


def scenario(query: Query, delay: int = 0) -> str:
    """Return the scenario as `hubbub simulate` reads it."""
    del delay
    table = "surge"
    change = f"value = {_quote(surge_value(query))}"
    if query.domains[0].scale is not None:
        table = "shift"
        change = f"factor = {FACTOR}"
    attribute = f"attribute = {_quote(query.attributes[0].name)}\n" if query.attributes else ""
    return (
        f"[[{table}]]\n{attribute}{change}\nshare = {SHARE}\n"
        f'begins = "{BEGINS}s"\nrises = "{RISES}s"\nlasts = "{LASTS}s"\n'
    )


def _quote(text: str) -> str:
    """Return a TOML string. It equals the JSON string, except for one character."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
