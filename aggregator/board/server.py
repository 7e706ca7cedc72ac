"""The board's server: the questions of the API, events, the page, and what operators look at."""

from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from aiohttp import web
from aiohttp.typedefs import Handler
from prometheus_client import generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from aggregator.board.answers import Answer
from aggregator.board.events import Events, encode
from aggregator.board.follower import Follower
from aggregator.board.guard import add_headers, guard
from aggregator.board.metrics import Metrics
from aggregator.board.openapi import describe
from aggregator.board.parameters import Asked
from aggregator.board.problems import Problem
from aggregator.board.route import PREFIX, ROUTES, Route
from aggregator.board.store import Store
from oracles.errors import ParameterError

STATIC = Path(__file__).parent / "static"
FORMATS = ("json", "csv")


def application(
    store: Store, events: Events, follower: Follower, metrics: Metrics, token: str | None
) -> web.Application:
    """Everything that is served."""
    app = web.Application(middlewares=[guard(token, metrics)])
    app.on_response_prepare.append(add_headers)
    app.add_routes([web.get(route.path, _telling(route, store, follower)) for route in ROUTES])
    app.add_routes(
        [
            web.get(f"{PREFIX}/events", _listening(events, follower, metrics)),
            web.get("/openapi.json", _fixed(Answer.json(describe(version("hubbub"), protected=token is not None)))),
            web.get("/healthz", _text(lambda: None, "ok")),
            web.get("/readyz", _text(lambda: follower.missing or follower.problem, "ready")),
            web.get("/metrics", _metrics(metrics)),
            web.get("/", _file(STATIC / "index.html")),
            *(web.get(f"/static/{path.relative_to(STATIC)}", _file(path)) for path in STATIC.rglob("*.*")),
        ]
    )
    return app


def _telling(route: Route, store: Store, follower: Follower) -> Handler:
    async def handler(request: web.Request) -> web.Response:
        if follower.missing:
            raise Problem(503, follower.missing)
        asked = Asked(list(request.query.items()), route.known)
        form = _form(request, asked)
        try:
            told = route.tell(store, asked, *request.match_info.values())
        except ParameterError as error:  # what the mathematics refuses
            raise Problem(400, str(error)) from error
        return _answered(request, Answer.csv(told.columns, told.rows) if form == "csv" else Answer.json(told.said))

    return handler


def _form(request: web.Request, asked: Asked) -> str:
    """JSON, or CSV where it is asked for by ?format= or preferred by Accept."""
    named = asked.choice("format", FORMATS)
    if named:
        return named
    accepted = request.headers.get("Accept", "")
    return "csv" if accepted.partition(",")[0].partition(";")[0].strip() == "text/csv" else "json"


def _answered(request: web.Request, answer: Answer) -> web.Response:
    headers = {"ETag": answer.tag, "Content-Type": answer.kind}
    known = [tag.strip().removeprefix("W/") for tag in request.headers.get("If-None-Match", "").split(",")]
    if answer.tag in known or known == ["*"]:
        return web.Response(status=304, headers={"ETag": answer.tag})
    response = web.Response(body=answer.body, headers=headers)
    response.enable_compression()
    return response


def _fixed(answer: Answer) -> Handler:
    async def handler(request: web.Request) -> web.Response:
        return _answered(request, answer)

    return handler


def _listening(events: Events, follower: Follower, metrics: Metrics) -> Handler:
    async def handler(request: web.Request) -> web.StreamResponse:
        if events.full:
            raise Problem(503, f"{len(events)} listen already, which is as many as may")
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
        await response.prepare(request)
        await response.write(b"retry: 1000\n\n" + encode("beat", follower.state()))
        metrics.listeners.inc()
        try:
            async for written in events.listen():
                await response.write(written)
        finally:
            metrics.listeners.dec()
        return response

    return handler


def _text(missing: Callable[[], str | None], well: str) -> Handler:
    async def handler(_: web.Request) -> web.Response:
        said = missing()
        return web.Response(text=f"{said or well}\n", status=503 if said else 200)

    return handler


def _metrics(metrics: Metrics) -> Handler:
    async def handler(_: web.Request) -> web.Response:
        return web.Response(body=generate_latest(metrics.registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    return handler


def _file(path: Path) -> Handler:
    async def handler(_: web.Request) -> web.StreamResponse:
        return web.FileResponse(path, headers={"Cache-Control": "no-cache"})

    return handler
