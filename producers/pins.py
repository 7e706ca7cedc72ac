"""The limits that an application pins for the definition of a query, and numbers of a definition that make no sense.

A listing comes from outside. Nothing is charged or stored if it differs from a pin.
"""

import math
from collections.abc import Mapping
from typing import Any

from oracles.errors import ParameterError
from oracles.query import Query
from oracles.query.public_definition import public_definition
from oracles.query.settings import shown
from producers.errors import NotAllowed

AT_MOST = ("epsilon", "record_charge", "budget")
AT_LEAST = ("renew", "period", "pane")
EQUAL: dict[str, type | tuple[type, ...]] = {
    "answers": str,
    "noise": str,
    "table": (int, Mapping),
    "oracle": (str, Mapping),
    "buckets": (int, Mapping),
    "solution": str,
    "domain": (int, list, tuple, Mapping),
    "other": bool,
    "attributes": Mapping,
    "pairs": (list, tuple),
    "groups": Mapping,
    "about": str,
    "purpose": str,
    "contact": str,
    "digest": str,
}
"""The members that must be equal as JSON, and the types of their values."""
_TEXTS = ("about", "purpose", "contact")
"""The members that only a definition has whose file has them."""
_OPTIONAL = frozenset(EQUAL) - {"answers", "noise", "oracle", "digest"}
MEMBERS = (*AT_MOST, *AT_LEAST, *EQUAL)
LONGEST = 10**9
"""Seconds of the longest period, pane and round."""

Pins = Mapping[str, Any] | Query | None


def read_pins(pinned: Pins) -> dict[str, Any]:
    """Return the pinned members. An unknown or malformed member is a ParameterError."""
    if pinned is None:
        return {}
    if isinstance(pinned, Query):
        return pins_of(pinned)
    if not isinstance(pinned, Mapping):
        raise ParameterError(f"pinned must be a mapping of members of a definition, or a Query, got {shown(pinned)}")

    for member, value in pinned.items():
        if member not in MEMBERS:
            raise ParameterError(f"pinned has the unknown member {shown(member)}; choose from {', '.join(MEMBERS)}")
        if member in AT_MOST and not _is_number(value):
            raise ParameterError(f"pinned {member} must be a number above 0, got {shown(value)}")
        if member in AT_LEAST and not (_is_seconds(value) or (member == "renew" and value is None)):
            raise ParameterError(f"pinned {member} must be whole seconds from 1 to {LONGEST}, got {shown(value)}")
        if member in EQUAL and not (isinstance(value, EQUAL[member]) or (value is None and member in _OPTIONAL)):
            raise ParameterError(f"pinned {member} must have the form that GET /v1/queries lists, got {shown(value)}")
    return {member: _plain(value) for member, value in pinned.items()}


def pins_of(query: Query, *, digest: bool = False) -> dict[str, Any]:
    """Return all members of a query that can be pinned, and the digest if asked for."""
    definition = _plain(public_definition(query))
    # A text that nobody wrote binds nothing, and clients of older releases do not know its name.
    left_out = {name for name in _TEXTS if name not in definition} | (set() if digest else {"digest"})
    return {member: definition.get(member) for member in MEMBERS if member not in left_out}


def check_pins(definition: Mapping[str, Any], pins: Mapping[str, Any]) -> None:
    """Raise NotAllowed if a definition is not within the pins."""
    name = shown(definition.get("name"))
    for member, limit in pins.items():
        listing = _plain(definition.get(member))
        if not _is_within(member, listing, limit):
            bound = "at most " if member in AT_MOST else "at least " if member in AT_LEAST else ""
            text = f"{bound}{shown(limit)}"
            raise NotAllowed(f"query {name}: the application pins {member} to {text}, the listing has {shown(listing)}")


def check_numbers(definition: Mapping[str, Any]) -> None:
    """Raise NotAllowed if a definition has a time or a budget that no query can have."""
    name = shown(definition.get("name"))
    for member in AT_LEAST:
        value = definition.get(member)
        if not (_is_seconds(value) or (member == "renew" and value is None)):
            raise NotAllowed(f"query {name}: {member} must be whole seconds from 1 to {LONGEST}, got {shown(value)}")
    if not _is_number(definition.get("budget")):
        raise NotAllowed(f"query {name}: budget must be a number above 0, got {shown(definition.get('budget'))}")


def _is_within(member: str, listed: Any, pinned: Any) -> bool:
    if member in AT_MOST:
        return _is_number(listed) and listed <= pinned
    if member == "renew" and (listed is None or pinned is None):
        return listed is None
    if member in AT_LEAST:
        return _is_seconds(listed) and listed >= pinned
    return _is_same(listed, pinned)


def _is_same(value: Any, reference: Any) -> bool:
    """Whether two values are equal as JSON, where 1 is 1.0 and not true, and a missing member is null."""
    if isinstance(value, dict) and isinstance(reference, dict):
        return all(_is_same(value.get(key), reference.get(key)) for key in value.keys() | reference.keys())
    if isinstance(value, list) and isinstance(reference, list):
        return len(value) == len(reference) and all(map(_is_same, value, reference))
    return isinstance(value, bool) == isinstance(reference, bool) and bool(value == reference)


def _plain(value: Any) -> Any:
    """Return a value with lists and dicts only, as JSON has it."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf


def _is_seconds(value: object) -> bool:
    return type(value) is int and 1 <= value <= LONGEST
