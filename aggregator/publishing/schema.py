"""Schemas of value classes: what an answer holds, how it is described and how it is read are one declaration."""

import math
import re
from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from oracles.errors import ReportError

Schema = dict[str, Any]
_Value = TypeVar("_Value")

LATE = 1 << 40
"""Later than all windows, and longer."""
Count = Annotated[int, {"minimum": 0, "maximum": 1 << 53}]
Time = Annotated[int, {"minimum": 0, "maximum": LATE, "description": "Unix seconds"}]
Known = Annotated[float | None, {"description": "Null where it is not known"}]
Chance = Annotated[float | None, {"minimum": 0, "maximum": 1}]
Digest = Annotated[str, {"pattern": "^[0-9a-f]{16}$"}]
Name = Annotated[str, {"maxLength": 64}]
Attribute = Annotated[str | None, {"maxLength": 64, "description": "Null where a client gives one answer"}]

_LIMITS = (("minimum", "minItems"), -math.inf), (("maximum", "maxItems", "maxLength"), math.inf)
_UNIONS = (UnionType, Union)
_TYPES: dict[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean", NoneType: "null"}


def schema(kind: Any) -> Schema:
    """The schema of a type; a value class has its fields, all of them, and no others.

    >>> schema(Chance)
    {'type': ['number', 'null'], 'minimum': 0, 'maximum': 1}
    """
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return {**schema(arguments[0]), **arguments[1]}
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in _UNIONS:
        parts = [schema(each) for each in arguments]
        if all(part.keys() == {"type"} for part in parts):
            return {"type": [part["type"] for part in parts]}
        return {"anyOf": parts}
    if isinstance(kind, type) and is_dataclass(kind):
        members = {name: schema(hint) for name, hint in _members(kind).items()}
        return {"type": "object", "properties": members, "required": sorted(members), "additionalProperties": False}
    if isinstance(kind, type) and kind in _TYPES:
        return {"type": _TYPES[kind]}
    return {"type": "array", "items": schema(arguments[0])} if origin in (list, tuple) else {"type": "object"}


def read(kind: type[_Value], data: Any) -> _Value:
    """A value class from JSON, held to its schema; keys that it does not know are passed over."""
    value: _Value = _read(kind, data, kind.__name__)
    return value


def _read(kind: Any, data: Any, where: str) -> Any:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        value = _read(arguments[0], data, where)
        return value if value is None else _in_limits(value, arguments[1], where)
    if origin in _UNIONS:
        return None if data is None else _read(next(each for each in arguments if each is not NoneType), data, where)
    if isinstance(kind, type) and is_dataclass(kind):
        _check(isinstance(data, dict), where, "an object")
        missing = _members(kind).keys() - data.keys()
        _check(not missing, where, f"an object with {', '.join(sorted(missing))}")
        return kind(**{name: _read(hint, data[name], f"{where}.{name}") for name, hint in _members(kind).items()})
    if origin is Literal:
        _check(isinstance(data, type(arguments[0])) and data in arguments, where, f"one of {arguments}")
    elif origin is list:
        _check(isinstance(data, list), where, "a list")
        return [_read(arguments[0], each, where) for each in data]
    elif kind is float:
        _check(type(data) in (int, float) and math.isfinite(data), where, "a number")
        return float(data)
    else:
        _check(type(data) is (origin or kind), where, f"of type {kind}")
    return data


def _in_limits(value: Any, limits: Schema, where: str) -> Any:
    size: float = len(value) if isinstance(value, str | list) else value
    low, high = (next((limits[key] for key in keys if key in limits), end) for keys, end in _LIMITS)
    _check(low <= size <= high, where, f"from {low} to {high}")
    _check("pattern" not in limits or re.search(limits["pattern"], value) is not None, where, "of its pattern")
    return value


def _check(holds: bool, where: str, what: str) -> None:
    if not holds:
        raise ReportError(f"{where} must be {what}")


@cache
def _members(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind, include_extras=True)
    return {each.name: hints[each.name] for each in fields(kind)}
