"""The JSON Schemas of records and alerts, from the declarations of their fields."""

from typing import Any

from aggregator.records.alert import ARMS, COMPARISONS, OWN_MEMBERS, Alert
from aggregator.records.field import declarations, properties
from aggregator.records.record import VERSION, Record
from aggregator.records.words import WITHHELD
from hubbub.http.schema import Schema
from oracles.estimate.intervals import LEVEL
from oracles.query.domain import KINDS, NAMES, VALUES

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_OWN_MEMBERS = ("numbers", "discover")
"""The members that tell numbers and names from values."""


def record_schema() -> Schema:
    """Return the schema of a record of this version."""
    document = {"version": {"const": VERSION}, **properties(Record)}
    return {
        "$schema": _DIALECT,
        "$id": f"urn:hubbub:record:{VERSION}",
        "title": f"A record of hubbub.estimates, version {VERSION}",
        "type": "object",
        "properties": document,
        "required": ["version", *_common()],
        "additionalProperties": False,
        **_if_member("numbers"),
        "else": {
            **_if_member("discover"),
            "then": {
                "properties": {"level": {"type": "array"}, "size": {"type": "null"}},
                "required": _required_of(NAMES),
            },
            "else": {
                "properties": {
                    "level": {"const": LEVEL},
                    "values": {"items": {"minLength": 1}},
                },
                "required": _required_of(VALUES),
                # A withheld record of unknown strings comes here too, since its `discover` is null. It has one method.
                "if": {"properties": {"quality": {"properties": {"flags": {"contains": {"enum": [*WITHHELD]}}}}}},
                "else": {"properties": {"shares": {"minProperties": 2}}},
            },
        },
    }


def alert_schema() -> Schema:
    """Return the schema of an alert of this version."""
    chance = {"minimum": 0, "maximum": 1}
    null = {"type": "null"}
    return {
        "$schema": _DIALECT,
        "title": "An alert of hubbub.alerts, version 2",
        "type": "object",
        "properties": properties(Alert),
        "required": [name for name, field in declarations(Alert).items() if not field.is_optional],
        "additionalProperties": False,
        "allOf": [
            {
                "if": {"properties": {"quantile": null, "kind": {"not": {"const": ARMS}}}},
                "then": {"properties": {"low": chance, "high": chance, "threshold": {"minimum": 0}}},
            },
            {
                "if": {"properties": {"kind": {"const": ARMS}}},
                "then": {"required": [*OWN_MEMBERS]},
                "else": {"properties": dict.fromkeys(OWN_MEMBERS, False)},
            },
        ],
        "if": {"properties": {"kind": {"enum": [*COMPARISONS]}}},
        "then": _typed(before="number", scale="integer", to="object", **{"from": "object"}),
        "else": {
            **_typed(scale="null", to="null", **{"from": "null"}),
            "if": {"properties": {"kind": {"const": "leave"}}},
            "then": _typed(threshold="number"),
        },
    }


def _if_member(name: str) -> Schema:
    """Return a condition that holds for records with a member that is not null."""
    return {"if": {"properties": {name: {"type": "object"}}, "required": [name]}}


def _required_of(kind: str) -> list[str]:
    """Return the members that records of a kind need, and those of some other kind do not have."""
    fields = declarations(Record).items()
    required = [name for name, field in fields if kind in field.kinds and not field.is_optional]
    elsewhere = {*_common(), *_OWN_MEMBERS}
    return [name for name in required if name not in elsewhere]


def _common() -> list[str]:
    """Return the members that all records have."""
    fields = declarations(Record).items()
    return [name for name, field in fields if tuple(field.kinds) == KINDS and not field.is_optional]


def _typed(**names: str) -> dict[str, Any]:
    """Return a schema that gives members a type."""
    return {"properties": {member: {"type": name} for member, name in names.items()}}
