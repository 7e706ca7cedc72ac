"""The decoder of records. It checks every record of the topic, since anybody may write there."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, cast

import orjson

from aggregator.records.crowd_privacy import CrowdPrivacy
from aggregator.records.encoder import VERSION
from aggregator.records.group_fields import check_weighted, value_in_record
from aggregator.records.name_rows import DiscoverRow, read_discover
from aggregator.records.number_columns import by_name, floats
from aggregator.records.number_rows import ScaleRow, check_fields, numbers_of
from aggregator.records.rows import HitterRow, RefusedRow, ThresholdRow, WindowRow
from aggregator.records.span import Span
from aggregator.records.words import WITHHELD
from hubbub.http.schema import Attribute, Count, Digest, Known, Name, Time, read
from oracles.consistency import UNBIASED
from oracles.errors import ReportError
from oracles.mechanisms import NUMBER_ORACLES
from oracles.numbers import Numbers
from oracles.query.domain import pair_text
from oracles.types import Floats

_OVERHEAD, _ARRAY = 1_000, 100
"""Approximate bytes of a record without its arrays, and of an array without its numbers."""
_MANY = 64
"""Most flags of a record."""
OLDEST = 2
"""The oldest version of records that can be read."""
_OTHER = ("oracle", "hitters", "sets", "quality", "numbers", "weighted", "discover", "level")
_NO_VALUES: dict[str, Any] = {
    **dict.fromkeys(("sigma", "significance", "detectable")),
    **{column: [] for column in ("values", "stderr", "low", "high")},
    **{lists: {UNBIASED: []} for lists in ("shares", "hitters")},
    "sets": {},
}
"""The fields that a record of numbers or of names does not have."""
_LATER = dict.fromkeys(("significance", "size", "threshold", "answers", "central"))
"""The fields that older records do not have."""
_Answers = Annotated[str | None, {"maxLength": 64}]
_Size = Annotated[int | None, {"minimum": 1, "maximum": 1 << 53}]


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
class _Through:
    through: Time


@dataclass(frozen=True, kw_only=True, slots=True)
class _Window:
    """The fields that are the same for all attributes of a window."""

    query: Name
    digest: Digest
    attribute: Attribute
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
    significance: Known
    size: _Size
    threshold: ThresholdRow | None
    answers: _Answers
    central: CrowdPrivacy | None
    quality: _Quality


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    """A record: one attribute of a window, or its only answer."""

    query: str
    digest: str
    attribute: str | None
    group: str | None
    """The value of its group, "(none)" for reports without a group. None for the total of all groups."""
    span: Span
    final: bool
    through: int | None
    """The end of the panes in a provisional record, or None if the window is final."""
    refused: RefusedRow
    n: int
    n_independent: int
    sigma: float | None
    significance: float | None
    """The share from which on a value is proved to be present."""
    detectable: float | None
    shift_per_fake: float | None
    oracle: str
    p: float
    q: float
    size: int | None
    """Number of values in the domain, or None in an older record."""
    threshold: ThresholdRow | None
    answers: str | None
    """How a client repeats its noise, or None in an older record."""
    central: CrowdPrivacy | None
    """What a person reveals to somebody who sees only this record, or None if that is not known."""
    values: tuple[str, ...]
    """The published values, in the order of the record."""
    shares: Mapping[str, Floats]
    """The shares by method."""
    stderr: Floats
    low: Floats
    high: Floats
    flags: tuple[str, ...]
    other: bytes
    """The JSON of oracle, hitters, sets, quality, numbers, the weighted total, discover and level."""

    @property
    def withheld(self) -> str | None:
        """The flag that says why the record has no values, or None if it has them."""
        return next((flag for flag in WITHHELD if flag in self.flags), None)

    @property
    def proves_presence(self) -> bool:
        """Whether a proof is that a value is present. Otherwise it is that its share exceeds a share."""
        return self.threshold is not None and self.threshold.kind == "significance"

    @property
    def memory(self) -> int:
        """Approximate bytes in memory."""
        arrays = (*self.shares.values(), self.stderr, self.low, self.high)
        columns = sum(_ARRAY + array.nbytes for array in arrays)
        return _OVERHEAD + columns + 8 * len(self.values) + len(self.other)

    def rest(self) -> dict[str, Any]:
        """Return oracle, hitters, sets, quality, numbers, the weighted total, discover and level."""
        return cast(dict[str, Any], orjson.loads(self.other))

    @property
    def has_numbers(self) -> bool:
        """Whether the answers are numbers."""
        return self.oracle in NUMBER_ORACLES

    def numbers(self) -> Numbers | None:
        """Return the distribution of numbers, in at most 1,024 bins. None if the window is withheld."""
        fields = self.rest()["numbers"]
        return None if fields is None else numbers_of(read(ScaleRow, fields), self.n, self.n_independent, self.p)

    def discover(self) -> DiscoverRow | None:
        """Return what a search has found and can find, if strings are unknown. None if the window is withheld."""
        fields = self.rest()["discover"]
        return None if fields is None else read(DiscoverRow, fields)

    def hitters(self, method: str) -> list[HitterRow]:
        """Return the hitters of a method."""
        return [read(HitterRow, row) for row in self.rest()["hitters"].get(method, [])]


def decode(value: bytes) -> Record:
    """Return the record in these bytes. Raise a ReportError or ValueError if they hold none."""
    fields = orjson.loads(value)
    version = fields.get("version") if isinstance(fields, dict) else None
    if version not in (OLDEST, VERSION):
        raise ReportError(f"the record has version {str(version)[:16]!r}, but {VERSION} is expected")
    if "held_since" in fields:
        fields = _without_values(fields)
    if fields.get("numbers") is not None:
        check_fields(fields["numbers"])
        fields = {**_NO_VALUES, **fields}
    if fields.get("discover") is not None:
        fields = {**_NO_VALUES, **fields}
        read_discover(fields["discover"], fields.get("level"), len(fields["values"]))
    values = fields.get("values")
    if isinstance(values, list) and any(isinstance(value, list) for value in values):
        fields = _with_texts(fields)
    window, part = read(_Window, fields), read(_Numbers, {**_LATER, **fields})
    count, oracle = len(part.values), part.oracle
    if not 0.0 <= oracle.q < oracle.p <= 1.0 or (part.n_independent or 0) > part.n:
        raise ReportError("the record needs 0 <= q < p <= 1, and at most n independent reports")
    shares, hitters, sets = (by_name(fields.get(key), key) for key in ("shares", "hitters", "sets"))
    if UNBIASED not in shares or len(set(part.values)) != count:
        raise ReportError("the record needs unbiased shares, and each value once")
    for rows in hitters.values():
        _check_hitters(rows)
    for numbers in sets.values():
        floats(list(by_name(numbers, "a set").values()), None)
    check_weighted(fields.get("weighted"), count)
    columns = {key: floats(fields.get(key), count) for key in ("stderr", "low", "high")}
    return Record(
        query=sys.intern(window.query),
        digest=sys.intern(window.digest),
        attribute=window.attribute,
        group=_intern(value_in_record(fields.get("group"))),
        span=window.window.span,
        final=window.final,
        through=read(_Through, fields["window"]).through if "through" in fields["window"] else None,
        refused=window.refused,
        n=part.n,
        n_independent=part.n_independent or 0,
        sigma=part.sigma,
        significance=part.significance,
        detectable=part.detectable,
        shift_per_fake=part.shift_per_fake,
        oracle=sys.intern(oracle.name),
        p=oracle.p,
        q=oracle.q,
        size=part.size,
        threshold=part.threshold,
        answers=part.answers and sys.intern(part.answers),
        central=part.central,
        values=tuple(map(sys.intern, part.values)),
        shares={sys.intern(method): floats(column, count) for method, column in shares.items()},
        flags=tuple(map(sys.intern, part.quality.flags)),
        other=_exact(orjson.dumps({key: fields.get(key) for key in _OTHER})),
        **columns,
    )


def _without_values(fields: dict[str, Any]) -> dict[str, Any]:
    """Return a record of version 2 that repeats the values of an earlier window, without those values."""
    result = {**fields, "n": 0, "refused": {"duplicate": 0, "implausible": 0}, "sets": {}}
    result |= dict.fromkeys(("n_independent", "sigma", "detectable", "shift_per_fake"))
    result |= {key: [] for key in ("values", "stderr", "low", "high")}
    return result | {key: {method: [] for method in by_name(fields.get(key), key)} for key in ("shares", "hitters")}


def _with_texts(fields: dict[str, Any]) -> dict[str, Any]:
    """Return a record of pairs, with each pair as one text."""
    hitters = by_name(fields.get("hitters"), "hitters")
    for rows in hitters.values():
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise ReportError("the hitters of a method must be a list of objects")
    return {
        **fields,
        "values": [_pair(value) for value in fields["values"]],
        "hitters": {
            method: [{**row, "value": _pair(row.get("value"))} for row in rows] for method, rows in hitters.items()
        },
    }


def _pair(value: Any) -> str:
    if not isinstance(value, list) or len(value) != 2 or not all(isinstance(part, str) for part in value):
        raise ReportError("a value of a record of pairs must be a list of two texts")
    return pair_text(value)


def _intern(text: str | None) -> str | None:
    return None if text is None else sys.intern(text)


def _exact(text: bytes) -> bytes:
    """Return a copy without the free room behind the bytes. orjson leaves up to 4 KiB of it."""
    return bytes(memoryview(text))


def _check_hitters(rows: Any) -> None:
    if not isinstance(rows, list):
        raise ReportError("the hitters of a method must be a list")
    for row in rows:
        read(HitterRow, row)
