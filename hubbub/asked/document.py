"""The document of a definition: what a signature of a list binds, and its canonical JSON."""

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

LARGEST = 64 << 10
"""Bytes of the largest document in a list. Of a larger one the list holds the hash alone."""
_OPERATOR_MEMBERS = frozenset({"spread", "stopped", "sample"})
"""Members that an operator may change alone, because no answer means another thing after it."""
_OPTIONAL_MEMBERS = frozenset({"about", "purpose", "contact", "from", "until", "arms", "experiment", "recorder"})
"""Members that count as absent if they are null, so that a release with a new one changes no older document."""


def document_of(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document of an item of GET /v1/queries."""
    return {
        name: value
        for name, value in item.items()
        if name not in _OPERATOR_MEMBERS and not (value is None and name in _OPTIONAL_MEMBERS)
    }


def canonical(value: Any) -> bytes:
    """Return the canonical JSON of a value: sorted keys, no blanks, UTF-8, floats with a point."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def hash_of(document: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a document. The digest of a query has 8 bytes only, which somebody could find twice."""
    return sha256(canonical(document)).hexdigest()
