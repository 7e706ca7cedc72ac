"""The server of the page of a device. It passes the requests of the page on to the gateway and to the board."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import ClientSession, ClientTimeout, web
from aiohttp.typedefs import Handler

from aggregator.board.server.guard import add_headers, is_own_host
from aggregator.demo.device.static_page import BOARD, BOARD_FILES, PAGE, QUESTION, html
from hubbub.http.problem import Problem
from hubbub.http.server import guard, serving
from oracles.query import Query

HOST = "127.0.0.1"
SECONDS = 10.0
"""Seconds for an answer of the gateway or of the board."""
SESSION = web.AppKey("session", ClientSession)
REQUEST_HEADERS = ("Content-Type", "Idempotency-Key")


@asynccontextmanager
async def serving_page(query: Query, gateway: str, board: str, port: int) -> AsyncIterator[str]:
    """Serve the page, and yield its address. The addresses of gateway and board end in a slash."""
    async with serving(_application(query, gateway, board), HOST, port, drain=1.0) as (host, number):
        yield f"http://{host}:{number}/"


def _application(query: Query, gateway: str, board: str) -> web.Application:
    page = html({"question": QUESTION, "query": query.name, "board": board})
    estimate = f"/api/v1/queries/{query.name}/estimate"
    app = web.Application(middlewares=[guard(lambda _request, _status: None), _only_own_host])

    app.on_response_prepare.append(add_headers)
    app.cleanup_ctx.append(_session)

    app.add_routes(
        [
            web.get("/", _page_handler(page)),
            *(web.get(f"/static/{name}", _file_handler(BOARD / name)) for name in BOARD_FILES),
            *(web.get(f"/static/device/{path.name}", _file_handler(path)) for path in PAGE.glob("*.*s")),
            web.get("/v1/queries", _passing_handler(gateway)),
            web.post("/v1/reports", _passing_handler(gateway)),
            web.get(estimate, _passing_handler(board)),
        ]
    )
    return app


async def _session(app: web.Application) -> AsyncIterator[None]:
    async with ClientSession(timeout=ClientTimeout(SECONDS)) as session:
        app[SESSION] = session
        yield


@web.middleware
async def _only_own_host(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse a request under a foreign name, which a page of that name made the browser send."""
    if not is_own_host(request.headers.get("Host"), HOST):
        raise Problem(403, f"this page answers only as {HOST} or localhost")
    return await handler(request)


def _page_handler(page: str) -> Handler:
    async def handler(_: web.Request) -> web.StreamResponse:
        return web.Response(text=page, content_type="text/html")

    return handler


def _file_handler(path: Path) -> Handler:
    async def handler(_: web.Request) -> web.StreamResponse:
        return web.FileResponse(path, headers={"Cache-Control": "no-cache"})

    return handler


def _passing_handler(address: str) -> Handler:
    """Return a handler that asks another process of this demo, and passes its answer on."""

    async def handler(request: web.Request) -> web.StreamResponse:
        # The others, such as Host and Content-Length, belong to the connection of the browser.
        headers = {name: request.headers[name] for name in REQUEST_HEADERS if name in request.headers}
        url = address.rstrip("/") + request.path_qs
        try:
            async with request.app[SESSION].request(
                request.method, url, data=await request.read(), headers=headers
            ) as answer:
                body = await answer.read()
                kind = answer.headers.get("Content-Type", "")
                return web.Response(status=answer.status, body=body, headers={"Content-Type": kind})
        except OSError as error:  # it ended, and the demo starts it again
            raise Problem(503, f"{url} does not answer: {error}", retry_after=1) from error

    return handler
