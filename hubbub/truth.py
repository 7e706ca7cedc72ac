"""The true counts of a pane, as a simulation tells them: the one form in which they are written and read."""

import re
from typing import Any, NamedTuple

import numpy as np
import orjson

from oracles.errors import ReportError
from oracles.types import Ints

_DIGEST = re.compile("[0-9a-f]{16}")
_LONGEST = 256
_LATEST = 1 << 40
"""No pane starts later."""
_MOST = 1 << 40
"""No pane has more clients."""


class TrueCounts(NamedTuple):
    """The true counts of a pane by one source."""

    query: str
    digest: str
    pane: int
    source: str
    counts: tuple[Ints, ...]
    """Of each attribute, or of the one answer."""

    @property
    def key(self) -> bytes:
        """The key of the message: what a source says later of a pane replaces what it said before."""
        return f"{self.query}|{self.pane}|{self.source}".encode()


def encode(told: TrueCounts, *, several: bool) -> bytes:
    """The value of the message; a list an attribute where the query has `several`."""
    fields = told._asdict() | {"counts": list(told.counts) if several else told.counts[0]}
    return orjson.dumps(fields, option=orjson.OPT_SERIALIZE_NUMPY)


def decode(value: bytes) -> TrueCounts:
    """The counts in these bytes; a ReportError or ValueError where there are none."""
    said = orjson.loads(value)
    if not isinstance(said, dict):
        raise ReportError("a record of the truth is an object")
    query, digest, source = (_text(said.get(key)) for key in ("query", "digest", "source"))
    pane, counts = said.get("pane"), said.get("counts")
    if not _DIGEST.fullmatch(digest) or type(pane) is not int or not 0 <= pane < _LATEST:
        raise ReportError("a record of the truth names a digest and a pane")
    if not isinstance(counts, list) or not counts:
        raise ReportError("a record of the truth has counts")
    columns = counts if isinstance(counts[0], list) else [counts]
    return TrueCounts(query, digest, pane, source, tuple(map(_counts, columns)))


def _text(text: Any) -> str:
    if not isinstance(text, str) or len(text) > _LONGEST:
        raise ReportError("a record of the truth names query, digest and source")
    return text


def _counts(counts: Any) -> Ints:
    if not isinstance(counts, list) or set(map(type, counts)) != {int} or not 0 <= min(counts) <= max(counts) < _MOST:
        raise ReportError("true counts are whole numbers, none below zero")
    return np.array(counts, np.int64)
