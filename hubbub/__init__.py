"""Hear the crowd, never a person: `oracle`, `Client`, `Publisher`, `load` and `read`, each imported when it is used."""

import importlib
from typing import Any

from oracles.errors import extra

__all__ = ["Client", "Publisher", "load", "oracle", "read"]

_HOMES = {
    "Client": ("producers", "kafka"),
    "Publisher": ("producers", "kafka"),
    "load": ("oracles.query", "kafka"),
    "read": ("aggregator.reading.export.reader", "read"),
    "oracle": ("oracles", "kafka"),
}
"""The package of each name, and the extra with its dependencies.

They are strings, because this package must not import packages above it. The types are in `__init__.pyi`.
"""


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home, extra_name = _HOMES[name]
    with extra(extra_name):
        return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    # The module has no such attributes before their first use, so a shell would not complete them.
    return sorted(__all__)
