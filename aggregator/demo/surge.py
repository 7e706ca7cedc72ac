"""The crowd of a demo, in which one value of a query surges, or a tenth of its numbers grow. Pure."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, cast

from aggregator.demo.forecast import Promise, shortest_step
from oracles.numbers import LOG, Scale
from oracles.query import Query
from oracles.query.domain import NUMBERS, OTHER, VALUES

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


class Change(NamedTuple):
    """The change of a crowd."""

    kind: str
    """The kind of the change, as the demo prints it."""
    name: str
    """The value or the quantile that an alert will name."""
    text: str
    """The change in words."""
    table: str
    """The table of a scenario that brings it about."""
    line: str
    """Its line in the table."""


def surge_of(query: Query) -> Change:
    """Return the surge of a value."""
    name = surge_value(query)
    return Change("surge", name, f"the surge of {name}", "surge", f"value = {_quote(name)}")


def growth_of(query: Query) -> Change:
    """Return the growth of numbers."""
    return Change("regression", NUMBER, f"the growth of {NUMBER} of {query.name}", "shift", f"factor = {FACTOR}")


def _change(query: Query) -> Change:
    return _CHANGES.get(query.domains[0].kind, surge_of)(query)


def values(query: Query, group: int = 0) -> str:
    """Return the distribution of the values in a group."""
    # Several attributes share one distribution, which suits values of every kind.
    kind = VALUES if query.attributes else query.domains[0].kind
    return _LAWS.get(kind, zipf)(query, group % len(EXPONENTS))


def zipf(query: Query, turn: int) -> str:
    """Return the distribution of values."""
    del query
    return f"zipf:{EXPONENTS[turn]}"


def bell(query: Query, turn: int) -> str:
    """Return the distribution of numbers. Most are somewhat below the middle of their scale."""
    scale = cast(Scale, query.domains[0].scale)

    # Loading times and other numbers on a logarithmic scale have a long tail, so their logarithm is normal.
    is_log = scale.kind == LOG
    low, high = (math.log(scale.low), math.log(scale.high)) if is_log else (scale.low, scale.high)
    law = "lognormal" if is_log else "normal"
    mean = low + (MIDDLE + GROUP_DISTANCE * turn) * (high - low)
    deviation = WIDTH * (high - low)
    return f"{law}:{mean:.4g},{deviation:.4g}" if mean > 0.0 else "uniform"


_CHANGES = {NUMBERS: growth_of}
_LAWS = {NUMBERS: bell}
"""The change and the distribution of a kind of answer. Those of other kinds are like those of values."""


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
    change = _change(query)
    return [f"{change.kind}: {change.name} of {query.name}, {BEGINS} s from now"]


def promises(query: Query, delay: int = 0) -> Iterator[Promise]:
    """Yield the change that an alert will tell."""
    del delay
    change = _change(query)
    step = shortest_step(query)
    yield Promise(query.name, change.name, change.text, BEGINS + RISES + step + query.lateness, step)


def surge_value(query: Query) -> str:
    """Return the value that surges. Few clients hold it before, because the first values are the most common."""
    domain = query.domains[0]
    return domain.name(min(domain.named - 1, max(1, 42 * domain.named // 100))) if domain.named else OTHER


def scenario(query: Query, delay: int = 0) -> str:
    """Return the scenario as `hubbub simulate` reads it."""
    del delay
    change = _change(query)
    attribute = f"attribute = {_quote(query.attributes[0].name)}\n" if query.attributes else ""
    return (
        f"[[{change.table}]]\n{attribute}{change.line}\nshare = {SHARE}\n"
        f'begins = "{BEGINS}s"\nrises = "{RISES}s"\nlasts = "{LASTS}s"\n'
    )


def _quote(text: str) -> str:
    """Return a TOML string. It equals the JSON string, except for one character."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
