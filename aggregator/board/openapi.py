"""The description of the API, made from the table of routes: /openapi.json."""

from typing import Any

from aggregator.board.lookup import KINDS
from aggregator.board.route import PREFIX, ROUTES, Parameter, Route
from aggregator.board.rows import ALERT_KINDS

Schema = dict[str, Any]

_TEXT = {"type": "string"}
_NAME = {"type": ["string", "null"], "description": "Of an attribute; null where a client gives one answer"}
_COUNT = {"type": "integer", "minimum": 0}
_NUMBER = {"type": "number"}
_KNOWN = {"type": ["number", "null"], "description": "Null where it is not known"}
_CHANCE = {"type": ["number", "null"], "minimum": 0, "maximum": 1}
_YES = {"type": "boolean"}
_TIME = {"type": "integer", "description": "Unix seconds"}
_MAYBE_TIME = {"type": ["integer", "null"]}
_RANKS = {"type": ["array", "null"], "items": {"type": "integer", "minimum": 1}, "minItems": 2, "maxItems": 2}


def _object(properties: Schema, **more: Any) -> Schema:
    return {
        "type": "object",
        "properties": properties,
        "required": sorted(properties),
        "additionalProperties": False,
        **more,
    }


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


_KIND = {"kind": {"enum": [*KINDS]}, "size": _COUNT, "step": _COUNT}
_SPAN = {**_KIND, "start": _TIME, "end": _TIME}
_OF = {"query": _TEXT, "digest": {"type": "string", "pattern": "^[0-9a-f]{16}$"}}
_ABOUT = {
    **_OF,
    "attribute": _NAME,
    "window": _ref("window"),
    "final": _YES,
    "n": _COUNT,
    "n_independent": _COUNT,
    "method": _TEXT,
}
_THRESHOLD = {"kind": {"enum": ["significance", "share", "count"]}, "value": _NUMBER}
_MEASURED = {"share": _KNOWN, "unbiased": _KNOWN, "low": _CHANCE, "high": _CHANCE, "truth": _CHANCE}
_SENT = {"n": _COUNT}

SCHEMAS: dict[str, Schema] = {
    "window": _object(_SPAN),
    "queries": _object(
        {
            "queries": _list(
                _object(
                    {
                        **{key: value for key, value in _OF.items() if key != "query"},
                        "name": _TEXT,
                        "retired": _YES,
                        "solution": {"enum": ["spl", "smp", "rsfd", None]},
                        "epsilon": _NUMBER,
                        "record_epsilon": _NUMBER,
                        "answers": {**_COUNT, "description": "Distinct ones that a client's budget allows"},
                        "pane": _COUNT,
                        "lateness": _COUNT,
                        "period": _COUNT,
                        "methods": _list(_TEXT),
                        "threshold": _object(_THRESHOLD),
                        "family_error": _NUMBER,
                        "attributes": _list(
                            _object(
                                {"name": _NAME, "size": _COUNT, "other": _YES, "oracle": _TEXT, "sets": _list(_TEXT)}
                            )
                        ),
                        "windows": _list(
                            _object({**_KIND, "kept": _COUNT, "latest": _MAYBE_TIME, "provisional": _MAYBE_TIME})
                        ),
                        "simulated": {**_YES, "description": "Whether the truth is known"},
                    }
                )
            )
        }
    ),
    "estimate": _object(
        {
            **_ABOUT,
            "methods": _list(_TEXT),
            "oracle": {"type": "object"},
            "sigma": _KNOWN,
            "detectable": _KNOWN,
            "shift_per_fake": _KNOWN,
            "threshold": {**_KNOWN, "description": "The share above which a value is listed"},
            "size": _COUNT,
            "published": {**_COUNT, "description": "Values in the record"},
            "missing": {**_list(_TEXT), "description": "Values that were asked for and are not published"},
            "values": _list(
                _object(
                    {
                        **_MEASURED,
                        "value": _TEXT,
                        "stderr": _KNOWN,
                        "listed": {**_YES, "description": "The method's share exceeds the threshold"},
                        "decided": {**_YES, "description": "Proved to exceed it"},
                        "probability": _CHANCE,
                        "ranks": _RANKS,
                    }
                )
            ),
            "sets": {"type": "object"},
            "refused": _object({"duplicate": _COUNT, "implausible": _COUNT}),
            "quality": {"type": "object"},
            "error": {
                "description": "In a simulation: how far the published shares are from the truth",
                "oneOf": [
                    _object({"values": _COUNT, "rms": _KNOWN, "max": _KNOWN, "covered": _COUNT}),
                    {"type": "null"},
                ],
            },
        }
    ),
    "set": _object(
        {
            **_ABOUT,
            "sets": _list(
                _object(
                    {
                        "name": {"type": ["string", "null"]},
                        "values": _list(_TEXT),
                        "share": _KNOWN,
                        "stderr": _KNOWN,
                        "truth": _CHANCE,
                    }
                )
            ),
        }
    ),
    "heavy-hitters": _object(
        {
            **_ABOUT,
            "threshold": _object({**_THRESHOLD, "share": _KNOWN}),
            "family_error": _NUMBER,
            "hitters": _list(
                _object(
                    {
                        "value": _TEXT,
                        "share": _NUMBER,
                        "decided": _YES,
                        "p_value": _CHANCE,
                        "probability": _CHANCE,
                        "ranks": _RANKS,
                    }
                )
            ),
        }
    ),
    "history": _object(
        {
            **_OF,
            "attribute": _NAME,
            "value": _TEXT,
            "method": {"type": ["string", "null"]},
            "points": _list(_object({**_MEASURED, **_SENT, "start": _TIME, "end": _TIME})),
        }
    ),
    "windows": _object(
        {
            **_OF,
            "windows": _list(
                _object(
                    {
                        **_SPAN,
                        **_SENT,
                        "final": _YES,
                        "duplicate": _COUNT,
                        "implausible": _COUNT,
                        "flags": _list(_TEXT),
                    }
                )
            ),
        }
    ),
    "alerts": _object(
        {
            "alerts": _list(
                _object(
                    {
                        **_OF,
                        "version": {"const": 1},
                        "id": _TEXT,
                        "kind": {"enum": [*ALERT_KINDS]},
                        "attribute": _NAME,
                        "value": _TEXT,
                        "window": _ref("window"),
                        "share": _NUMBER,
                        "low": _CHANCE,
                        "high": _CHANCE,
                        "before": _KNOWN,
                        "probability": _CHANCE,
                    }
                )
            )
        }
    ),
    "problem": {
        "type": "object",
        "properties": {"status": _COUNT, "title": _TEXT, "detail": _TEXT},
        "required": ["status", "title", "detail"],
    },
}


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
    content = {"application/json": {"schema": _ref(route.name)}, "text/csv": {"schema": _TEXT}}
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
    several = parameter.name == "value" and "often" in parameter.meaning
    schema = _list(parameter.schema) if several else parameter.schema
    return {"name": parameter.name, "in": "query", "description": parameter.meaning, "schema": schema}


def _problems(*statuses: int) -> Schema:
    content = {"application/problem+json": {"schema": _ref("problem")}}
    return {str(status): {"description": "Why it cannot be answered", "content": content} for status in statuses}
