"""The routes of the gateway, and their description at /openapi.json. The server adds its handlers to the same table."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated, Literal

from hubbub.http.problem import KIND, TITLES
from hubbub.http.schema import Digest, Schema, schema
from producers.gateway.intake.submission import FRAMES, ITEMS, JSON

KEY = (16, 256)
"""Limits of an Idempotency-Key in bytes: long enough for a unique random key, and not longer than a log line."""

Seconds = Annotated[int, {"minimum": 0, "description": "Seconds"}]
Time = Annotated[int | None, {"description": "Unix seconds; null: no limit"}]


@dataclass(frozen=True)
class AcceptedReports:
    """The answer to accepted reports."""

    accepted: Annotated[int, {"minimum": 1, "description": "Number of reports"}]


_HEX = {"type": "string", "pattern": "^[0-9A-Fa-f]{16}$"}
_TEXT = {"type": "string"}
_DOMAIN = {
    "description": "The values in order, their number, the bins of numbers, or the coding of unknown strings",
    "oneOf": [{"type": "array", "items": _TEXT}, {"type": "integer"}, {"type": "object"}],
}
_EACH = {
    "oneOf": [{"type": ["integer", "null"]}, {"type": "object", "additionalProperties": {"type": "integer"}}],
}
_FRAME = {
    "type": "object",
    "description": "A frame, see docs/wire-format.md. The gateway ignores the id and gives ids of its own",
    "properties": {
        "digest": {**_HEX, "description": "Digest of the query"},
        "pane": {"type": "integer", "format": "int64", "description": "Start of the pane, in Unix seconds"},
        "id": _HEX,
        "reports": {
            "type": "string",
            "contentEncoding": "base64",
            "minLength": 4,
            "pattern": "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$",
            "description": "The reports, one after another",
        },
        "group": {
            "description": "The group of the reports: one name and one value. Values that are not listed count as none",
            "type": "object",
            "additionalProperties": _TEXT,
            "minProperties": 1,
            "maxProperties": 1,
        },
    },
    "required": ["digest", "pane", "reports"],
    "additionalProperties": False,
}
_EDGES = {"type": "array", "items": {"type": "number"}}
_OPTIONAL = ("domain", "attributes", "pairs", "subset", "rows", "recorder", "about", "purpose", "contact")
_QUERY = {
    "name": _TEXT,
    "digest": schema(Digest),
    "domain": _DOMAIN,
    "attributes": {"type": "object", "additionalProperties": {"type": "object"}},
    "pairs": {
        "description": "Names of the two attributes of each pair; absent without pairs",
        "type": "array",
        "items": {"type": "array", "items": _TEXT, "minItems": 2, "maxItems": 2},
    },
    "solution": {"enum": ["spl", "smp", "rsfd", None]},
    "oracle": {
        "description": "The oracle, or one for each attribute",
        "oneOf": [_TEXT, {"type": "object", "additionalProperties": _TEXT}],
    },
    "other": schema(Annotated[bool | None, {"description": "Null: see the attributes"}]),
    "epsilon": schema(Annotated[float, {"exclusiveMinimum": 0}]),
    "pane": schema(Seconds),
    "period": schema(Seconds),
    "lateness": schema(Seconds),
    "skew": schema(Seconds),
    "spread": schema(
        Annotated[
            int | None,
            {"description": "Number of partitions that take the frames now; null: all. The gateway chooses for you"},
        ]
    ),
    "from": schema(Time),
    "until": schema(Time),
    "answers": schema(Literal["life", "once", "fresh"]),
    "budget": schema(float),
    "renew": schema(Annotated[int | None, {"description": "Seconds after which charges restart; null: never"}]),
    "classes": {**_EACH, "description": "K, or one K for each attribute; null: the answers are not for life"},
    "record_charge": schema(Annotated[float, {"description": "Charge of a first answer, in epsilon"}]),
    "buckets": {**_EACH, "description": "Number of buckets, if below the best of olh; null: the best"},
    "subset": schema(Annotated[int, {"minimum": 1, "description": "Buckets that a report of sub names; else absent"}]),
    "rows": schema(
        Annotated[Literal["full", "short", "line"], {"description": "Family of the maps of sub; else absent"}]
    ),
    "noise": schema(
        Annotated[Literal["table", "each"], {"description": "Whether one table decides all answers of a round"}]
    ),
    "table": {**_EACH, "description": "Fixed points t of the table, or one for each attribute with one; null: none"},
    "thresholds": {
        "description": "Integers that a client compares with, in decimal: T, T_p and T_q, or hi and lo",
        "type": "object",
        "additionalProperties": {"oneOf": [_TEXT, {"type": "object", "additionalProperties": _TEXT}]},
    },
    "edges": {
        "description": "Edges of the bins of numbers, by attribute if there are several; null: no answer is a number",
        "oneOf": [_EDGES, {"type": "object", "additionalProperties": _EDGES}, {"type": "null"}],
    },
    "groups": {
        "description": "The name of the groups and their values; null: the query has none",
        "type": ["object", "null"],
        "additionalProperties": {"type": "array", "items": _TEXT, "minItems": 1, "maxItems": 255},
    },
    "recorder": {
        "description": "Notes that a device keeps, and the value of a period without one; absent without a recorder",
        "type": "object",
        "properties": {
            "keep": schema(Literal["count", "max", "last", "step", "days", "since", "age"]),
            "edges": {"type": ["array", "null"], "items": {"type": "integer", "minimum": 0}},
            "empty": {"type": ["string", "number", "null"]},
            "period": schema(Seconds),
        },
        "required": ["keep", "edges", "empty", "period"],
        "additionalProperties": False,
    },
    "width": schema(Annotated[int, {"minimum": 1, "description": "Bytes of a report"}]),
    "about": {**_TEXT, "description": "What is asked, for the person who answers; absent if nobody wrote it"},
    "purpose": {**_TEXT, "description": "Why it is asked; absent if nobody wrote it"},
    "contact": {**_TEXT, "description": "Who asks; absent if nobody wrote it"},
}
_STATE = {
    "digest": schema(Digest),
    "item": {**_HEX, "description": "Start of SHA-256 of the canonical JSON of its item in /v1/queries"},
    "stopped": schema(Annotated[bool, {"description": "Whether every report of the query is refused"}]),
    "sample": schema(Annotated[float, {"description": "Share of the devices that answer"}]),
}
_PROBLEM = {
    "status": schema(int),
    "title": _TEXT,
    "detail": _TEXT,
    "reason": {"type": "string", "description": "The reason in the workers' word, or rate, work, memory, quota or ids"},
    "index": {"type": "integer", "minimum": 0, "description": "Position of the invalid item"},
    "counted": {"enum": ["none", "unknown"], "description": "Whether some of the reports may count already"},
}
SCHEMAS: dict[str, Schema] = {
    "frame": _FRAME,
    "accepted": schema(AcceptedReports),
    "queries": {
        "type": "object",
        "properties": {"queries": {"type": "array", "items": {"$ref": "#/components/schemas/query"}}},
        "required": ["queries"],
        "additionalProperties": False,
    },
    "query": {
        "type": "object",
        "properties": _QUERY,
        "required": [name for name in _QUERY if name not in _OPTIONAL],
    },
    "state": {
        "type": "object",
        "properties": {
            "queries": {
                "description": "The newest definition of each name, stopped ones too",
                "type": "object",
                "additionalProperties": {"type": "object", "properties": _STATE, "required": list(_STATE)},
            },
            "asked": schema(Annotated[int | None, {"description": "Number of the newest list; null: there is none"}]),
        },
        "required": ["queries", "asked"],
    },
    "problem": {"type": "object", "properties": _PROBLEM, "required": ["status", "title", "detail"]},
}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _content(description: str, kind: str, content: Schema) -> Schema:
    return {"description": description, "content": {kind: {"schema": content}}}


@dataclass(frozen=True)
class GatewayRoute:
    """A path of the gateway, with its method and the description of its requests and answers."""

    path: str
    method: str
    summary: str
    answers: dict[int, Schema]
    problems: tuple[int, ...] = ()
    request: Schema = field(default_factory=dict)
    """The parameters and the body, if there are any."""
    for_clients: bool = False
    """Whether the route needs a token, and may be used by the pages of `--origins`."""

    @property
    def name(self) -> str:
        return self.path.rsplit("/", 1)[1].removesuffix(".json")


_SUBMISSION = {
    "parameters": [
        {
            "name": "Idempotency-Key",
            "in": "header",
            "description": "A random key for one body. At a retry, on any gateway, the reports count once",
            "schema": {"type": "string", "minLength": KEY[0], "maxLength": KEY[1], "pattern": "^[A-Za-z0-9_.-]*$"},
        },
        {"name": "Content-Encoding", "in": "header", "schema": {"enum": ["gzip"]}},
    ],
    "requestBody": {
        "required": True,
        "content": {
            JSON: {
                "schema": {
                    "oneOf": [
                        _ref("frame"),
                        {"type": "array", "items": _ref("frame"), "minItems": 1, "maxItems": ITEMS},
                    ]
                }
            },
            FRAMES: {"schema": {"type": "string", "format": "binary", "description": "Frames, one after another"}},
        },
    },
}
_PLAIN = _content("Text", "text/plain", _TEXT)

REPORTS = GatewayRoute(
    "/v1/reports",
    "POST",
    "Send reports. The gateway accepts all of them or none",
    {202: _content("All reports are in the log, in time", JSON, _ref("accepted"))},
    (400, 408, 409, 413, 415, 429, 503),
    _SUBMISSION,
    for_clients=True,
)
QUERIES = GatewayRoute(
    "/v1/queries",
    "GET",
    "List the queries that are counted now, with all that a client needs to answer",
    {
        200: _content("The queries", JSON, _ref("queries")),
        304: {"description": "Not changed: If-None-Match has its ETag"},
    },
    (429,),
    for_clients=True,
)
STATE = GatewayRoute(
    "/v1/state",
    "GET",
    "Which definitions count now, and which queries are stopped. It is the same for all devices, and needs no token",
    {200: _content("The state of each query", JSON, _ref("state"))},
    (429,),
)
ROUTES = (
    REPORTS,
    QUERIES,
    STATE,
    GatewayRoute("/healthz", "GET", "Whether the process lives", {200: _PLAIN}),
    GatewayRoute("/readyz", "GET", "Whether the gateway accepts reports", {200: _PLAIN, 503: _PLAIN}),
    GatewayRoute("/metrics", "GET", "Metrics for Prometheus", {200: _PLAIN}),
    GatewayRoute("/openapi.json", "GET", "This description", {200: _content("OpenAPI 3.1", JSON, {"type": "object"})}),
)


def describe(version: str, routes: Iterable[GatewayRoute], *, needs_token: bool) -> Schema:
    """Return the description of a gateway with these routes, whose clients may need a token."""
    components: Schema = {"schemas": SCHEMAS}
    if needs_token:
        components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "hubbub gateway", "version": version, "license": {"name": "Apache-2.0"}},
        "paths": {route.path: {route.method.lower(): _operation(route, needs_token=needs_token)} for route in routes},
        "components": components,
    }


def _operation(route: GatewayRoute, *, needs_token: bool) -> Schema:
    access = (401 if needs_token else 403,) if route.for_clients else ()
    # A gateway answers 401 or 403, but never both: without tokens it refuses names of hosts.
    problems = {status: _problem(status) for status in sorted({*route.problems, *access})}
    operation = {
        "operationId": route.name,
        "summary": route.summary,
        **route.request,
        "responses": {str(status): answer for status, answer in (route.answers | problems).items()},
    }
    if needs_token and route.for_clients:
        operation["security"] = [{"token": []}]
    return operation


def _problem(status: int) -> Schema:
    problem = _content(TITLES[status], KIND, _ref("problem"))
    if status in (429, 503):
        seconds = {"description": "Seconds", "required": status == 503, "schema": {"type": "integer", "minimum": 1}}
        problem["headers"] = {"Retry-After": seconds}
    return problem
