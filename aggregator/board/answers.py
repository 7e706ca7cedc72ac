"""An answer as bytes: JSON, or CSV where a table is asked for, with the tag that tells whether it has changed."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Self

import orjson


@dataclass(frozen=True)
class Answer:
    """A body and what it is."""

    body: bytes
    kind: str

    @classmethod
    def json(cls, said: Mapping[str, Any], *, problem: bool = False) -> Self:
        body = orjson.dumps(said, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE)
        return cls(body, "application/problem+json" if problem else "application/json")

    @classmethod
    def csv(cls, columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> Self:
        """A row each, an empty cell for what is not known; numbers are the shortest that read back the same."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\r\n")
        writer.writerow(columns)
        writer.writerows([_cell(_found(row, column)) for column in columns] for row in rows)
        return cls(text.getvalue().encode(), "text/csv; charset=utf-8")

    @property
    def tag(self) -> str:
        return f'"{sha256(self.kind.encode() + self.body).hexdigest()[:32]}"'


def _found(row: Mapping[str, Any], column: str) -> Any:
    """What stands in a column; "window.end" is the end of the window."""
    outer, _, inner = column.partition(".")
    return row[outer][inner] if inner else row[outer]


def _cell(value: Any) -> str:
    if value is None or value != value:  # noqa: PLR0124 - NaN alone differs from itself
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) else repr(value)
