"""The protocol of a connection: what the other side owes, and how its answers are written."""

import asyncio
import time
from typing import Any

from aiohttp import web

from hubbub.http.addresses import Networks, client
from hubbub.http.connections import Connection, ConnectionState
from hubbub.http.cpu_turns import REQUEST_COST, MeteredWork
from hubbub.http.port_shares import PortShares
from hubbub.http.problem import Problem

UNSENT = 16 << 10
"""Bytes of answers in the process above which nothing is read from a connection."""

UNREAD = 32 << 10
"""Bytes that TLS has received, above which nothing more is received until they are read. It would take 256 KiB."""


class PortProtocol(web.RequestHandler):
    """The protocol of aiohttp, which notes what the other side of its connection owes.

    The refusal of an invalid request contains neither the request nor the server's name.
    """

    __slots__ = ("_is_reading_stopped", "_shares", "connection")

    def __init__(self, connection: Connection, shares: PortShares, server: web.Server) -> None:
        super().__init__(server, loop=asyncio.get_running_loop(), **server._kwargs)  # noqa: SLF001 - for subclasses
        self.connection = connection
        self._shares = shares
        self._is_reading_stopped = False
        """Whether the transport has been told to read no more, and not yet to go on."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        connection = self.connection
        if isinstance(transport, asyncio.Transport):
            transport.set_write_buffer_limits(high=UNSENT)
            if hasattr(transport, "set_read_buffer_limits"):
                transport.set_read_buffer_limits(high=UNREAD)
            connection.transport = transport
        self._shares.handshakes.end(connection)
        connection.enter(ConnectionState.HEADER, time.monotonic())
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._shares.leave(self.connection)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if not data:  # aiohttp asks for requests that it has already, before each request
            super().data_received(data)
            return
        connection = self.connection
        connection.read_bytes += len(data)
        start = time.perf_counter()
        super().data_received(data)
        connection.unpaid_seconds += time.perf_counter() - start
        if connection.state is ConnectionState.IDLE and not self._messages:
            connection.enter(ConnectionState.HEADER, time.monotonic())

    def pause_writing(self) -> None:
        """Read nothing while an answer waits, so that requests in a row cost no parsing ahead."""
        super().pause_writing()
        self._pause_transport_reading()

    def resume_writing(self) -> None:
        super().resume_writing()
        if not self._reading_paused and not self._buffer_paused:
            self._resume_transport_reading()

    def _pause_transport_reading(self) -> None:
        self._is_reading_stopped = True
        super()._pause_transport_reading()

    def _resume_transport_reading(self) -> None:
        # aiohttp calls this twice in each request, and nearly always the transport reads already.
        if self._is_reading_stopped and not self._paused:
            self._is_reading_stopped = False
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
            if self._shares.turns.must_wait(connection.path):
                await self._take_turn()
            work = super()._handle_request(request, *more)
            answer: tuple[web.StreamResponse, bool] = await MeteredWork(work, self._shares.turns, connection)
            return answer
        finally:
            connection.enter(ConnectionState.IDLE, time.monotonic())
            if connection.is_proxy:
                self._shares.move(connection, None)

    async def _take_turn(self) -> None:
        """Wait until other callers have had their turns."""
        await self._shares.turns.take(self.connection, REQUEST_COST)
        if self.transport is None:
            raise ConnectionResetError("the client did not wait for its turn")

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


def client_of(request: web.BaseRequest, proxies: Networks) -> str:
    """Return the address of the client of a request."""
    return client(request.remote or "", request.headers.getall("X-Forwarded-For", ()), proxies)


def connection_of(request: web.BaseRequest) -> Connection | None:
    """Return the connection of a request on a port of `serving`."""
    protocol = request.protocol
    return protocol.connection if isinstance(protocol, PortProtocol) else None


async def unsigned(_: web.Request, response: web.StreamResponse) -> None:
    """Remove the name of the server before every answer."""
    _unsign(response)


def _unsign(response: web.StreamResponse) -> None:
    response.headers.popall("Server", None)
    response.headers["X-Content-Type-Options"] = "nosniff"
