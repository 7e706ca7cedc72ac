"""HTTP ports with bounds on connections and header times, TLS files that may be renewed, and an orderly stop.

A port serves many independent clients. So slow, invalid or numerous clients must not block it. No address is logged.
"""

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from hubbub.file_watch import FileWatch
from hubbub.http.connections import Connection, ConnectionLimits, ConnectionState
from hubbub.http.listener import Listener, bind
from hubbub.http.problem import Problem
from oracles.errors import ParameterError

log = logging.getLogger(__name__)

HEADER = 10.0
"""Seconds for the header of a request, for the TLS handshake, and for an idle connection."""
DRAIN = 15.0
"""Seconds for open requests when the port closes."""
_LINGERING = 2.0
"""Seconds to read the rest of a refused body, so that the client receives the refusal."""

_QUIET = logging.getLogger("hubbub.http.quiet")
_QUIET.disabled = True
"""A disabled log for aiohttp's messages about invalid requests. They contain addresses, and could fill a disk."""

Direct = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
"""A handler without a route. It does the work of the middlewares and signals itself."""


class _Protocol(web.RequestHandler):
    """The protocol of aiohttp, which notes what its connection does.

    The refusal of an invalid request contains neither the request nor the server's name.
    """

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection, server: web.Server) -> None:
        super().__init__(server, loop=asyncio.get_running_loop(), **server._kwargs)  # noqa: SLF001 - for subclasses
        self._connection = connection

    def connection_lost(self, exc: BaseException | None) -> None:
        self._connection.leave()
        super().connection_lost(exc)

    async def _handle_request(self, *request: Any) -> tuple[web.StreamResponse, bool]:
        """Answer one request. aiohttp calls this when the header is whole, and it ends when the answer is written."""
        self._connection.move(ConnectionState.BUSY)
        try:
            return await super()._handle_request(*request)
        finally:
            self._connection.move(ConnectionState.IDLE)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        super().handle_error(request, status, exc, message)  # raises an error if an answer has begun
        problem = Problem(status, "the request is not valid HTTP/1.1")
        response = Unsigned(status=status, body=problem.body, headers=problem.headers)
        response.force_close()
        return response


class Unsigned(web.Response):
    """An answer outside of an application, without the header `Server`."""

    async def _prepare_headers(self) -> None:
        await super()._prepare_headers()
        _unsign(self)


def tls(certificate: str, key: str) -> FileWatch[ssl.SSLContext]:
    """Return a TLS context that reloads its files for new connections."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2

    def read() -> ssl.SSLContext:
        _load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), certificate, key)  # a wrong pair would damage `context`
        _load(context, certificate, key)
        return context

    return FileWatch((certificate, key), read)


def _load(context: ssl.SSLContext, certificate: str, key: str) -> None:
    try:
        context.load_cert_chain(certificate, key, lambda: "")  # so that OpenSSL never asks in the terminal
    except OSError as error:
        raise ParameterError(f"{certificate} and {key} cannot be used as certificate and key: {error}") from error


@asynccontextmanager
async def serving(
    app: web.Application,
    host: str,
    port: int,
    *,
    limits: ConnectionLimits | None = None,
    header: float = HEADER,
    drain: float = DRAIN,
    context: ssl.SSLContext | None = None,
    cancel: bool = False,
    direct: Mapping[tuple[str, str], Direct] | None = None,
    option: str = "--port",
) -> AsyncIterator[tuple[str, int]]:
    """Serve the application and yield its address. At the end refuse new requests and answer the open ones.

    `cancel` stops the work on an answer when its client disconnects. `direct` has handlers by method and path. They
    come before the routes, middlewares and signals of the application, which cost as much as a short answer.
    `option` sets the port, and an error names it.
    """
    limits = ConnectionLimits() if limits is None else limits
    runner = web.AppRunner(
        app,
        access_log=None,
        logger=_QUIET,
        keepalive_timeout=header,
        lingering_time=_LINGERING,
        # aiohttp would decompress a body without a bound. The gateway does it within its own.
        auto_decompress=False,
        shutdown_timeout=drain,
        handler_cancellation=cancel,
    )
    await runner.setup()
    inner = runner.server
    if inner is None:
        raise RuntimeError("aiohttp made no server")
    if direct:
        inner.request_handler = _dispatcher(inner.request_handler, direct)
    try:
        sockets = bind(host, port, option)
        listener = Listener(sockets, limits, lambda connection: _Protocol(connection, inner), context, header)
        try:
            yield sockets[0].getsockname()[:2]
        finally:
            await listener.close()
    finally:
        await runner.cleanup()


def _dispatcher(routes: Direct, direct: Mapping[tuple[str, str], Direct]) -> Direct:
    def handle(request: web.BaseRequest) -> Awaitable[web.StreamResponse]:
        handler = direct.get((request.method, request.path))
        if handler is None or "Expect" in request.headers:  # only a route can answer with 100
            return routes(request)
        return handler(request)

    return handle


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


async def unsigned(_: web.Request, response: web.StreamResponse) -> None:
    """Remove the name of the server before every answer."""
    _unsign(response)


def _unsign(response: web.StreamResponse) -> None:
    response.headers.popall("Server", None)
    response.headers["X-Content-Type-Options"] = "nosniff"
