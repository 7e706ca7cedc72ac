"""The description of the API, made from the table of routes: /openapi.json."""

from aggregator.board.route import PREFIX, ROUTES, Parameter, Route
from aggregator.publishing.schema import Schema, schema

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
    form = Parameter("format", "In place of Accept", {"type": "string", "enum": ["json", "csv"]})
    content = {
        "application/json": {"schema": {"$ref": f"#/components/schemas/{route.name}"}},
        "text/csv": {"schema": _TEXT},
    }
    return {
        "operationId": route.name,
        "summary": route.meaning,
        "parameters": [*of, *map(_parameter, (*route.parameters, form))],
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
