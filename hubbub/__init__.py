"""Hear the crowd, never a person: the names that applications use, each imported when it is used."""

import importlib

_HOMES = {
    "BudgetSpent": ("producers", "kafka"),
    "Client": ("producers", "kafka"),
    "FileKeyStore": ("producers", "kafka"),
    "HttpPublisher": ("producers", "http"),
    "Kafka": ("hubbub.kafka", "kafka"),
    "NotYet": ("producers", "kafka"),
    "Publisher": ("producers", "kafka"),
    "calibrate": ("oracles.calibrate", "stats"),
    "encode_json": ("oracles.frame", "kafka"),
    "find_program": ("aggregator.demo.broker", "embedded"),
    "load": ("oracles.query", "kafka"),
    "oracle": ("oracles", "kafka"),
    "read": ("aggregator.reading.export.reader", "read"),
    "tallies": ("hubbub.faust", "worker"),
    "weighted_total": ("oracles.group_total", "stats"),
}
"""The package of each name, and the extra with its dependencies.

They are strings, because this package must not import packages above it. The types are in `__init__.pyi`.
"""
__all__ = [
    "BudgetSpent",
    "Client",
    "FileKeyStore",
    "HttpPublisher",
    "Kafka",
    "NotYet",
    "Publisher",
    "calibrate",
    "encode_json",
    "find_program",
    "load",
    "oracle",
    "read",
    "tallies",
    "weighted_total",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home, extra_name = _HOMES[name]
    # It loads NumPy, and the command `hubbub` handles signals before that.
    from oracles.errors import extra

    with extra(extra_name):
        return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    # The module has no such attributes before their first use, so a shell would not complete them.
    return sorted(__all__)
