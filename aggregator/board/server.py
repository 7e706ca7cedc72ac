"""The board's server: the questions of the API, events, the page, and what operators look at."""

from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from aiohttp import web
from aiohttp.typedefs import Handler
from prometheus_client.aiohttp import make_aiohttp_handler

from aggregator.board.events import Events, encode
from aggregator.board.follower import BoardFollower
from aggregator.board.guard import add_headers, checked, permitted
from aggregator.board.metrics import BoardMetrics
from aggregator.board.parameters import Parameters
from aggregator.board.reply import Reply
from aggregator.board.route import PREFIX, ROUTES, Route, describe
from aggregator.board.store import Store
from hubbub.http import guard
from hubbub.http import route as path_of
from hubbub.problem import Problem
from oracles.errors import ParameterError

STATIC = Path(__file__).parent / "static"


def application(
    store: Store, events: Events, follower: BoardFollower, metrics: BoardMetrics, token: str | None, host: str
) -> web.Application:
    """Everything that is served."""

    def answered(request: web.Request, status: int) -> None:
        metrics.requests.labels(path_of(request), str(status)).inc()

    app = web.Application(middlewares=[guard(answered), checked(token, host)])
    app.on_response_prepare.append(add_headers)
    app.add_routes([web.get(route.path, _answering(route, store, follower)) for route in ROUTES])
    app.add_routes(
        [
            web.get(f"{PREFIX}/events", _listening(events, follower, metrics)),
            web.get("/openapi.json", _fixed(Reply.json(describe(version("hubbub"), protected=token is not None)))),
            web.get("/healthz", _text_handler(lambda: None, "ok")),
            web.get("/readyz", _text_handler(lambda: follower.missing or follower.problem, "ready")),
            web.get("/metrics", _metrics(metrics, token, host)),
            web.get("/", _static(STATIC / "index.html")),
            *(web.get(f"/static/{path.relative_to(STATIC)}", _static(path)) for path in STATIC.rglob("*.*")),
        ]
    )
    return app


def _answering(route: Route, store: Store, follower: BoardFollower) -> Handler:
    async def handler(request: web.Request) -> web.Response:
        if follower.missing:
            raise Problem(503, follower.missing, retry_after=1)
        parameters = Parameters(list(request.query.items()), route.known)
        form = _form(request, parameters)
        try:
            answer = route.answer.of(store, parameters, request.match_info.get("query", ""))
        except ParameterError as error:  # what the mathematics refuses
            raise Problem(400, str(error)) from error
        return _sent(request, Reply.csv(answer.columns, answer.rows) if form == "csv" else Reply.json(answer))

    return handler


def _form(request: web.Request, parameters: Parameters) -> str:
    """JSON, or CSV where it is asked for by ?format= or preferred by Accept."""
    named = parameters.choice("format")
    if named:
        return named
    accepted = request.headers.get("Accept", "")
    return "csv" if accepted.partition(",")[0].partition(";")[0].strip() == "text/csv" else "json"


def _sent(request: web.Request, reply: Reply) -> web.Response:
    headers = {"ETag": reply.tag, "Content-Type": reply.kind}
    known = [tag.strip().removeprefix("W/") for tag in request.headers.get("If-None-Match", "").split(",")]
    if reply.tag in known or known == ["*"]:
        return web.Response(status=304, headers={"ETag": reply.tag})
    response = web.Response(body=reply.body, headers=headers)
    response.enable_compression()
    return response


def _fixed(reply: Reply) -> Handler:
    async def handler(request: web.Request) -> web.Response:
        return _sent(request, reply)

    return handler


def _listening(events: Events, follower: BoardFollower, metrics: BoardMetrics) -> Handler:
    async def handler(request: web.Request) -> web.StreamResponse:
        if events.full:
            raise Problem(503, f"{len(events)} listen already, which is as many as may", retry_after=1)
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


def _text_handler(missing: Callable[[], str | None], well: str) -> Handler:
    async def handler(_: web.Request) -> web.Response:
        said = missing()
        return web.Response(text=f"{said or well}\n", status=503 if said else 200)

    return handler


def _metrics(metrics: BoardMetrics, token: str | None, host: str) -> Handler:
    """The metrics: those about the crowd only to whoever may see it, all others to anybody."""
    whole, plain = make_aiohttp_handler(metrics.whole), make_aiohttp_handler(metrics.registry)

    async def handler(request: web.Request) -> web.StreamResponse:
        return await (whole if permitted(request, token, host) else plain)(request)

    return handler


def _static(path: Path) -> Handler:
    async def handler(_: web.Request) -> web.StreamResponse:
        return web.FileResponse(path, headers={"Cache-Control": "no-cache"})

    return handler
