"""The routes of the API: path, parameters and answer. The server and its description read this table."""

from dataclasses import dataclass
from typing import Any

from aggregator.board import answers, lookup
from aggregator.board.answers import TableAnswer

PREFIX = "/api/v1"


@dataclass(frozen=True)
class Parameter:
    """One parameter of a question."""

    name: str
    meaning: str
    schema: dict[str, Any]


@dataclass(frozen=True)
class Route:
    """One question."""

    path: str
    meaning: str
    answer: type[TableAnswer]
    parameters: tuple[Parameter, ...] = ()

    @property
    def name(self) -> str:
        return self.path.rsplit("/", 1)[1]

    @property
    def of_query(self) -> bool:
        return "{query}" in self.path

    @property
    def known(self) -> tuple[str, ...]:
        return (*(parameter.name for parameter in self.parameters), "format")


def _whole_number(least: int, most: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": least, "maximum": most}


_TEXT = {"type": "string"}
_LIST = {"type": "array", "items": _TEXT}
_FLAG = {"type": "boolean", "default": False}
_KIND = (
    Parameter("kind", "Kind of window; the query's first that fits", {"type": "string", "enum": [*lookup.KINDS]}),
    Parameter("size", "Its size in seconds, 0 for all", _whole_number(0, lookup.LATE)),
    Parameter("step", "Its step in seconds, 0 for all", _whole_number(0, lookup.LATE)),
)
_PROVISIONAL = Parameter("provisional", "What is known of the next window too", _FLAG)
_ATTRIBUTE = Parameter("attribute", "Where a client gives several answers; the first", _TEXT)
_METHOD = Parameter("method", "unbiased, which is the default but for sets, or one of the query's", _TEXT)
_RECORD = (
    Parameter("window", "The end of a window in Unix seconds, or latest", {**_TEXT, "default": lookup.LATEST}),
    *_KIND,
    _PROVISIONAL,
    _ATTRIBUTE,
    _METHOD,
)
_VALUES = (
    Parameter("values", "Values, with commas between them", _TEXT),
    Parameter(
        "value",
        "One value, as often as need be: for those with a comma in their names",
        {"type": "array", "items": _TEXT},
    ),
)
_TOP = Parameter("top", "Rows at the most", {**_whole_number(1, lookup.MOST), "default": answers.TOP_ROWS})
_LIMIT = Parameter("limit", "Newest rows at the most", {**_whole_number(1, lookup.MOST), "default": lookup.ROWS})
_TIMES = (
    Parameter("from", "Windows that end then or later, in Unix seconds", _whole_number(0, lookup.LATE)),
    Parameter("to", "Windows that end earlier", _whole_number(0, lookup.LATE)),
)
_OF = PREFIX + "/queries/{query}"

ROUTES = (
    Route(PREFIX + "/queries", "What is counted, and which windows are known", answers.Queries),
    Route(
        f"{_OF}/estimate",
        "The shares of the values in a window, with their errors",
        answers.WindowEstimate,
        (*_RECORD, *_VALUES, _TOP),
    ),
    Route(
        f"{_OF}/set",
        "The share of a set of values in a window",
        answers.SetShares,
        (*_RECORD, *_VALUES, Parameter("name", "A set of the query file, in place of values", _TEXT)),
    ),
    Route(
        f"{_OF}/heavy-hitters",
        "The values that exceed a threshold in a window",
        answers.HeavyHitters,
        (
            *_RECORD,
            _TOP,
            Parameter("threshold", "significance, a share below 1, or a count; that of the query", _TEXT),
            Parameter(
                "family_error",
                "The chance of a single wrong `decided`; that of the query",
                {"type": "number", "exclusiveMinimum": 0, "maximum": 0.5},
            ),
        ),
    ),
    Route(
        f"{_OF}/history",
        "One value over the windows",
        answers.History,
        (Parameter("value", "The value", _TEXT), *_KIND, *_TIMES, _LIMIT, _PROVISIONAL, _ATTRIBUTE, _METHOD),
    ),
    Route(
        f"{_OF}/windows",
        "The windows that are known, and how many reports they hold",
        answers.WindowCounts,
        (*_KIND, *_TIMES, _LIMIT, _PROVISIONAL),
    ),
    Route(
        PREFIX + "/alerts",
        "What has become frequent, ceased to be, or risen; the newest first",
        answers.Alerts,
        (
            Parameter("query", "Of this query", _TEXT),
            _ATTRIBUTE,
            Parameter("kind", "Of this kind", {"type": "string", "enum": [*answers.ALERT_KINDS]}),
            _LIMIT,
        ),
    ),
)
