"""The reader of records: what stands in the topic is held to what a record is before anyone keeps it."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, cast

import numpy as np
import orjson

from aggregator.merging.windows import Span
from aggregator.publishing.parts import HitterRow, RefusedRow
from aggregator.publishing.record import VERSION
from aggregator.publishing.schema import Attribute, Count, Digest, Known, Name, read
from aggregator.publishing.window import WindowRow
from oracles.consistency import UNBIASED
from oracles.errors import ReportError
from oracles.types import Floats

_OVERHEAD, _ARRAY = 1_000, 100
"""Bytes of the objects that hold a record, and of an array beside its numbers, about."""
_LARGEST = 1e12
"""No share is larger, at whatever epsilon."""
_MANY = 64
"""Methods, sets and flags of a record, and attributes of a query, at the most."""
_NUMBERS = {int, float, type(None)}


@dataclass(frozen=True, kw_only=True, slots=True)
class _Oracle:
    name: Name
    p: float
    q: float
    epsilon: float
    record_epsilon: float


@dataclass(frozen=True, kw_only=True, slots=True)
class _Quality:
    flags: Annotated[list[Name], {"maxItems": _MANY}]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Window:
    """That which a record of version 1 says once, for all attributes."""

    query: Name
    digest: Digest
    window: WindowRow
    final: bool
    refused: RefusedRow


@dataclass(frozen=True, kw_only=True, slots=True)
class _Numbers:
    n: Count
    n_independent: Annotated[int | None, {"minimum": 0, "maximum": 1 << 53}]
    sigma: Known
    detectable: Known
    shift_per_fake: Known
    values: list[str]
    oracle: _Oracle
    quality: _Quality


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    """A record as it is read: one attribute of a window, or its one answer."""

    query: str
    digest: str
    attribute: str | None
    span: Span
    final: bool
    refused: RefusedRow
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
    other: bytes
    """JSON of oracle, hitters, sets and quality."""

    @property
    def size(self) -> int:
        """The memory it takes, about."""
        arrays = (*self.shares.values(), self.stderr, self.low, self.high)
        columns = sum(_ARRAY + array.nbytes for array in arrays)
        return _OVERHEAD + columns + 8 * len(self.values) + len(self.other)

    def rest(self) -> dict[str, Any]:
        """Oracle, hitters, sets and quality."""
        return cast(dict[str, Any], orjson.loads(self.other))

    def hitters(self, method: str) -> list[HitterRow]:
        """Those that a method lists."""
        return [read(HitterRow, each) for each in self.rest()["hitters"].get(method, [])]


def decode(value: bytes) -> list[Record]:
    """The record in these bytes, or those of each attribute in one of version 1; ReportError or ValueError for none."""
    said = orjson.loads(value)
    version = said.get("version") if isinstance(said, dict) else None
    if version not in (1, 2):
        raise ReportError(f"a record of version {str(version)[:16]!r} cannot be read")
    window = read(_Window, said)
    if version == VERSION:
        return [_record(window, said, read(_Named, said).attribute)]
    attributes = said.get("attributes")
    if attributes is None:
        return [_record(window, said, None)]
    if not isinstance(attributes, list) or not 0 < len(attributes) <= _MANY:
        raise ReportError(f"a record has from 1 to {_MANY} attributes")
    return [
        _record(window, each, read(_Named, {"attribute": _by_name(each, "an attribute").get("name")}).attribute)
        for each in attributes
    ]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Named:
    attribute: Attribute


def _record(window: _Window, said: Any, attribute: str | None) -> Record:
    part = read(_Numbers, said)
    count = len(part.values)
    shares, hitters, sets = (_by_name(said.get(key), key) for key in ("shares", "hitters", "sets"))
    if UNBIASED not in shares or len(set(part.values)) != count:
        raise ReportError("a record has unbiased shares, and each of its values once")
    for each in hitters.values():
        _check_hitters(each)
    for each in sets.values():
        _floats(list(_by_name(each, "a set").values()), None)
    columns = {key: _floats(said.get(key), count) for key in ("stderr", "low", "high")}
    return Record(
        query=sys.intern(window.query),
        digest=sys.intern(window.digest),
        attribute=attribute,
        span=window.window.span,
        final=window.final,
        refused=window.refused,
        n=part.n,
        n_independent=part.n_independent or 0,
        sigma=part.sigma,
        detectable=part.detectable,
        shift_per_fake=part.shift_per_fake,
        values=tuple(map(sys.intern, part.values)),
        shares={sys.intern(method): _floats(column, count) for method, column in shares.items()},
        flags=tuple(map(sys.intern, part.quality.flags)),
        other=_exactly(orjson.dumps({key: said[key] for key in ("oracle", "hitters", "sets", "quality")})),
        **columns,
    )


def _exactly(text: bytes) -> bytes:
    """The same bytes without the room that orjson leaves behind them, up to 4 KiB."""
    return bytes(memoryview(text))


def _check_hitters(said: Any) -> None:
    if not isinstance(said, list):
        raise ReportError("the hitters of a method are a list")
    for each in said:
        read(HitterRow, each)


def _by_name(said: Any, what: str) -> dict[str, Any]:
    if not isinstance(said, dict) or len(said) > _MANY:
        raise ReportError(f"{what} must be an object of at most {_MANY} members")
    return said


def _floats(numbers: Any, count: int | None) -> Floats:
    """An array of numbers, of which none is beyond all bounds; None becomes NaN."""
    if not isinstance(numbers, list) or not set(map(type, numbers)) <= _NUMBERS or count not in (None, len(numbers)):
        raise ReportError(f"numbers must be a list of {count}")
    try:
        array = np.array(numbers, np.float64)
    except OverflowError as error:
        raise ReportError("a number is beyond all bounds") from error
    if np.any(np.abs(array) > _LARGEST):
        raise ReportError("a number is beyond all bounds")
    return array
