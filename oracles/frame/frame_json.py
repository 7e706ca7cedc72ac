"""Frames in JSON: an object with exactly the keys of a frame, each once, with valid values."""

import binascii
import re
from functools import cache
from typing import Any

import numpy as np

from oracles.errors import FrameError, extra
from oracles.types import Reports

_HEX = re.compile(r"[0-9A-Fa-f]{16}")
_KEYS = {"digest", "pane", "reports"}
_MAY = _KEYS | {"id", "group"}
_MOST_COLONS = len(_MAY) + 1
"""Colons of a frame with all keys. The group is an object with one name."""


def members(text: bytes) -> dict[str, Any]:
    """Return the members of a frame's object.

    The number of colons is the number of keys, including that in a group and repeated ones, because no key or value of
    a frame holds a bracket, a brace or a colon. The parser would keep the last of repeated keys. A deeply nested object
    is refused before it is parsed.
    """
    colons = text.count(b":")
    if colons > _MOST_COLONS or b"[" in text or max(text.count(b"{"), text.count(b"}")) > 2:
        raise malformed(
            f"JSON must have no list, at most 2 objects and at most {_MOST_COLONS} colons, got {colons} colons"
        )

    parser = _parser()
    try:
        fields: dict[str, Any] = parser.loads(text)
    except parser.JSONDecodeError as error:
        raise malformed(f"JSON: {error}") from None

    group = fields.get("group")
    inner = len(group) if type(group) is dict else 0
    if not _KEYS <= fields.keys() <= _MAY or len(fields) + inner != colons:
        valid = len(fields.keys() & _MAY)
        raise malformed(
            f"JSON with {valid} known and {len(fields) - valid} unknown keys and {colons} colons; "
            f"the keys are {', '.join(sorted(_KEYS))}, perhaps id and group, each once"
        )
    return fields


@cache
def _parser() -> Any:
    """Return the module that parses JSON."""
    with extra("kafka"):
        import orjson  # strict: the standard library accepts NaN and lone surrogates
    return orjson


def eight(fields: dict[str, Any], key: str) -> bytes:
    """Return a digest or id: 8 bytes from hex digits."""
    text = fields[key]
    if type(text) is not str or not _HEX.fullmatch(text):
        raise malformed(f"{key} must be a string of 16 hex digits")
    return bytes.fromhex(text)


def reports_of(fields: dict[str, Any]) -> Reports:
    """Return the bytes of the reports, from base64 in its one standard form."""
    text = fields["reports"]
    if type(text) is not str:
        raise malformed("reports must be a string of base64")
    try:
        raw = binascii.a2b_base64(text)
    except ValueError as error:
        raise malformed(f"reports, {len(text)} characters, are not base64: {error}") from None
    # Other forms of the same bytes (no padding, white space) would make two messages of one frame.
    if binascii.b2a_base64(raw, newline=False) != text.encode():
        raise malformed(f"reports, {len(text)} characters, are not base64 in its standard form with padding")
    return np.frombuffer(raw, np.uint8)


def group_of(fields: dict[str, Any]) -> tuple[str, str]:
    """Return the name and the value of a group, an object with one string."""
    group = fields["group"]
    if type(group) is not dict or len(group) != 1:
        raise malformed('group must be an object with one name, such as {"platform": "ios"}')
    [(name, value)] = group.items()
    if type(value) is not str:
        raise malformed("the value of a group must be a string")
    return name, value


def malformed(detail: str) -> FrameError:
    return FrameError("malformed", detail)
