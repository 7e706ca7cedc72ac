"""A record as the board keeps it: the numbers as arrays, all else as the JSON that it came in."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import orjson

from aggregator.merging.windows import Span
from aggregator.publishing.record import VERSION
from oracles.errors import ReportError
from oracles.estimate import Floats
from oracles.query.settings import Window

_OVERHEAD = 1_000
"""Bytes of the objects that hold a part, about."""


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """What a record says of one attribute, or of the one answer."""

    name: str | None
    n: int
    n_independent: int
    sigma: float | None
    detectable: float | None
    shift_per_fake: float | None
    values: tuple[str, ...]
    """Those that the record publishes, in its order."""
    shares: Mapping[str, Floats]
    """By method."""
    stderr: Floats
    low: Floats
    high: Floats
    flags: tuple[str, ...]
    rest: bytes
    """JSON of oracle, hitters, sets and quality."""

    @property
    def size(self) -> int:
        """The memory it takes, about."""
        arrays = (*self.shares.values(), self.stderr, self.low, self.high)
        return _OVERHEAD + sum(array.nbytes for array in arrays) + 8 * len(self.values) + len(self.rest)

    def told(self) -> dict[str, Any]:
        """Oracle, hitters, sets and quality."""
        return cast(dict[str, Any], orjson.loads(self.rest))


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """One record."""

    query: str
    digest: str
    span: Span
    final: bool
    n: int
    n_independent: int
    refused: Mapping[str, int]
    parts: tuple[Part, ...]
    size: int
    """The memory it takes, about."""

    @property
    def flags(self) -> list[str]:
        """Those of all attributes, each once."""
        return list(dict.fromkeys(flag for part in self.parts for flag in part.flags))


def read(value: bytes) -> Entry:
    """The record in these bytes; a ValueError, TypeError or KeyError where it is none that we know."""
    said = orjson.loads(value)
    if said["version"] != VERSION:
        raise ReportError(f"a record of version {said['version']!r} cannot be read")
    window = said["window"]
    parts = tuple(_part(part) for part in said.get("attributes", [said]))
    return Entry(
        query=sys.intern(said["query"]),
        digest=sys.intern(said["digest"]),
        span=Span(Window(window["kind"], window["size"], window["step"]), window["start"], window["end"]),
        final=said["final"],
        n=said["n"],
        n_independent=said["n_independent"],
        refused=said["refused"],
        parts=parts,
        size=sum(part.size for part in parts),
    )


def _part(said: Mapping[str, Any]) -> Part:
    return Part(
        name=said.get("name"),
        n=said["n"],
        n_independent=said["n_independent"],
        sigma=said["sigma"],
        detectable=said["detectable"],
        shift_per_fake=said["shift_per_fake"],
        values=tuple(map(sys.intern, said["values"])),
        shares={sys.intern(method): _floats(shares) for method, shares in said["shares"].items()},
        stderr=_floats(said["stderr"]),
        low=_floats(said["low"]),
        high=_floats(said["high"]),
        flags=tuple(map(sys.intern, said["quality"]["flags"])),
        rest=orjson.dumps({key: said[key] for key in ("oracle", "hitters", "sets", "quality")}),
    )


def _floats(numbers: list[float | None]) -> Floats:
    return np.array(numbers, np.float64)  # None becomes NaN
