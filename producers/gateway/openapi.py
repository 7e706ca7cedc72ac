"""The description of the gateway's interface: /openapi.json."""

from typing import Any

from hubbub.problem import KIND, TITLES
from producers.gateway.submission import FRAMES, JSON

Schema = dict[str, Any]

_HEX = {"type": "string", "pattern": "^[0-9A-Fa-f]{16}$"}
_COUNT = {"type": "integer", "minimum": 0}
_SECONDS = {"type": "integer", "minimum": 0, "description": "Seconds"}
_TIME = {"type": ["integer", "null"], "description": "Unix seconds; null: no limit"}
_DOMAIN = {
    "description": "The values in order, how many there are, or how numbers are cut into bins",
    "oneOf": [{"type": "array", "items": {"type": "string"}}, {"type": "integer"}, {"type": "object"}],
}
_EACH = {
    "oneOf": [{"type": ["integer", "null"]}, {"type": "object", "additionalProperties": {"type": "integer"}}],
}
_RETRY = {"Retry-After": {"description": "Seconds", "required": True, "schema": {"type": "integer", "minimum": 1}}}

SCHEMAS: dict[str, Schema] = {
    "frame": {
        "type": "object",
        "description": "docs/wire-format.md. An id is not used: a gateway gives ids of its own",
        "properties": {
            "digest": {**_HEX, "description": "Of the query"},
            "pane": {"type": "integer", "format": "int64", "description": "The pane's start, in Unix seconds"},
            "id": _HEX,
            "reports": {
                "type": "string",
                "contentEncoding": "base64",
                "minLength": 4,
                "pattern": "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$",
                "description": "One after another",
            },
        },
        "required": ["digest", "pane", "reports"],
        "additionalProperties": False,
    },
    "accepted": {
        "type": "object",
        "properties": {"accepted": {**_COUNT, "minimum": 1, "description": "Reports"}},
        "required": ["accepted"],
        "additionalProperties": False,
    },
    "queries": {
        "type": "object",
        "properties": {"queries": {"type": "array", "items": {"$ref": "#/components/schemas/query"}}},
        "required": ["queries"],
        "additionalProperties": False,
    },
    "query": {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "digest": {"type": "string", "pattern": "^[0-9a-f]{16}$"},
            "domain": _DOMAIN,
            "attributes": {"type": "object", "additionalProperties": {"type": "object"}},
            "solution": {"enum": ["spl", "smp", "rsfd", None]},
            "oracle": {
                "description": "Of each attribute, or of the one",
                "oneOf": [{"type": "string"}, {"type": "object", "additionalProperties": {"type": "string"}}],
            },
            "other": {"type": ["boolean", "null"], "description": "Null: see the attributes"},
            "epsilon": {"type": "number", "exclusiveMinimum": 0},
            "pane": _SECONDS,
            "period": _SECONDS,
            "lateness": _SECONDS,
            "skew": _SECONDS,
            "from": _TIME,
            "until": _TIME,
            "answers": {"enum": ["life", "once", "fresh"]},
            "budget": {"type": "number"},
            "renew": {**_TIME, "description": "Seconds after which charges begin anew; null: never"},
            "classes": {**_EACH, "description": "K, of each attribute or of the one; null: not for life"},
            "record_charge": {"type": "number", "description": "What a first answer charges"},
            "buckets": {**_EACH, "description": "Fewer than the best of olh; null: the best"},
            "width": {"type": "integer", "minimum": 1, "description": "Bytes a report"},
        },
        "required": [
            *("name", "digest", "solution", "oracle", "other", "epsilon", "pane", "period", "lateness", "skew"),
            *("from", "until", "answers", "budget", "renew", "classes", "record_charge", "buckets", "width"),
        ],
    },
    "problem": {
        "type": "object",
        "properties": {
            "status": {"type": "integer"},
            "title": {"type": "string"},
            "detail": {"type": "string"},
            "reason": {"type": "string", "description": "The word that the workers count, or rate, quota, ids"},
            "index": {**_COUNT, "description": "The item at fault"},
            "counted": {"enum": ["none", "unknown"], "description": "Whether some of the reports may count already"},
        },
        "required": ["status", "title", "detail"],
    },
}


def describe(version: str, *, protected: bool) -> Schema:
    """The whole description."""
    described: Schema = {
        "openapi": "3.1.0",
        "info": {"title": "hubbub gateway", "version": version, "license": {"name": "Apache-2.0"}},
        "paths": {
            "/v1/reports": {"post": _reports_path(protected=protected)},
            "/v1/queries": {"get": _queries(protected=protected)},
            "/healthz": {"get": _plain("healthz", "Whether the process lives")},
            "/readyz": {"get": _plain("readyz", "Whether reports are taken", 503)},
            "/metrics": {"get": _plain("metrics", "For Prometheus")},
            "/openapi.json": {
                "get": {
                    "operationId": "openapi",
                    "summary": "This description",
                    "responses": {"200": _content("It", JSON, {"type": "object"})},
                }
            },
        },
        "components": {"schemas": SCHEMAS},
    }
    if protected:
        described["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    return described


def _reports_path(*, protected: bool) -> Schema:
    frame = {"$ref": "#/components/schemas/frame"}
    key = {
        "name": "Idempotency-Key",
        "in": "header",
        "description": "One body's for ever: whichever gateway gets it again, it counts once",
        "schema": {"type": "string", "minLength": 16, "maxLength": 256, "pattern": "^[A-Za-z0-9_.-]*$"},
    }
    encoding = {"name": "Content-Encoding", "in": "header", "schema": {"enum": ["gzip"]}}
    body = {
        JSON: {"schema": {"oneOf": [frame, {"type": "array", "items": frame, "minItems": 1, "maxItems": 10_000}]}},
        FRAMES: {"schema": {"type": "string", "format": "binary", "description": "Frames back to back"}},
    }
    return {
        "operationId": "reports",
        "summary": "Bring reports in: all of them, or none",
        "parameters": [key, encoding],
        "requestBody": {"required": True, "content": body},
        "responses": {
            "202": _content("All are in the log, in time", JSON, {"$ref": "#/components/schemas/accepted"}),
            **_problems(400, 408, 409, 413, 415, 429, 503, protected=protected),
        },
        **_security(protected=protected),
    }


def _queries(*, protected: bool) -> Schema:
    return {
        "operationId": "queries",
        "summary": "What is counted, and all that a client needs to answer",
        "responses": {
            "200": _content("The queries", JSON, {"$ref": "#/components/schemas/queries"}),
            **_problems(429, protected=protected),
        },
        **_security(protected=protected),
    }


def _security(*, protected: bool) -> Schema:
    return {"security": [{"token": []}]} if protected else {}


def _problems(*statuses: int, protected: bool) -> Schema:
    found = sorted({*statuses, 401 if protected else 403})
    return {str(status): _problem(status) for status in found}


def _problem(status: int) -> Schema:
    described = _content(TITLES[status], KIND, {"$ref": "#/components/schemas/problem"})
    return described | ({"headers": _RETRY} if status in (429, 503) else {})


def _plain(name: str, summary: str, *more: int) -> Schema:
    text = {"type": "string"}
    return {
        "operationId": name,
        "summary": summary,
        "responses": {str(status): _content("Text", "text/plain", text) for status in (200, *more)},
    }


def _content(description: str, kind: str, schema: Schema) -> Schema:
    return {"description": description, "content": {kind: {"schema": schema}}}
