"""A reply as bytes: an answer as JSON or CSV, with the tag that tells whether it has changed; problems."""

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from operator import attrgetter
from typing import Any, Self

import orjson

from aggregator.publishing.cell import cell
from hubbub.problem import Problem


@dataclass(frozen=True)
class Reply:
    """A body and its media type."""

    body: bytes
    kind: str

    @classmethod
    def json(cls, answer: Any, kind: str = "application/json") -> Self:
        return cls(orjson.dumps(answer, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE), kind)

    @classmethod
    def csv(cls, columns: Sequence[str], rows: Iterable[Any]) -> Self:
        """A row each, an empty cell for what is not known; "window.end" is the end of a row's window."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\r\n")
        writer.writerow(columns)
        found = [attrgetter(column) for column in columns]
        writer.writerows([cell(get(row)) for get in found] for row in rows)
        return cls(text.getvalue().encode(), "text/csv; charset=utf-8")

    @property
    def tag(self) -> str:
        return f'"{sha256(self.kind.encode() + self.body).hexdigest()[:32]}"'


def bad(detail: str, **more: Any) -> Problem:
    """A parameter that cannot be understood, or an answer that cannot be had."""
    return Problem(400, detail, **more)


def missing(detail: str, **more: Any) -> Problem:
    """Something that is named and is not there."""
    return Problem(404, detail, **more)
