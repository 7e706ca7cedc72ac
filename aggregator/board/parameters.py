"""The parameters of a request: what each may be, said once for its description and for who reads it."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from aggregator.board.reply import bad
from aggregator.publishing.alert import AlertKind
from aggregator.publishing.schema import Schema
from aggregator.publishing.window import Kind

MOST = 10_000
"""The most rows of an answer."""
LATEST = "latest"
LATE = 1 << 40
"""Later than all windows, and longer."""


@dataclass(frozen=True)
class Parameter:
    """One parameter of a question."""

    name: str
    meaning: str
    schema: Schema

    def limits(self, kind: str) -> Schema:
        """The schema of those of its values that are of this type."""
        return next(each for each in self.schema.get("anyOf", [self.schema]) if each["type"] == kind)


def _whole(most: int, least: int = 0, **more: int) -> Schema:
    return {"type": "integer", "minimum": least, "maximum": most, **more}


_TEXT = {"type": "string"}
_ABOVE: Schema = {"type": "number", "exclusiveMinimum": 0}
FORMAT = Parameter("format", "In place of Accept", {"type": "string", "enum": ["json", "csv"]})
KIND = (
    Parameter("kind", "Kind of window; the query's first that fits", {"type": "string", "enum": [*get_args(Kind)]}),
    Parameter("size", "Its size in seconds, 0 for all", _whole(LATE)),
    Parameter("step", "Its step in seconds, 0 for all", _whole(LATE)),
)
PROVISIONAL = Parameter("provisional", "What is known of the next window too", {"type": "boolean", "default": False})
ATTRIBUTE = Parameter("attribute", "Where a client gives several answers; the first", _TEXT)
METHOD = Parameter("method", "unbiased, which is the default but for sets, or one of the query's", _TEXT)
RECORD = (
    Parameter(
        "window",
        "The end of a window in Unix seconds, or latest",
        {"anyOf": [{"type": "string", "enum": [LATEST]}, _whole(LATE)], "default": LATEST},
    ),
    *KIND,
    PROVISIONAL,
    ATTRIBUTE,
    METHOD,
)
VALUE = Parameter("value", "The value", _TEXT)
VALUES = (
    Parameter("values", "Values, with commas between them", _TEXT),
    Parameter(
        "value",
        "One value, as often as need be: for those with a comma in their names",
        {"type": "array", "items": _TEXT},
    ),
)
SET = Parameter("name", "A set of the query file, in place of values", _TEXT)
TOP = Parameter("top", "Rows at the most", _whole(MOST, 1, default=100))
LIMIT = Parameter("limit", "Newest rows at the most", _whole(MOST, 1, default=500))
TIMES = (
    Parameter("from", "Windows that end then or later, in Unix seconds", _whole(LATE, default=0)),
    Parameter("to", "Windows that end earlier", _whole(LATE, default=LATE)),
)
THRESHOLD = Parameter(
    "threshold",
    "significance, a share below 1, or a count; that of the query",
    {"anyOf": [{"type": "string", "enum": ["significance"]}, {**_ABOVE, "maximum": 1e15}]},
)
FAMILY_ERROR = Parameter(
    "family_error", "The chance of a single wrong `decided`; that of the query", {**_ABOVE, "maximum": 0.5}
)
QUERY = Parameter("query", "Of this query", _TEXT)
ALERT_KIND = Parameter("kind", "Of this kind", {"type": "string", "enum": [*get_args(AlertKind)]})


class Parameters:
    """A request's parameters. Names that the route does not know are refused: a misspelt one must not go unnoticed."""

    def __init__(self, given: Sequence[tuple[str, str]], known: Sequence[Parameter]) -> None:
        self._known = {parameter.name: parameter for parameter in known}
        self._given: dict[str, list[str]] = {}
        for name, text in given:
            if name not in self._known:
                raise bad(f"there is no parameter {name!r} here; there are {', '.join(self._known)}", parameter=name)
            self._given.setdefault(name, []).append(text)

    def text(self, name: str) -> str | None:
        texts = self._given.get(name, [])
        if len(texts) > 1:
            raise bad(f"{name} stands {len(texts)} times; it may stand once", parameter=name)
        return texts[0] if texts else None

    def number(self, name: str) -> int | None:
        """A whole number."""
        text, limits = self.text(name), self._known[name].limits("integer")
        if text is None:
            return None
        least, most = limits["minimum"], limits["maximum"]
        if not text.isascii() or not text.isdecimal() or len(text) > 15 or not least <= int(text) <= most:
            raise bad(f"{name} must be a whole number from {least} to {most}, got {text!r}", parameter=name)
        return int(text)

    def whole(self, name: str, default: int | None = None) -> int:
        """A whole number, else this one or that of the description."""
        number = self.number(name)
        if number is None:
            number = self._known[name].schema["default"] if default is None else default
        return number

    def above(self, name: str, default: float) -> float:
        """A number above the least and at most the most that there may be."""
        text, limits = self.text(name), self._known[name].limits("number")
        if text is None:
            return default
        least, most = limits["exclusiveMinimum"], limits["maximum"]
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not least < number <= most:
            raise bad(f"{name} must be a number above {least:g} and at most {most:g}, got {text!r}", parameter=name)
        return number

    def choice(self, name: str, choices: Sequence[str] = ()) -> str | None:
        """One of these words, or of those of the description."""
        text, choices = self.text(name), choices or self._known[name].schema["enum"]
        if text is not None and text not in choices:
            raise bad(f"{name} must be one of {', '.join(choices)}, got {text!r}", parameter=name)
        return text

    def flag(self, name: str) -> bool:
        return self.choice(name, ("true", "false")) == "true"

    def values(self) -> list[str] | None:
        """Names of values: `values` with commas between them, and `value` for one whose name has a comma."""
        joined = self.text("values")
        names = [*(joined.split(",") if joined else []), *self._given.get("value", [])]
        if len(names) > MOST:
            raise bad(f"{len(names)} values are asked for at once; {MOST} may be", parameter="values")
        again = next((name for name, count in Counter(names).items() if count > 1), None)
        if again is not None:
            raise bad(f"the value {again!r} is asked for twice", parameter="values")
        return names or None
