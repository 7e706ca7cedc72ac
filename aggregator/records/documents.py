"""The schemas of what hubbub writes, as far as readers accept more, such as older forms."""

from collections.abc import Collection, Mapping

from hubbub.http.schema import Schema, schema
from oracles.consistency import BASE, METHODS, UNBIASED
from oracles.estimate.intervals import LEVEL as LEVEL_OF_INTERVALS
from oracles.mechanisms import ALL_ORACLES
from oracles.query.groups import NO_GROUP
from oracles.query.settings import NAME as NAME_PATTERN

_NAME = NAME_PATTERN.pattern
NAME: Schema = {"type": "string", "pattern": f"^{_NAME}$"}
ATTRIBUTE: Schema = {
    "anyOf": [{"type": "string", "pattern": rf"^{_NAME}(\*{_NAME})?$"}, {"type": "null"}],
}
NUMBER: Schema = {"type": ["number", "null"]}
POSITIVE: Schema = {"type": ["number", "null"], "minimum": 0}
CHANCE: Schema = {"type": ["number", "null"], "minimum": 0, "maximum": 1}
COUNT: Schema = {"type": "integer", "minimum": 0}
METHOD: Schema = {"enum": [UNBIASED, *(name for name in METHODS if name != BASE)]}
ORACLE_NAMES = [*ALL_ORACLES, "oue_z", "oue_r", "sue_z"]
"""The names of oracles in records. The last three are parts of `rsfd`."""
VALUE: Schema = {
    "anyOf": [
        {"type": "string"},
        {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 2, "maxItems": 2},
    ]
}
LEVEL: Schema = {
    "anyOf": [
        {"const": LEVEL_OF_INTERVALS},
        {"type": "array", "items": {"type": "number", "minimum": LEVEL_OF_INTERVALS, "exclusiveMaximum": 1}},
    ]
}
GROUP: Schema = {
    "type": ["object", "null"],
    "propertyNames": NAME,
    "additionalProperties": {"anyOf": [NAME, {"const": NO_GROUP}]},
    "minProperties": 1,
    "maxProperties": 1,
}


def listed(items: Schema) -> Schema:
    """Return the schema of a list."""
    return {"type": "array", "items": items}


def or_null(document: Schema) -> Schema:
    """Return the schema of a member that may be null."""
    return {"anyOf": [document, {"type": "null"}]}


def by_name(document: Schema, names: Schema = NAME) -> Schema:
    """Return the schema of an object that has a value for each name."""
    return {"type": "object", "propertyNames": names, "additionalProperties": document}


def written(kind: type, members: Mapping[str, Schema], optional: Collection[str] = ()) -> Schema:
    """Return the schema of a value class. The given members are written with other limits than readers have."""
    document = schema(kind)
    properties = {**document["properties"], **members}
    return {**document, "properties": properties, "required": sorted(properties.keys() - set(optional))}


SHARES: Schema = {**by_name(listed(NUMBER), METHOD), "required": [UNBIASED]}
