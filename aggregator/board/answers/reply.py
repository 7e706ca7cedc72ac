"""Answers as JSON or CSV with an ETag, and the problems of the API."""

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from operator import attrgetter
from typing import Any, Self

import orjson

from aggregator.records.rows import cell
from hubbub.http.problem import Problem


@dataclass(frozen=True)
class Reply:
    """The body of a response, and its media type."""

    body: bytes
    kind: str

    @classmethod
    def json(cls, answer: Any, kind: str = "application/json") -> Self:
        return cls(orjson.dumps(answer, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE), kind)

    @classmethod
    def csv(cls, columns: Sequence[str], rows: Iterable[Any]) -> Self:
        """Return a table with empty cells for unknown numbers. "window.end" names the end of a row's window."""
        text = io.StringIO()
        # RFC 4180 ends lines so, on every system.
        writer = csv.writer(text, lineterminator="\r\n")
        writer.writerow(columns)
        getters = [attrgetter(column) for column in columns]
        writer.writerows([cell(get(row)) for get in getters] for row in rows)
        return cls(text.getvalue().encode(), "text/csv; charset=utf-8")

    @property
    def tag(self) -> str:
        # The kind belongs to the tag, because one path gives JSON and CSV of the same numbers.
        return f'"{sha256(self.kind.encode() + self.body).hexdigest()[:32]}"'


def bad(detail: str, **more: Any) -> Problem:
    """Return the problem of a wrong parameter, or of an answer that the record does not allow."""
    return Problem(400, detail, **more)


def missing(detail: str, **more: Any) -> Problem:
    """Return the problem of a name that does not exist."""
    return Problem(404, detail, **more)
