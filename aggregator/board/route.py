"""The routes of the API: path, parameters and answer. Server and description read this one table."""

from dataclasses import dataclass

from aggregator.board import answers
from aggregator.board.answers import TableAnswer
from aggregator.board.parameters import (
    ALERT_KIND,
    ATTRIBUTE,
    FAMILY_ERROR,
    FORMAT,
    KIND,
    LIMIT,
    METHOD,
    PROVISIONAL,
    QUERY,
    RECORD,
    SET,
    THRESHOLD,
    TIMES,
    TOP,
    VALUE,
    VALUES,
    Parameter,
)
from aggregator.publishing.schema import Schema, schema

PREFIX = "/api/v1"


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
    def known(self) -> tuple[Parameter, ...]:
        return (*self.parameters, FORMAT)


_OF = PREFIX + "/queries/{query}"

ROUTES = (
    Route(PREFIX + "/queries", "What is counted, and which windows are known", answers.Queries),
    Route(
        f"{_OF}/estimate",
        "The shares of the values in a window, with their errors",
        answers.WindowEstimate,
        (*RECORD, *VALUES, TOP),
    ),
    Route(f"{_OF}/set", "The share of a set of values in a window", answers.SetShares, (*RECORD, *VALUES, SET)),
    Route(
        f"{_OF}/heavy-hitters",
        "The values that exceed a threshold in a window",
        answers.HeavyHitters,
        (*RECORD, TOP, THRESHOLD, FAMILY_ERROR),
    ),
    Route(
        f"{_OF}/history",
        "One value over the windows",
        answers.History,
        (VALUE, *KIND, *TIMES, LIMIT, PROVISIONAL, ATTRIBUTE, METHOD),
    ),
    Route(
        f"{_OF}/windows",
        "The windows that are known, and how many reports they hold",
        answers.WindowCounts,
        (*KIND, *TIMES, LIMIT, PROVISIONAL),
    ),
    Route(
        PREFIX + "/alerts",
        "What has become frequent, ceased to be, or risen; the newest first",
        answers.Alerts,
        (QUERY, ATTRIBUTE, ALERT_KIND, LIMIT),
    ),
)

_TEXT = {"type": "string"}
_PROBLEM = {
    "type": "object",
    "properties": {"status": {"type": "integer"}, "title": _TEXT, "detail": _TEXT},
    "required": ["status", "title", "detail"],
}
SCHEMAS: dict[str, Schema] = {**{route.name: schema(route.answer) for route in ROUTES}, "problem": _PROBLEM}


def describe(version: str, *, protected: bool) -> Schema:
    """The whole description."""
    paths = {route.path: {"get": _operation(route)} for route in ROUTES}
    events = {"description": "record, alert and beat", "content": {"text/event-stream": {"schema": _TEXT}}}
    paths[f"{PREFIX}/events"] = {
        "get": {
            "operationId": "events",
            "summary": "What is new, as it comes",
            "responses": {"200": events, **_problems(503)},
        }
    }
    described: Schema = {
        "openapi": "3.1.0",
        "info": {"title": "hubbub board", "version": version, "license": {"name": "Apache-2.0"}},
        "paths": paths,
        "components": {"schemas": SCHEMAS},
    }
    if protected:
        described["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        described["security"] = [{"token": []}]
    return described


def _operation(route: Route) -> Schema:
    of = [{"name": "query", "in": "path", "required": True, "schema": _TEXT}] if route.of_query else []
    content = {
        "application/json": {"schema": {"$ref": f"#/components/schemas/{route.name}"}},
        "text/csv": {"schema": _TEXT},
    }
    return {
        "operationId": route.name,
        "summary": route.meaning,
        "parameters": [*of, *map(_parameter, route.known)],
        "responses": {
            "200": {"description": route.meaning, "content": content},
            "304": {"description": "As it was: If-None-Match had its ETag"},
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
    return {str(status): {"description": "Why it cannot be answered", "content": content} for status in statuses}
