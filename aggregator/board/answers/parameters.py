"""The parameters of requests, with meanings and limits for the description and for the reader."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from aggregator.board.answers.reply import bad
from aggregator.records.alert import AlertKind
from aggregator.records.rows import Kind
from hubbub.http.schema import Schema
from oracles.estimate.looks import NAMES

MOST = 10_000
"""Maximum number of rows in an answer."""
LATEST = "latest"
FIRST = "first"
LATE = 1 << 40
"""A limit in seconds above every window's end and length."""


@dataclass(frozen=True)
class Parameter:
    """A parameter of a route."""

    name: str
    meaning: str
    schema: Schema

    def limits(self, kind: str) -> Schema:
        """Return the part of the schema with this JSON type."""
        return next(part for part in self.schema.get("anyOf", [self.schema]) if part["type"] == kind)


def _whole(most: int, least: int = 0, **more: int) -> Schema:
    return {"type": "integer", "minimum": least, "maximum": most, **more}


_TEXT = {"type": "string"}
_ABOVE: Schema = {"type": "number", "exclusiveMinimum": 0}
FORMAT = Parameter(
    "format", "The format of the answer; replaces the header Accept", {"type": "string", "enum": ["json", "csv"]}
)
KIND = (
    Parameter(
        "kind",
        "Kind of window; default: the first matching kind of the query",
        {"type": "string", "enum": [*get_args(Kind)]},
    ),
    Parameter("size", "Size of the window in seconds; 0 for kind=all", _whole(LATE)),
    Parameter("step", "Step of the window in seconds; 0 for kind=all", _whole(LATE)),
)
PROVISIONAL = Parameter(
    "provisional", "Include the provisional window, which is not final yet", {"type": "boolean", "default": False}
)
ATTRIBUTE = Parameter("attribute", "Attribute of the query; default: the first", _TEXT)
GROUP = Parameter("group", "One group, or (none) for reports without a group; default: the total of all groups", _TEXT)
WITH = Parameter("with", "A second group, which the answer compares with `group` in one window", _TEXT)
METHOD = Parameter(
    "method", "unbiased or a method of the query; default: unbiased, for sets the first consistent method", _TEXT
)
WINDOW = (
    Parameter(
        "window",
        "The end of a window in Unix seconds, or latest",
        {"anyOf": [{"type": "string", "enum": [LATEST]}, _whole(LATE)], "default": LATEST},
    ),
    *KIND,
    PROVISIONAL,
    GROUP,
)
WINDOW_OF_GROUPS = (WINDOW[0], *KIND, PROVISIONAL)
RECORD = (*WINDOW, ATTRIBUTE, METHOD)
VALUE = Parameter(
    "value", "A value of the domain; of numbers a quantile such as p95, mean, geometric_mean or a range", _TEXT
)
VALUES = (
    Parameter("values", "Values, separated by commas", _TEXT),
    Parameter(
        "value",
        "One value; repeatable, for values with a comma in their names",
        {"type": "array", "items": _TEXT},
    ),
)
GIVEN_VALUE = Parameter("value", "A value of the attribute: the shares are among the clients that have it", _TEXT)
OF = Parameter("of", "The other attribute of the pair, whose values get shares", _TEXT)
SET = Parameter("name", "A set of the query file, instead of values", _TEXT)
TOP = Parameter("top", "Maximum number of rows", _whole(MOST, 1, default=100))
TOP_VALUES = Parameter("top", "Maximum number of values", _whole(100, 1, default=10))
LIMIT = Parameter("limit", "Maximum number of rows; the newest are returned", _whole(MOST, 1, default=500))
LISTED = Parameter(
    "listed", "Length of a list of the largest that shows the value: the intervals get its level", _whole(MOST, 1)
)
TIMES = (
    Parameter("from", "Earliest end of a window, in Unix seconds", _whole(LATE, default=0)),
    Parameter("to", "Upper limit of the end of a window, in Unix seconds, excluded", _whole(LATE, default=LATE)),
)
WINDOW_PAIR = (
    Parameter(
        "from",
        "The end of the earlier window in Unix seconds, first, or -N for N windows before `to`",
        {"anyOf": [{"type": "string", "enum": [FIRST]}, _whole(LATE, -MOST)]},
    ),
    Parameter("to", "The end of the later window in Unix seconds", _whole(LATE)),
)
"""Two windows of one query."""
GROUP_PAIR = (WINDOW[0], GROUP, WITH)
"""Two groups of one window."""
THRESHOLD = Parameter(
    "threshold",
    "significance, a share below 1, or a count; default: the threshold of the query",
    {"anyOf": [{"type": "string", "enum": ["significance"]}, {**_ABOVE, "maximum": 1e15}]},
)
FAMILY_ERROR = Parameter(
    "family_error",
    "The probability of any wrong `decided`; default: the setting of the query",
    {**_ABOVE, "maximum": 0.5},
)
LOOKS = Parameter(
    "looks",
    "How often the comparison may be read: one, each window of a day, or always; "
    "default: always for two groups in kind=all, else day",
    {"type": "string", "enum": [*NAMES]},
)
P = Parameter(
    "p",
    "The share of the numbers below a quantile; repeatable; default: the quantiles of the query",
    {"type": "array", "items": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}},
)
RANGE = (
    Parameter("from", "Lower end of a range of numbers; default: the lower end of the scale", {"type": "number"}),
    Parameter("to", "Upper end of a range of numbers; default: the upper end of the scale", {"type": "number"}),
    Parameter("name", "A range of the query file, instead of its ends; default: all of them", _TEXT),
)
QUERY = Parameter("query", "Only alerts of this query", _TEXT)
ALERT_KIND = Parameter("kind", "Only alerts of this kind", {"type": "string", "enum": [*get_args(AlertKind)]})


class Parameters:
    """The parameters of one request. Unknown names are refused, so that a misspelt one is noticed."""

    def __init__(self, pairs: Sequence[tuple[str, str]], parameters: Sequence[Parameter]) -> None:
        self._parameters = {parameter.name: parameter for parameter in parameters}
        self._texts: dict[str, list[str]] = {}
        for name, text in pairs:
            if name not in self._parameters:
                choices = ", ".join(self._parameters)
                raise bad(f"there is no parameter {name!r} here; the parameters are {choices}", parameter=name)
            self._texts.setdefault(name, []).append(text)

    def text(self, name: str) -> str | None:
        texts = self._texts.get(name, [])
        if len(texts) > 1:
            raise bad(f"{name} occurs {len(texts)} times; give it once", parameter=name)
        return texts[0] if texts else None

    def number(self, name: str) -> int | None:
        """Return a whole number, or None if the request does not have it."""
        text = self.text(name)
        if text is None:
            return None

        # `int` alone would also take blanks, signs, underscores and the digits of other scripts.
        limits = self._parameters[name].limits("integer")
        least = limits["minimum"]
        most = limits["maximum"]
        if not text.isascii() or not text.isdecimal() or len(text) > 15 or not max(least, 0) <= int(text) <= most:
            raise bad(f"{name} must be a whole number from {least} to {most}, got {text!r}", parameter=name)
        return int(text)

    def whole(self, name: str, default: int | None = None) -> int:
        """Return a whole number, by default `default` or the default of the parameter."""
        number = self.number(name)
        if number is None:
            number = self._parameters[name].schema["default"] if default is None else default
        return number

    def back(self, name: str) -> int:
        """Return how many windows a text such as -5 goes back."""
        text = self.text(name) or ""
        digits = text.removeprefix("-")
        if not digits.isascii() or not digits.isdecimal() or len(digits) > 5 or not 0 < int(digits) <= MOST:
            raise bad(f"{name} must be first, a time, or from -1 to -{MOST}, got {text!r}", parameter=name)
        return int(digits)

    def above(self, name: str, default: float) -> float:
        """Return a number within the limits of the parameter."""
        text = self.text(name)
        if text is None:
            return default

        limits = self._parameters[name].limits("number")
        least = limits["exclusiveMinimum"]
        most = limits["maximum"]
        number = _float(text)
        if not least < number <= most:
            raise bad(f"{name} must be a number above {least:g} and at most {most:g}, got {text!r}", parameter=name)
        return number

    def decimal(self, name: str) -> float | None:
        """Return a finite number, or None if the request does not have it."""
        text = self.text(name)
        number = math.nan if text is None else _float(text)
        if text is not None and not math.isfinite(number):
            raise bad(f"{name} must be a number, got {text!r}", parameter=name)
        return None if text is None else number

    def shares(self, name: str) -> list[float]:
        """Return the shares above 0 and below 1 of a repeatable parameter."""
        texts = self._texts.get(name, [])
        if len(texts) > MOST:
            raise bad(f"the request has {len(texts)} times {name}; at most {MOST} are allowed", parameter=name)
        for text in texts:
            if not 0.0 < _float(text) < 1.0:
                raise bad(f"{name} must be a share above 0 and below 1, got {text!r}", parameter=name)
        return [*map(float, texts)]

    def choice(self, name: str, choices: Sequence[str] = ()) -> str | None:
        """Return one of the choices, by default the choices of the parameter."""
        text = self.text(name)
        choices = choices or self._parameters[name].schema["enum"]
        if text is not None and text not in choices:
            raise bad(f"{name} must be one of {', '.join(choices)}, got {text!r}", parameter=name)
        return text

    def flag(self, name: str) -> bool:
        return self.choice(name, ("true", "false")) == "true"

    def values(self) -> list[str] | None:
        """Return the names in `values` and in each `value`, or None."""
        text = self.text("values")
        names = [*(text.split(",") if text else []), *self._texts.get("value", [])]
        if len(names) > MOST:
            raise bad(f"the request names {len(names)} values; at most {MOST} are allowed", parameter="values")
        duplicate = next((name for name, count in Counter(names).items() if count > 1), None)
        if duplicate is not None:
            raise bad(f"the request names the value {duplicate!r} twice", parameter="values")
        return names or None


def _float(text: str) -> float:
    """Return the number of a text, or NaN."""
    try:
        return float(text)
    except ValueError:
        return math.nan
