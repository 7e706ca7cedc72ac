"""HTTP ports with bounds on connections and header times, TLS files that may be renewed, and an orderly stop.

A port serves many independent clients. So slow, invalid or numerous clients must not block it. No address is logged.
"""

import asyncio
import logging
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from hubbub.file_watch import FileWatch
from hubbub.http.addresses import Networks, client
from hubbub.http.answer_pieces import PIECE, AnswerPieces
from hubbub.http.connections import Connection, ConnectionState
from hubbub.http.listener import Listener, bind
from hubbub.http.port_shares import PortShares
from hubbub.http.problem import Problem
from oracles.errors import ParameterError

log = logging.getLogger(__name__)

UNSENT = 16 << 10
"""Bytes of answers in the process above which nothing is read from a connection."""
_NEVER = 1e6
"""Seconds until aiohttp closes an idle connection. The shares of the port close it long before."""
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
    """The protocol of aiohttp, which notes what the other side of its connection owes.

    The refusal of an invalid request contains neither the request nor the server's name.
    """

    __slots__ = ("_shares", "connection")

    def __init__(self, connection: Connection, shares: PortShares, server: web.Server) -> None:
        super().__init__(server, loop=asyncio.get_running_loop(), **server._kwargs)  # noqa: SLF001 - for subclasses
        self.connection = connection
        self._shares = shares

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        connection = self.connection
        if isinstance(transport, asyncio.Transport):
            transport.set_write_buffer_limits(high=UNSENT)
            connection.transport = transport
        connection.enter(ConnectionState.HEADER, time.monotonic())
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._shares.leave(self.connection)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        connection = self.connection
        connection.read_bytes += len(data)
        super().data_received(data)
        if data and connection.state is ConnectionState.IDLE and not self._messages:
            connection.enter(ConnectionState.HEADER, time.monotonic())

    def pause_writing(self) -> None:
        """Read nothing while an answer waits, so that requests in a row cost no parsing ahead."""
        super().pause_writing()
        self._pause_transport_reading()

    def resume_writing(self) -> None:
        super().resume_writing()
        if not self._reading_paused and not self._buffer_paused:
            self._resume_transport_reading()

    def _resume_transport_reading(self) -> None:
        if not self._paused:
            super()._resume_transport_reading()

    async def _handle_request(self, request: web.BaseRequest, *more: Any) -> tuple[web.StreamResponse, bool]:
        """Answer one request. aiohttp calls this when the header is whole, and it ends when the answer is written."""
        connection = self.connection
        if self._paused:
            await self._drain_helper()
        if connection.is_proxy:
            self._shares.move(connection, client_of(request, self._shares.proxies))
        connection.enter(ConnectionState.WORK, 0.0)
        try:
            return await super()._handle_request(request, *more)
        finally:
            connection.enter(ConnectionState.IDLE, time.monotonic())
            if connection.is_proxy:
                self._shares.move(connection, None)

    def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> Coroutine[Any, Any, tuple[web.StreamResponse, bool]]:
        """Write an answer, and a long one in pieces."""
        if isinstance(resp, web.Response):
            body = resp.body
            if isinstance(body, bytes) and len(body) > PIECE:
                resp.body = AnswerPieces(body, self.connection)
        return super().finish_response(request, resp, start_time)

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
    shares: PortShares | None = None,
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
    shares = PortShares() if shares is None else shares
    runner = web.AppRunner(
        app,
        access_log=None,
        logger=_QUIET,
        keepalive_timeout=_NEVER,
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
    watching = asyncio.create_task(shares.watch())
    try:
        sockets = bind(host, port, option)
        listener = Listener(sockets, shares, lambda connection: _Protocol(connection, shares, inner), context)
        try:
            yield sockets[0].getsockname()[:2]
        finally:
            await listener.close()
    finally:
        await runner.cleanup()
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching


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


def client_of(request: web.BaseRequest, proxies: Networks) -> str:
    """Return the address of the client of a request."""
    return client(request.remote or "", request.headers.getall("X-Forwarded-For", ()), proxies)


def connection_of(request: web.BaseRequest) -> Connection | None:
    """Return the connection of a request on a port of `serving`."""
    protocol = request.protocol
    return protocol.connection if isinstance(protocol, _Protocol) else None


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
