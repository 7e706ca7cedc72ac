"""The routes of the API, with their parameters and answers. The server and the OpenAPI description use this table."""

from dataclasses import dataclass

from aggregator.board.answers import query_list
from aggregator.board.answers import window_answers as answers
from aggregator.board.answers.alert_list import Alerts
from aggregator.board.answers.all_queries import AllQueries
from aggregator.board.answers.annotations import Annotations
from aggregator.board.answers.conditional_shares import GivenShares
from aggregator.board.answers.difference_answer import DifferenceAnswer
from aggregator.board.answers.group_answers import GroupAnswers
from aggregator.board.answers.histories import History, WindowCounts
from aggregator.board.answers.numeric_answers import CumulativeShares, Quantiles, RangeShares
from aggregator.board.answers.parameters import (
    ALERT_KIND,
    ATTRIBUTE,
    FAMILY_ERROR,
    FORMAT,
    GIVEN_VALUE,
    GROUP,
    GROUP_PAIR,
    KIND,
    LIMIT,
    LISTED,
    LOOKS,
    METHOD,
    OF,
    PROVISIONAL,
    QUERY,
    RANGE,
    RECORD,
    SET,
    THRESHOLD,
    TIMES,
    TOP,
    TOP_VALUES,
    VALUE,
    VALUES,
    WINDOW,
    WINDOW_OF_GROUPS,
    WINDOW_PAIR,
    P,
    Parameter,
)
from aggregator.board.answers.window_answers import TableAnswer
from aggregator.board.answers.word_list import WordList
from hubbub.http.schema import Schema, schema

PREFIX = "/api/v1"


@dataclass(frozen=True)
class Route:
    """A route of the API, with its answer and parameters."""

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
    def all_parameters(self) -> tuple[Parameter, ...]:
        return (*self.parameters, FORMAT)


_QUERY = PREFIX + "/queries/{query}"

ROUTES = (
    Route(PREFIX + "/overview", "All queries at a glance: state, age, reports, largest value, alerts", AllQueries),
    Route(PREFIX + "/queries", "The queries, and the windows that the board keeps", query_list.Queries),
    Route(
        f"{_QUERY}/estimate",
        "The shares of the values in a window, with their errors. Of unknown strings: the names, or any string",
        answers.WindowEstimate,
        (*RECORD, *VALUES, TOP),
    ),
    Route(
        f"{_QUERY}/quantiles",
        "The quantiles of numbers in a window, with their intervals",
        Quantiles,
        (*WINDOW, ATTRIBUTE, P),
    ),
    Route(
        f"{_QUERY}/range",
        "The share of the numbers in a range, in a window, with its interval",
        RangeShares,
        (*WINDOW, ATTRIBUTE, *RANGE),
    ),
    Route(
        f"{_QUERY}/cdf",
        "The share of the numbers below each edge of the bins, in a window, with its interval",
        CumulativeShares,
        (*WINDOW, ATTRIBUTE),
    ),
    Route(f"{_QUERY}/set", "The share of a set of values in a window", answers.SetShares, (*RECORD, *VALUES, SET)),
    Route(
        f"{_QUERY}/heavy-hitters",
        "The values above a threshold in a window",
        answers.HeavyHitters,
        (*RECORD, TOP, THRESHOLD, FAMILY_ERROR),
    ),
    Route(
        f"{_QUERY}/compare",
        "The differences between two windows, or two groups of one window, and which of them are proved",
        DifferenceAnswer,
        (*WINDOW_PAIR, *KIND, *GROUP_PAIR, ATTRIBUTE, *VALUES, TOP, FAMILY_ERROR, LOOKS),
    ),
    Route(
        f"{_QUERY}/groups",
        "The largest values, or the answers about numbers, in each group of a window",
        GroupAnswers,
        (*WINDOW_OF_GROUPS, ATTRIBUTE, *VALUES, TOP_VALUES),
    ),
    Route(
        f"{_QUERY}/given",
        "The shares of the values of one attribute among the clients with one value of another",
        GivenShares,
        (*WINDOW, ATTRIBUTE, GIVEN_VALUE, OF),
    ),
    Route(
        f"{_QUERY}/history",
        "The share of one value, or one quantile, mean or range of numbers, in successive windows",
        History,
        (VALUE, LISTED, *KIND, *TIMES, LIMIT, PROVISIONAL, GROUP, ATTRIBUTE, METHOD),
    ),
    Route(
        f"{_QUERY}/windows",
        "The windows that the board keeps, and their numbers of reports",
        WindowCounts,
        (*KIND, *TIMES, LIMIT, PROVISIONAL, GROUP),
    ),
    Route(
        f"{_QUERY}/annotations",
        "The new versions of a query, and the notes of the operator",
        Annotations,
        (*TIMES, LIMIT),
    ),
    Route(
        PREFIX + "/alerts",
        "The alerts: values that entered, left, rose or fell; the newest first",
        Alerts,
        (QUERY, ATTRIBUTE, ALERT_KIND, LIMIT),
    ),
    Route(PREFIX + "/words", "The texts of flags and alerts on the page and in the terminal", WordList),
)

_TEXT = {"type": "string"}
_PROBLEM = {
    "type": "object",
    "properties": {"status": {"type": "integer"}, "title": _TEXT, "detail": _TEXT},
    "required": ["status", "title", "detail"],
}
SCHEMAS: dict[str, Schema] = {**{route.name: schema(route.answer) for route in ROUTES}, "problem": _PROBLEM}


def describe(version: str, *, protected: bool) -> Schema:
    """Return the OpenAPI description of the API."""
    paths = {route.path: {"get": _operation(route)} for route in ROUTES}
    events = {"description": "The events record, alert and beat", "content": {"text/event-stream": {"schema": _TEXT}}}
    paths[f"{PREFIX}/events"] = {
        "get": {
            "operationId": "events",
            "summary": "New records and alerts, as server-sent events",
            "responses": {"200": events, **_problems(429, 503)},
        }
    }
    description: Schema = {
        "openapi": "3.1.0",
        "info": {"title": "hubbub board", "version": version, "license": {"name": "Apache-2.0"}},
        "paths": paths,
        "components": {"schemas": SCHEMAS},
    }
    if protected:
        description["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        description["security"] = [{"token": []}]
    return description


def _operation(route: Route) -> Schema:
    path = [{"name": "query", "in": "path", "required": True, "schema": _TEXT}] if route.of_query else []
    content = {
        "application/json": {"schema": {"$ref": f"#/components/schemas/{route.name}"}},
        "text/csv": {"schema": _TEXT},
    }
    return {
        "operationId": route.name,
        "summary": route.meaning,
        "parameters": [*path, *map(_parameter, route.all_parameters)],
        "responses": {
            "200": {"description": route.meaning, "content": content},
            "304": {"description": "Not changed: If-None-Match has its ETag"},
            **_problems(400, 404, 503),
        },
    }


def _parameter(parameter: Parameter) -> Schema:
    return {
        "name": parameter.name,
        "in": "query",
        "description": parameter.meaning,
        "schema": parameter.schema,
    }


def _problems(*statuses: int) -> Schema:
    content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/problem"}}}
    return {str(status): {"description": "The reason of the failure", "content": content} for status in statuses}
