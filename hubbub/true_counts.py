"""The record of the topic `truth`: the true counts of a pane, which a simulation publishes."""

import re
from typing import Any, NamedTuple

import numpy as np
import orjson

from oracles.errors import ReportError
from oracles.types import Ints

_DIGEST = re.compile("[0-9a-f]{16}")
_LONGEST = 256
_LATEST = 1 << 40
"""Unix seconds before which every pane starts."""
_MOST = 1 << 40
"""Upper bound of each count."""


class TrueCounts(NamedTuple):
    """The true counts of a pane by one source."""

    query: str
    digest: str
    pane: int
    source: str
    counts: tuple[Ints, ...]
    """The counts of each attribute, or of the single answer."""

    @property
    def key(self) -> bytes:
        """The key of the record. A later record of the same source and pane replaces it."""
        return f"{self.query}|{self.pane}|{self.source}".encode()


def encode(truth: TrueCounts, *, several: bool) -> bytes:
    """Return the value of the record. With `several` attributes it has a list for each."""
    fields = truth._asdict() | {"counts": list(truth.counts) if several else truth.counts[0]}
    return orjson.dumps(fields, option=orjson.OPT_SERIALIZE_NUMPY)


def decode(value: bytes) -> TrueCounts:
    """Return the counts of a record. If it is invalid, raise ReportError or ValueError."""
    fields = orjson.loads(value)
    if not isinstance(fields, dict):
        raise ReportError("a record of the truth must be an object")
    query, digest, source = (_text(fields.get(key)) for key in ("query", "digest", "source"))
    pane = fields.get("pane")
    counts = fields.get("counts")
    # `isinstance` would take true for the pane 1.
    if not _DIGEST.fullmatch(digest) or type(pane) is not int or not 0 <= pane < _LATEST:
        raise ReportError("a record of the truth must have a digest and a pane")
    if not isinstance(counts, list) or not counts:
        raise ReportError("a record of the truth must have counts")
    columns = counts if isinstance(counts[0], list) else [counts]
    return TrueCounts(query, digest, pane, source, tuple(map(_counts, columns)))


def _text(text: Any) -> str:
    if not isinstance(text, str) or len(text) > _LONGEST:
        raise ReportError("a record of the truth must have query, digest and source")
    return text


def _counts(counts: Any) -> Ints:
    if not isinstance(counts, list) or set(map(type, counts)) != {int} or not 0 <= min(counts) <= max(counts) < _MOST:
        raise ReportError("true counts must be whole numbers of at least zero")
    return np.array(counts, np.int64)
