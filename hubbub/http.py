"""HTTP ports: bounded in connections and in the time of a header, with TLS that follows its files, and a calm end.

A port answers many who do not know each other, so whoever is slow, rude or many must not shut it.
Nothing here writes an address anywhere.
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

from hubbub.problem import Problem
from hubbub.watched import Watched
from oracles.errors import ParameterError

log = logging.getLogger(__name__)

CONNECTIONS = 1_000
HEADER = 10.0
"""Seconds for a request's header, for the handshake of TLS, and for a connection that says nothing."""
DRAIN = 15.0
"""Seconds that answers have which are due when the port closes."""
_LINGERING = 2.0
"""Seconds in which the rest of a body is read that was refused, so that the refusal is heard."""

_QUIET = logging.getLogger("hubbub.http.quiet")
_QUIET.disabled = True
"""For aiohttp's words on rude clients: they hold addresses, and each client could fill a disk."""


Direct = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
"""A handler that needs no route, and sees to all that middlewares and signals would do."""


@dataclass(eq=False)
class ConnectionLimits:
    """The connections of one port: so many, and of one address so many."""

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
    """aiohttp's own; what it cannot parse is refused without a word of it, or of what serves."""

    __slots__ = ()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        super().handle_error(request, status, exc, message)  # it raises where an answer has begun
        problem = Problem(status, "this is no request of HTTP/1.1 that can be read")
        response = Unsigned(status=status, body=problem.body, headers=problem.headers)
        response.force_close()
        return response


class Unsigned(web.Response):
    """An answer outside of any application, whose signals would see to its headers."""

    async def _prepare_headers(self) -> None:
        await super()._prepare_headers()
        _unsign(self)


class _Peer(asyncio.Protocol):
    """One connection, on its way through the limits to aiohttp."""

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
            cast(asyncio.WriteTransport, transport).abort()  # not asked for its type: a loop may have its own
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


def tls(certificate: str, key: str) -> Watched[ssl.SSLContext]:
    """A context that follows its files: new connections get what stands there."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2

    def read() -> ssl.SSLContext:
        _load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), certificate, key)  # a pair that does not match would spoil it
        _load(context, certificate, key)
        return context

    return Watched((certificate, key), read)


def _load(context: ssl.SSLContext, certificate: str, key: str) -> None:
    try:
        context.load_cert_chain(certificate, key, lambda: "")  # or OpenSSL would ask at the terminal
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
    """The address that is listened on meanwhile. In the end nothing new is taken, and what is due is answered.

    `cancel`: an answer whose client has gone is not worked on any more. `direct`: handlers by method and path
    that are asked before the application's routes, middlewares and signals, which cost as much as a short answer.
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

    secured: dict[str, Any] = {} if context is None else {"ssl": context, "ssl_handshake_timeout": header}
    try:
        try:
            server = await loop.create_server(lambda: _Peer(limits, made()), host, port, backlog=1024, **secured)
        except OSError as error:
            where = f"{host}:{port} cannot be listened on: {error.strerror or error}"
            raise ParameterError(f"{where}; name another --port, or 0 for any free one") from error
        try:
            yield server.sockets[0].getsockname()[:2]
        finally:
            server.close()
    finally:
        await runner.cleanup()


def _dispatcher(routed: Direct, direct: Mapping[tuple[str, str], Direct]) -> Direct:
    def handle(request: web.BaseRequest) -> Awaitable[web.StreamResponse]:
        handler = direct.get((request.method, request.path))
        if handler is None or "Expect" in request.headers:  # to say 100 is a route's affair
            return routed(request)
        return handler(request)

    return handle


def reply(problem: Problem) -> web.Response:
    return Unsigned(status=problem.status, body=problem.body, headers=problem.headers)


def guard(answered: Callable[[web.Request, int], None]) -> Middleware:
    """The middleware that turns whatever goes wrong into a problem; `answered` is told the status of all."""

    @web.middleware
    async def guarded(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            response = await handler(request)
        except Exception as error:  # noqa: BLE001 - whatever it is, a client gets an answer
            response = refusal(error, f"{request.method} {route(request)}")
        answered(request, response.status)
        return response

    return guarded


def refusal(error: Exception, what: str) -> web.StreamResponse:
    """The answer in place of an error; one that concerns the connection alone is raised again."""
    if isinstance(error, Problem):
        return reply(error)
    if isinstance(error, web.HTTPException):
        return _translated(error)
    if isinstance(error, ConnectionError | TimeoutError):
        raise error
    log.error("%s failed", what, exc_info=error)
    return reply(Problem(500, "it is in the log; the request may be tried again"))


def route(request: web.Request) -> str:
    """The path as the application knows it, empty where it does not: never what a client wrote."""
    resource = request.match_info.route.resource
    return resource.canonical if resource else ""


def hostname(request: web.BaseRequest) -> str:
    """The name under which a client speaks to this port, without its number."""
    host = request.host.lower()
    name, _, number = host.rpartition(":")
    return name if number.isdecimal() and (name.endswith("]") or ":" not in name) else host


def _translated(error: web.HTTPException) -> web.StreamResponse:
    """A refusal of aiohttp's own, as a problem."""
    if error.status < 400:
        return error
    details = {404: "no such path; /openapi.json tells which there are", 405: "see /openapi.json for what is allowed"}
    response = reply(Problem(error.status, details.get(error.status, error.reason)))
    if isinstance(error, web.HTTPMethodNotAllowed):
        response.headers["Allow"] = ",".join(sorted(error.allowed_methods))
    return response


async def unsigned(_: web.Request, response: web.StreamResponse) -> None:
    """Before every answer: nobody needs to know what serves it."""
    _unsign(response)


def _unsign(response: web.StreamResponse) -> None:
    response.headers.popall("Server", None)
    response.headers["X-Content-Type-Options"] = "nosniff"
