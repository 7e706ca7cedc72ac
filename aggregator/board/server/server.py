"""The board's server, with API, events, page, metrics and health."""

import asyncio
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import version
from pathlib import Path

from aiohttp import web
from aiohttp.typedefs import Handler

from aggregator.board.answers.lookup import unknown
from aggregator.board.answers.parameters import Parameters
from aggregator.board.answers.reply import Reply
from aggregator.board.answers.window_answers import TableAnswer
from aggregator.board.server.events import Events, encode
from aggregator.board.server.follower import BoardFollower
from aggregator.board.server.guard import HEADERS, AccessRule, access_check, add_headers
from aggregator.board.server.metrics import BoardMetrics
from aggregator.board.server.route import PREFIX, ROUTES, Route, describe
from aggregator.board.server.viewers import ViewerFile
from aggregator.board.store.store import Store
from aggregator.board.store.visible_store import VisibleStore
from hubbub.file_watch import FileWatch
from hubbub.http.addresses import network_path
from hubbub.http.health import Handlers, health
from hubbub.http.port_protocol import connection_of
from hubbub.http.problem import Problem
from hubbub.http.scrape import scrape_handler
from hubbub.http.server import guard, reply
from hubbub.http.server import route as path_of
from oracles.errors import ParameterError

STATIC = Path(__file__).parents[1] / "static"
RUNBOOKS = Path(__file__).parents[1] / "runbooks"
"""The pages of deploy/runbooks. Alerts link to them."""
SLICE = 0.02
"""Seconds of work for one answer without a turn of the event loop."""
TEXT = "text/plain; charset=utf-8"


def application(
    store: Store,
    events: Events,
    follower: BoardFollower,
    metrics: BoardMetrics,
    token: str | None,
    host: str,
    with_health: Handlers,
    viewers: FileWatch[ViewerFile] | None = None,
) -> web.Application:
    """Return the application with all routes. `with_health` has the handlers of health and metrics, or none."""
    access = AccessRule(token, host, viewers)

    def count_request(request: web.Request, status: int) -> None:
        metrics.requests.labels(path_of(request), str(status)).inc()

    app = web.Application(middlewares=[guard(count_request), access_check(access)])
    app.on_response_prepare.append(add_headers)
    app.add_routes([web.get(route.path, _answer_handler(route, store, follower, access)) for route in ROUTES])
    app.add_routes(
        [
            web.get(f"{PREFIX}/events", _event_handler(events, follower, metrics, access)),
            web.get(
                "/openapi.json", _fixed_handler(Reply.json(describe(version("hubbub"), protected=access.is_protected)))
            ),
            *(web.get(path, handler) for path, handler in with_health.items()),
            web.get("/", _file_handler(STATIC / "index.html")),
            *(web.get(f"/static/{path.relative_to(STATIC)}", _file_handler(path)) for path in STATIC.rglob("*.*")),
            *(web.get(f"/runbooks/{path.name}", _file_handler(path, kind=TEXT)) for path in RUNBOOKS.glob("*.md")),
        ]
    )
    return app


def refuse_rate(metrics: BoardMetrics) -> Callable[[web.BaseRequest, Problem], web.StreamResponse]:
    """Return the function that makes the answer to a request above the rate of its address."""

    def refuse(_: web.BaseRequest, problem: Problem) -> web.StreamResponse:
        metrics.requests.labels("", str(problem.status)).inc()
        response = reply(problem)
        response.headers.update(HEADERS)
        return response

    return refuse


def health_handlers(
    follower: BoardFollower,
    metrics: BoardMetrics,
    token: str | None,
    host: str,
    viewers: FileWatch[ViewerFile] | None = None,
) -> Handlers:
    access = AccessRule(token, host, viewers)
    return health(_metrics_handler(metrics, access), lambda: follower.missing or follower.problem)


def _answer_handler(route: Route, store: Store, follower: BoardFollower, access: AccessRule) -> Handler:
    async def handler(request: web.Request) -> web.Response:
        if follower.missing:
            # Half-read topics would show an old window as the newest one.
            raise Problem(503, follower.missing, retry_after=1)
        parameters = Parameters(list(request.query.items()), route.all_parameters)
        form = _form(request, parameters)
        name = request.match_info.get("query", "")
        sight = access.check(request)
        visible = store if sight.patterns is None else VisibleStore(store, sight.sees)
        # All routes look the query up, and this holds for one that would not.
        if route.of_query and not sight.sees(name):
            raise unknown(visible, name)
        try:
            answer = await _in_slices(route.answer.parts(visible, parameters, name))
        except ParameterError as error:  # from the estimators
            raise Problem(400, str(error)) from error
        return _respond(request, Reply.csv(answer.columns, answer.rows) if form == "csv" else Reply.json(answer))

    return handler


async def _in_slices(parts: Iterator[TableAnswer | None]) -> TableAnswer:
    """Return the answer. The event loop turns between slices of the work, so that a long answer delays no other one."""
    end = time.monotonic() + SLICE
    for answer in parts:
        if answer is not None:
            return answer
        if time.monotonic() >= end:
            await asyncio.sleep(0)
            end = time.monotonic() + SLICE
    raise AssertionError("parts end with an answer")


def _form(request: web.Request, parameters: Parameters) -> str:
    """Return json or csv, chosen by the parameter `format` or the header `Accept`."""
    choice = parameters.choice("format")
    if choice:
        return choice
    accept = request.headers.get("Accept", "")
    return "csv" if accept.partition(",")[0].partition(";")[0].strip() == "text/csv" else "json"


def _respond(request: web.Request, reply: Reply) -> web.Response:
    headers = {"ETag": reply.tag, "Content-Type": reply.kind}
    # A proxy that compresses an answer marks its tag as weak. It still names this content.
    tags = [tag.strip().removeprefix("W/") for tag in request.headers.get("If-None-Match", "").split(",")]
    if reply.tag in tags or tags == ["*"]:
        return web.Response(status=304, headers={"ETag": reply.tag})
    response = web.Response(body=reply.body, headers=headers)
    response.enable_compression()
    return response


def _fixed_handler(reply: Reply) -> Handler:
    async def handler(request: web.Request) -> web.Response:
        return _respond(request, reply)

    return handler


def _event_handler(events: Events, follower: BoardFollower, metrics: BoardMetrics, access: AccessRule) -> Handler:
    async def handler(request: web.Request) -> web.StreamResponse:
        connection = connection_of(request)
        path = network_path(request.remote or "") if connection is None else connection.path
        with events.join(path, connection, partial(access.sees, request)) as messages:
            response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
            await response.prepare(request)
            # Browsers wait several seconds by default, and the page would look dead after a restart of the board.
            await response.write(b"retry: 1000\n\n" + encode("beat", follower.state()))

            metrics.listeners.inc()
            try:
                message = await messages.get()
                while message is not None:
                    await response.write(message)
                    message = await messages.get()
            finally:
                metrics.listeners.dec()
        return response

    return handler


def _metrics_handler(metrics: BoardMetrics, access: AccessRule) -> Handler:
    """Return the handler of the metrics. It includes estimates only if the request may read them all."""
    with_estimates = scrape_handler(metrics.whole)
    without_estimates = scrape_handler(metrics.registry)

    async def handler(request: web.Request) -> web.StreamResponse:
        sight = access.sight(request)
        may_read = sight is not None and sight.patterns is None
        return await (with_estimates if may_read else without_estimates)(request)

    return handler


def _file_handler(path: Path, kind: str | None = None) -> Handler:
    # Without a check at each load, an upgraded board could serve scripts of two releases in one page.
    headers = {"Cache-Control": "no-cache"}
    if kind is not None:
        headers["Content-Type"] = kind

    async def handler(_: web.Request) -> web.StreamResponse:
        return web.FileResponse(path, headers=headers)

    return handler
