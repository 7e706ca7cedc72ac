"""Schemas of value classes: one declaration gives the members of an answer, their description and their reader."""

import math
import re
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from oracles.errors import ReportError

Schema = dict[str, Any]
_Value = TypeVar("_Value")
_Reader = Callable[[Any, str], Any]
"""A function of a JSON value and its path in the document."""

LATE = 1 << 40
"""An upper bound in seconds for times and sizes of windows."""
Count = Annotated[int, {"minimum": 0, "maximum": 1 << 53}]
Time = Annotated[int, {"minimum": 0, "maximum": LATE, "description": "Unix seconds"}]
Known = Annotated[float | None, {"description": "Null where it is not known"}]
Chance = Annotated[float | None, {"minimum": 0, "maximum": 1}]
Digest = Annotated[str, {"pattern": "^[0-9a-f]{16}$"}]
Name = Annotated[str, {"maxLength": 64}]
Attribute = Annotated[str | None, {"maxLength": 129, "description": "Null if a client gives one answer"}]
"""The name of an attribute. That of a pair holds two names."""

_LIMITS = (("minimum", "minItems"), -math.inf), (("maximum", "maxItems", "maxLength"), math.inf)
_UNIONS = (UnionType, Union)
_TYPES: dict[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean", NoneType: "null"}


def schema(kind: Any) -> Schema:
    """Return the schema of a type. An object of a value class has exactly the fields of the class.

    >>> schema(Chance)
    {'type': ['number', 'null'], 'minimum': 0, 'maximum': 1}
    """
    origin = get_origin(kind)
    arguments = get_args(kind)
    if origin is Annotated:
        return {**schema(arguments[0]), **arguments[1]}
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in _UNIONS:
        parts = [schema(argument) for argument in arguments]
        if all(part.keys() == {"type"} for part in parts):
            return {"type": [part["type"] for part in parts]}
        return {"anyOf": parts}

    if isinstance(kind, type) and is_dataclass(kind):
        members = {json_name(name): schema(hint) for name, hint in _members(kind).items()}
        return {"type": "object", "properties": members, "required": sorted(members), "additionalProperties": False}
    if isinstance(kind, type) and kind in _TYPES:
        return {"type": _TYPES[kind]}
    return {"type": "array", "items": schema(arguments[0])} if origin in (list, tuple) else {"type": "object"}


def read(kind: type[_Value], data: Any) -> _Value:
    """Read an instance of a value class from JSON, and check it by the schema. Unknown keys are ignored."""
    value: _Value = _class_reader(cast(Any, kind))(data, kind.__name__)
    return value


def reader(kind: Any) -> _Reader:
    """Return the function that reads a type. Each class has one, because a record may have thousands of values."""
    origin = get_origin(kind)
    arguments = get_args(kind)
    if origin is Annotated:
        return _bounded_reader(reader(arguments[0]), arguments[1])
    if origin in _UNIONS:
        # A value class has a type or null. No member is a union of two types, which would need a choice here.
        read_value = reader(next(argument for argument in arguments if argument is not NoneType))
        return lambda data, place: None if data is None else read_value(data, place)

    if isinstance(kind, type) and is_dataclass(kind):
        return _class_reader(kind)
    if origin is Literal:
        return _word_reader(arguments)
    if origin is list:
        return _list_reader(arguments[0])
    return _number if kind is float else _type_reader(origin or kind)


@cache
def _class_reader(kind: Any) -> _Reader:
    readers = {json_name(name): reader(hint) for name, hint in _members(kind).items()}
    names = {json_name(name): name for name in _members(kind)}

    def read_members(data: Any, place: str) -> Any:
        _check(isinstance(data, dict), place, "an object")
        missing = readers.keys() - data.keys()
        _check(not missing, place, f"an object with {', '.join(sorted(missing))}")
        return kind(**{names[key]: reader(data[key], f"{place}.{key}") for key, reader in readers.items()})

    return read_members


def json_name(name: str) -> str:
    """Return the name of a field in JSON. A field named as a word of Python ends in an underscore.

    >>> json_name("from_")
    'from'
    """
    return name.removesuffix("_")


def _list_reader(kind: Any) -> _Reader:
    read_item = reader(kind)

    def read_list(data: Any, place: str) -> list[Any]:
        _check(isinstance(data, list), place, "a list")
        # Lists of texts are long, so one look at the types replaces a call for each.
        if kind is str:
            _check(set(map(type, data)) <= {str}, place, "a list of texts")
            return list(data)
        return [read_item(item, place) for item in data]

    return read_list


def _word_reader(words: tuple[Any, ...]) -> _Reader:
    def read_word(data: Any, place: str) -> Any:
        _check(isinstance(data, type(words[0])) and data in words, place, f"one of {words}")
        return data

    return read_word


def _type_reader(kind: Any) -> _Reader:
    def read_type(data: Any, place: str) -> Any:
        # An isinstance would take True for a whole number.
        _check(type(data) is kind, place, f"of type {kind}")
        return data

    return read_type


def _number(data: Any, place: str) -> float:
    _check(type(data) in (int, float) and math.isfinite(data), place, "a number")
    return float(data)


def _bounded_reader(reader: _Reader, limits: Schema) -> _Reader:
    low, high = (next((limits[key] for key in keys if key in limits), end) for keys, end in _LIMITS)
    pattern = re.compile(limits.get("pattern", ""))

    def read_bounded(data: Any, place: str) -> Any:
        value = reader(data, place)
        if value is not None:
            size = len(value) if isinstance(value, str | list) else value
            _check(low <= size <= high, place, f"from {low} to {high}")
            _check(not isinstance(value, str) or pattern.search(value) is not None, place, "of its pattern")
        return value

    return read_bounded


def _check(holds: bool, place: str, what: str) -> None:
    if not holds:
        raise ReportError(f"{place} must be {what}")


@cache
def _members(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind, include_extras=True)
    return {field.name: hints[field.name] for field in fields(kind)}
