"""The members of a frame in JSON: exactly the keys of one, each once, in the forms that they have."""

import binascii
import re
from typing import Any

import numpy as np

from oracles.errors import FrameError, extra
from oracles.types import Reports

_HEX = re.compile(r"[0-9A-Fa-f]{16}")
_KEYS = {"digest", "pane", "reports"}
_MAY = _KEYS | {"id"}


def members(text: bytes) -> dict[str, Any]:
    """The members of a frame's object.

    No key or value of a frame holds a bracket or a colon. So colons count the keys, repeated ones
    too, of which the parser would keep the last; and a bomb is refused before anything is parsed.
    """
    colons = text.count(b":")
    if colons > len(_MAY) or b"[" in text:
        raise malformed(f"JSON with a list, or with {colons} colons where {len(_MAY)} are the most")
    with extra("kafka"):
        import orjson  # strict, where the standard library takes NaN and lone surrogates
    try:
        fields: dict[str, Any] = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise malformed(f"JSON: {error}") from None
    if not _KEYS <= fields.keys() <= _MAY or len(fields) != colons:
        known = len(fields.keys() & _MAY)
        raise malformed(
            f"JSON with {known} known and {len(fields) - known} unknown keys and {colons} colons; "
            f"the keys are {', '.join(sorted(_KEYS))}, perhaps id, each once"
        )
    return fields


def eight(fields: dict[str, Any], key: str) -> bytes:
    """A digest or id: 8 bytes as hex digits."""
    text = fields[key]
    if type(text) is not str or not _HEX.fullmatch(text):
        raise malformed(f"{key} must be a string of 16 hex digits")
    return bytes.fromhex(text)


def reports_of(fields: dict[str, Any]) -> Reports:
    """The reports' bytes, from base64; nothing but its one standard form will do."""
    text = fields["reports"]
    if type(text) is not str:
        raise malformed("reports must be a string of base64")
    try:
        raw = binascii.a2b_base64(text)
    except ValueError as error:
        raise malformed(f"reports, {len(text)} characters, are not base64: {error}") from None
    if binascii.b2a_base64(raw, newline=False) != text.encode():
        raise malformed(f"reports, {len(text)} characters, are not base64 in its standard form with padding")
    return np.frombuffer(raw, np.uint8)


def malformed(detail: str) -> FrameError:
    return FrameError("malformed", detail)
