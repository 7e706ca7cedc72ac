"""HTTP ports with bounds on connections and header times, TLS files that may be renewed, and an orderly stop.

A port serves many independent clients. So slow, invalid or numerous clients must not block it. No address is logged.
"""

import asyncio
import logging
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from hubbub.file_watch import FileWatch
from hubbub.http.problem import Problem
from oracles.errors import ParameterError

log = logging.getLogger(__name__)

CONNECTIONS = 1_000
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


@dataclass(eq=False)
class ConnectionLimits:
    """The connections of one port, with a limit for all and a limit for each address."""

    most: int = CONNECTIONS
    each: int | None = None
    open: int = 0
    refused: int = 0
    _addresses: Counter[str] = field(default_factory=Counter)

    def enter(self, address: str) -> bool:
        if self.open >= self.most or (self.each is not None and self._addresses[address] >= self.each):
            self.refused += 1
            return False
        self.open += 1
        self._addresses[address] += 1
        return True

    def leave(self, address: str) -> None:
        self.open -= 1
        self._addresses[address] -= 1
        if not self._addresses[address]:
            del self._addresses[address]


class _Protocol(web.RequestHandler):
    """The protocol of aiohttp. The refusal of an invalid request contains neither the request nor the server's name."""

    __slots__ = ()

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


class _Peer(asyncio.Protocol):
    """A connection that checks the limits and then passes its events to aiohttp."""

    __slots__ = ("_address", "_inner", "_limits")

    def __init__(self, limits: ConnectionLimits, inner: asyncio.Protocol) -> None:
        self._limits = limits
        self._inner = inner
        self._address: str | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        peer = transport.get_extra_info("peername")
        address = str(peer[0]) if peer else ""
        if not self._limits.enter(address):
            self._inner = asyncio.Protocol()
            cast(asyncio.WriteTransport, transport).abort()  # no check of its type, because a loop may have its own
            return
        self._address = address
        self._inner.connection_made(transport)

    def connection_lost(self, error: Exception | None) -> None:
        if self._address is not None:
            self._limits.leave(self._address)
            self._address = None
        self._inner.connection_lost(error)

    def data_received(self, data: bytes) -> None:
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()


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
) -> AsyncIterator[tuple[str, int]]:
    """Serve the application and yield its address. At the end refuse new requests and answer the open ones.

    `cancel` stops the work on an answer when its client disconnects. `direct` has handlers by method and path. They
    come before the routes, middlewares and signals of the application, which cost as much as a short answer.
    """
    limits = ConnectionLimits() if limits is None else limits
    runner = web.AppRunner(
        app,
        access_log=None,
        logger=_QUIET,
        keepalive_timeout=header,
        lingering_time=_LINGERING,
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
    loop = asyncio.get_running_loop()

    def made() -> asyncio.Protocol:
        return _Protocol(inner, loop=loop, **inner._kwargs)  # noqa: SLF001 - aiohttp names its own class there

    tls_options: dict[str, Any] = {} if context is None else {"ssl": context, "ssl_handshake_timeout": header}
    try:
        try:
            server = await loop.create_server(lambda: _Peer(limits, made()), host, port, backlog=1024, **tls_options)
        except OSError as error:
            where = f"{host}:{port} cannot be listened on: {error.strerror or error}"
            raise ParameterError(f"{where}; name another --port, or 0 for any free one") from error
        try:
            yield server.sockets[0].getsockname()[:2]
        finally:
            server.close()
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
