"""HTTP ports with bounds on connections and header times, and an orderly stop.

A port serves many independent clients. So slow, invalid or numerous clients must not block it. No address is logged.
"""

import asyncio
import logging
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from hubbub.http.answer_pieces import PIECE, AnswerPieces
from hubbub.http.connections import Connection
from hubbub.http.listener import Listener, bind
from hubbub.http.port_protocol import PortProtocol, Unsigned, connection_of
from hubbub.http.port_shares import PortShares
from hubbub.http.problem import Problem

log = logging.getLogger(__name__)

_NEVER = 1e6
"""Seconds until aiohttp closes an idle connection. The shares of the port close it long before."""
DRAIN = 15.0
"""Seconds for open requests when the port closes."""
READ_BUFFER = 16 << 10
"""Bytes of a body in the process, before its handler reads them. aiohttp reads on until there are twice as many."""
_LINGERING = 2.0
"""Seconds to read the rest of a refused body, so that the client receives the refusal."""

_QUIET = logging.getLogger("hubbub.http.quiet")
_QUIET.disabled = True
"""A disabled log for aiohttp's messages about invalid requests. They contain addresses, and could fill a disk."""

Direct = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
"""A handler without a route. It does the work of the middlewares and signals itself."""


@asynccontextmanager
async def serving(
    app: web.Application,
    host: str,
    port: int,
    *,
    shares: PortShares | None = None,
    drain: float = DRAIN,
    context: ssl.SSLContext | None = None,
    cancel: bool = False,
    direct: Mapping[tuple[str, str], Direct] | None = None,
    on_rate: Callable[[web.BaseRequest, Problem], web.StreamResponse] | None = None,
    costs: Mapping[str, float] | None = None,
    option: str = "--port",
) -> AsyncIterator[tuple[str, int]]:
    """Serve the application and yield its address. At the end refuse new requests and answer the open ones.

    `cancel` stops the work on an answer when its client disconnects. `direct` has handlers by method and path. They
    come before the routes, middlewares and signals of the application, which cost as much as a short answer.
    `on_rate` makes the answer to a request above the rate of its address. `costs` has the paths whose requests count
    as another part of that rate than one.
    `option` sets the port, and an error names it.
    """
    shares = PortShares() if shares is None else shares
    runner = web.AppRunner(
        app,
        access_log=None,
        logger=_QUIET,
        keepalive_timeout=_NEVER,
        lingering_time=_LINGERING,
        # aiohttp would decompress a body without a bound. The gateway does it within its own.
        auto_decompress=False,
        read_bufsize=READ_BUFFER,
        shutdown_timeout=drain,
        handler_cancellation=cancel,
    )
    await runner.setup()
    inner = runner.server
    if inner is None:
        raise RuntimeError("aiohttp made no server")
    # An answer of a direct handler is short, so it needs no look at its length.
    inner.request_handler = _in_pieces(inner.request_handler)
    if direct:
        inner.request_handler = _dispatcher(inner.request_handler, direct)
    if shares.rates.limited:
        inner.request_handler = _limited(inner.request_handler, shares, on_rate or _refuse, costs or {})
    watching = asyncio.create_task(shares.watch())
    try:
        sockets = bind(host, port, option)
        listener = Listener(sockets, shares, lambda connection: PortProtocol(connection, shares, inner), context)
        try:
            yield sockets[0].getsockname()[:2]
        finally:
            await listener.close()
    finally:
        await runner.cleanup()
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching


def _in_pieces(handler: Direct) -> Direct:
    """Return a handler whose long answers are written in pieces."""

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        response = await handler(request)
        connection = connection_of(request)
        if connection is not None and isinstance(response, web.Response):
            body = response.body
            if isinstance(body, bytes) and len(body) > PIECE:
                response.body = AnswerPieces(body, connection)
        return response

    return handle


def _dispatcher(routes: Direct, direct: Mapping[tuple[str, str], Direct]) -> Direct:
    def handle(request: web.BaseRequest) -> Awaitable[web.StreamResponse]:
        handler = direct.get((request.method, request.path))
        if handler is None or "Expect" in request.headers:  # only a route can answer with 100
            return routes(request)
        return handler(request)

    return handle


def _limited(
    handler: Direct,
    shares: PortShares,
    refuse: Callable[[web.BaseRequest, Problem], web.StreamResponse],
    costs: Mapping[str, float],
) -> Direct:
    """Return a handler that refuses requests above the rate of their address, before it looks at their path."""

    async def answer(request: web.BaseRequest, connection: Connection, wait: float) -> web.StreamResponse:
        detail = "This address or its network sends too many requests. Wait for the seconds in Retry-After."
        response = refuse(request, Problem(429, detail, retry_after=wait, reason="rate"))
        # Other clients may share the connection of a proxy. Any other one has sent more than its rate.
        if not connection.is_proxy:
            response.force_close()
        return response

    def handle(request: web.BaseRequest) -> Awaitable[web.StreamResponse]:
        connection = connection_of(request)
        wait = 0.0
        if connection is not None:
            wait = shares.rates.take(connection.path, time.monotonic(), costs.get(request.path, 1.0))
        if connection is None or not wait:
            return handler(request)
        return answer(request, connection, wait)

    return handle


def _refuse(_: web.BaseRequest, problem: Problem) -> web.StreamResponse:
    return reply(problem)


def reply(problem: Problem) -> web.Response:
    return Unsigned(status=problem.status, body=problem.body, headers=problem.headers)


def guard(on_answer: Callable[[web.Request, int], None]) -> Middleware:
    """Return a middleware that turns every error into a problem, and calls `on_answer` with each status."""

    @web.middleware
    async def guarded(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            response = await handler(request)
        except Exception as error:  # noqa: BLE001 - whatever it is, a client gets an answer
            response = refusal(error, f"{request.method} {route(request)}")
        on_answer(request, response.status)
        return response

    return guarded


def refusal(error: Exception, what: str) -> web.StreamResponse:
    """Return the answer for an error. Raise an error of the connection again."""
    if isinstance(error, Problem):
        return reply(error)
    if isinstance(error, web.HTTPException):
        return _translated(error)
    # The client is gone. Nobody would read an answer, and the log would fill with faults of clients.
    if isinstance(error, ConnectionError | TimeoutError):
        raise error
    log.error("%s failed", what, exc_info=error)
    return reply(Problem(500, "Internal error. See the server log; you may retry"))


def route(request: web.Request) -> str:
    """Return the path of the route, or an empty text without a route. It never contains text of the client."""
    resource = request.match_info.route.resource
    return resource.canonical if resource else ""


def hostname(request: web.BaseRequest) -> str:
    """Return the host name in the request, without the port."""
    host = request.host.lower()
    # An IPv6 address has colons too, so its last digits are a port only after a bracket.
    name, _, number = host.rpartition(":")
    return name if number.isdecimal() and (name.endswith("]") or ":" not in name) else host


def _translated(error: web.HTTPException) -> web.StreamResponse:
    """Turn a refusal of aiohttp into a problem."""
    if error.status < 400:
        return error
    details = {404: "no such path; /openapi.json lists the paths", 405: "/openapi.json lists the allowed methods"}
    response = reply(Problem(error.status, details.get(error.status, error.reason)))
    if isinstance(error, web.HTTPMethodNotAllowed):
        response.headers["Allow"] = ",".join(sorted(error.allowed_methods))
    return response
