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
"""In which package each name stands, and the extra that brings what it needs.

Strings, so that the floor imports nothing that stands on it; the types stand in `__init__.pyi`.
"""


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home, needed = _HOMES[name]
    with extra(needed):
        return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)
