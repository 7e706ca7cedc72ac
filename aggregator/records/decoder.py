"""The decoder of records. It checks every record of the topic, since anybody may write there."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import orjson

from aggregator.records.field import declarations, types
from aggregator.records.group_fields import check_weighted, value_in_record
from aggregator.records.name_rows import read_discover
from aggregator.records.number_columns import by_name, floats
from aggregator.records.number_rows import check_fields
from aggregator.records.record import JSON_MEMBERS, OLDEST, VERSION, Record
from aggregator.records.rows import HitterRow, QualityRow
from hubbub.http.schema import Time, read, reader
from oracles.consistency import UNBIASED
from oracles.errors import ReportError
from oracles.query.domain import KINDS, NAMES, NUMBERS, VALUES, pair_text

_DECLARATIONS = declarations(Record)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Through:
    through: Time


_COLUMNS = ("stderr", "low", "high")
_READERS: dict[str, Callable[[Any, str], Any]] = {
    name: reader(kind)
    for name, kind in types(Record).items()
    if name not in (*JSON_MEMBERS, *_COLUMNS, "shares", "group", "values")
}
"""Read the members that are no lists for each value."""
_READERS["values"] = reader(list[str])
_MISSING: dict[str, dict[str, Any]] = {
    kind: {
        name: declaration.missing()
        for name, declaration in _DECLARATIONS.items()
        if declaration.since > OLDEST or declaration.is_optional or kind not in declaration.kinds
    }
    for kind in KINDS
}
"""The values of the members that a record of a kind may lack."""


def decode(value: bytes) -> Record:
    """Return the record in these bytes. Raise a ReportError or ValueError if they hold none."""
    fields = _fields_of(orjson.loads(value))
    count = len(fields["values"]) if isinstance(fields["values"], list) else 0
    members = {name: read_member(fields[name], f"Record.{name}") for name, read_member in _READERS.items()}
    _check(members, fields, count)

    window = members["window"]
    through = read(_Through, fields["window"]).through if "through" in fields["window"] else None
    members |= {attribute: _exact(orjson.dumps(fields[name])) for name, attribute in JSON_MEMBERS.items()}
    members |= {name: floats(fields[name], count) for name in _COLUMNS}
    # A board holds thousands of records with the same few methods, so they share one text.
    members["shares"] = {sys.intern(method): floats(column, count) for method, column in fields["shares"].items()}
    members["group"] = value_in_record(fields["group"])
    flags = tuple(map(sys.intern, read(QualityRow, fields["quality"]).flags))
    return Record(**_interned(members), span=window.span, through=through, flags=flags)


def _fields_of(document: Any) -> dict[str, Any]:
    """Return the members of a record, with those that its version or its kind of answer lacks."""
    version = document.get("version") if isinstance(document, dict) else None
    if version not in (OLDEST, VERSION):
        raise ReportError(f"the record has version {str(version)[:16]!r}, but {VERSION} is expected")

    if "held_since" in document:
        document = _without_values(document)
    fields = {**_MISSING[_kind_of(document)], **document}
    missing = _DECLARATIONS.keys() - fields.keys()
    if missing:
        raise ReportError(f"the record needs {', '.join(sorted(missing))}")
    # A withheld record has null, which no reader could compare with a number.
    if fields["n_independent"] is None:
        fields["n_independent"] = 0

    values = fields["values"]
    if isinstance(values, list) and any(isinstance(text, list) for text in values):
        fields = _with_texts(fields)
    return fields


def _kind_of(document: Mapping[str, Any]) -> str:
    """Return the kind of answers. A withheld record has the fields of values."""
    kinds = (kind for member, (kind, _) in _OWN_MEMBERS.items() if document.get(member) is not None)
    return next(kinds, VALUES)


def _check(members: Mapping[str, Any], fields: Mapping[str, Any], count: int) -> None:
    """Raise a ReportError unless the members fit each other."""
    oracle = members["oracle"]
    if not 0.0 <= oracle.q < oracle.p <= 1.0 or members["n_independent"] > members["n"]:
        raise ReportError("the record needs 0 <= q < p <= 1, and at most n independent reports")
    if UNBIASED not in by_name(fields["shares"], "shares") or len(set(members["values"])) != count:
        raise ReportError("the record needs unbiased shares, and each value once")

    for member, (_, check) in _OWN_MEMBERS.items():
        if fields[member] is not None:
            check(fields[member], fields["level"], count)
    for rows in by_name(fields["hitters"], "hitters").values():
        _check_hitters(rows)
    for numbers in by_name(fields["sets"], "sets").values():
        floats(list(by_name(numbers, "a set").values()), None)
    check_weighted(fields["weighted"], count)


def _check_numbers(numbers: Any, level: Any, count: int) -> None:
    del level, count
    check_fields(numbers)


_OWN_MEMBERS = {"numbers": (NUMBERS, _check_numbers), "discover": (NAMES, read_discover)}
"""The members that only one kind of answers has, each with the kind and the check of the member."""


def _interned(members: dict[str, Any]) -> dict[str, Any]:
    """Return the members with one object for each text, since a board holds many records of one query."""
    texts = {name: _intern(members[name]) for name in ("query", "digest", "group", "answers")}
    oracle = members["oracle"]
    return {
        **members,
        **texts,
        "oracle": replace(oracle, name=sys.intern(oracle.name)),
        "values": tuple(map(sys.intern, members["values"])),
    }


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
