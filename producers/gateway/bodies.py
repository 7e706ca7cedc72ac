"""Request bodies, within limits of size, progress and memory. Callers share the memory by the rule of fair shares."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from typing import Any

from aiohttp import web

from hubbub.http.connections import Connection, ConnectionState
from hubbub.http.fair_shares import CallerPath, FairShares
from hubbub.http.port_protocol import connection_of
from hubbub.http.problem import Problem
from hubbub.http.share_groups import Holder
from producers.gateway.access.limits import Work
from producers.gateway.access.tokens import NAME, SALT, Caller
from producers.gateway.intake.submission import inflate, too_large

PATIENCE = 120.0
"""Seconds for one body. One that does not make progress ends long before."""
MEMORY = 256 << 20
"""Bytes of all bodies in memory."""
TLS_MEMORY = 128 << 20
"""The same if the gateway ends TLS, which takes up to 200 KiB more for each connection with a long body."""
RATIO = 1032
"""The largest ratio of decompressed and compressed bytes of gzip."""
SHARE = 8
"""A name or an address may use 1/SHARE of this memory, and a short-lived token 1/SHARE of that of its name."""
PIECE = 64 << 10
"""Bytes of the pieces in which a body is held. A small body needs the room of one of them, not of a whole body."""


class Body:
    """The body of a request. If its caller must give a piece up, or if it lags too much, the body ends as a whole.

    A block `with body:` holds whatever waits while the body may end. It then raises the Problem of that end.
    """

    __slots__ = ("_path", "_pieces", "_problem", "_shares", "_task", "connection", "content")

    def __init__(self, shares: FairShares, path: CallerPath, connection: Connection | None) -> None:
        self.content = b""
        self._shares = shares
        self._path = path
        self.connection = connection
        self._pieces: list[Holder] = []
        self._task: asyncio.Task[Any] | None = None
        """The task of the present block, if any."""
        self._problem: Problem | None = None

    def hold(self, size: int) -> None:
        """Count so many bytes more, or raise a Problem if there is no room for them."""
        while size > 0:
            last = self._pieces[-1] if self._pieces else None
            if last is None or last.size >= PIECE:
                part = min(size, PIECE)
                is_held = self._add(part)
            else:
                part = min(size, PIECE - last.size)
                is_held = self._shares.grow(last, part)
            if not is_held or self._problem is not None:
                raise self._problem or self._no_room(part)
            size -= part

    def release(self) -> None:
        """Hold nothing more."""
        for piece in self._pieces:
            self._shares.leave(piece)
        self._pieces.clear()

    @contextmanager
    def receiving(self) -> Iterator[None]:
        """Let the other side owe the rest of the body until the block ends."""
        connection = self.connection
        if connection is None:
            yield
            return
        connection.on_slow = self._give_up
        connection.enter(ConnectionState.BODY, time.monotonic())
        try:
            yield
        finally:
            connection.on_slow = None
            connection.enter(ConnectionState.WORK, 0.0)
            for piece in self._pieces:
                piece.rest()
            connection.parts.difference_update(self._pieces)

    def __enter__(self) -> None:
        # A generator would cost more than all else that is counted for a short body.
        self._task = asyncio.current_task()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        task = self._task
        self._task = None
        if kind is asyncio.CancelledError and self._problem is not None and task is not None:
            task.uncancel()
            raise self._problem from None

    def _add(self, size: int) -> bool:
        piece = self._shares.enter(self._path, size, self._give_way)
        if piece is None:
            return False
        self._pieces.append(piece)
        connection = self.connection
        # A body that is whole lags no more.
        if connection is not None and connection.state is ConnectionState.BODY and connection.place is not None:
            connection.parts.add(piece)
            piece.follow(connection.place)
        return True

    def _no_room(self, size: int) -> Problem:
        if self._shares.held + size > self._shares.capacity:
            return Problem(503, "The gateway is busy with other bodies. Try again.", retry_after=1.0)
        return _too_many()

    def _give_way(self) -> None:
        self._end(_too_many())

    def _give_up(self) -> None:
        self._end(slow())

    def _end(self, problem: Problem) -> None:
        """End the body with a Problem. Frames on their way to Kafka can no longer be stopped."""
        self.release()
        task = self._task
        if task is None or self._problem is not None:
            return
        self._problem = problem
        # If its own growth ends it, `hold` raises the Problem.
        if task is not asyncio.current_task():
            task.cancel()


class Bodies:
    """The bodies of requests that are not answered yet."""

    def __init__(self, most: int, work: Work, *, has_tls: bool = False) -> None:
        self._most = most
        self._work = work
        self._memory = TLS_MEMORY if has_tls else MEMORY
        self.shares = FairShares(self._memory, time.monotonic, self._limit)

    @property
    def held(self) -> int:
        """Bytes of all these bodies."""
        return self.shares.held

    async def read(self, request: web.BaseRequest, caller: Caller) -> Body:
        """Return the body without its compression. It counts until its `release`."""
        self._check_size(request.content_length or 0)
        body = Body(self.shares, caller.path, connection_of(request))
        content = request.content
        try:
            if content.is_eof():
                packed = content.read_nowait()
                self._check_size(len(packed))
                body.hold(len(packed))
            else:
                packed = await self._receive(request, body)
            self._open(packed, caller, body, is_gzip=request.headers.get("Content-Encoding", "").lower() == "gzip")
        except BaseException:
            body.release()
            raise
        return body

    async def _receive(self, request: web.BaseRequest, body: Body) -> bytes:
        chunks: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(PATIENCE):
                with body, body.receiving():
                    # Counted piece by piece, because a client may claim any length, or none.
                    chunk = await request.content.readany()
                    while chunk:
                        size += len(chunk)
                        self._check_size(size)
                        body.hold(len(chunk))
                        chunks.append(chunk)
                        chunk = await request.content.readany()
        except TimeoutError:
            raise slow() from None
        return b"".join(chunks)

    def _open(self, packed: bytes, caller: Caller, body: Body, *, is_gzip: bool) -> None:
        """Give the body its content without compression, and charge the caller for all that this may have produced."""
        self._work.check(caller)
        if not is_gzip:
            self._work.charge(caller, len(packed) / 1024)
            body.content = packed
            return

        # A body that turns out to be invalid has cost as much time as a valid one.
        size = min(self._most, RATIO * len(packed))
        try:
            body.content = inflate(packed, self._most)
            size = len(body.content)
        finally:
            self._work.charge(caller, size / 1024)
        # The packed bytes are not counted beside the unpacked ones, so that both need not fit together.
        body.release()
        body.hold(size)

    def _check_size(self, size: int) -> None:
        if size > self._most:
            raise too_large(f"The body has {size} bytes or more, the limit is {self._most}. Send less at a time.")

    def _limit(self, path: CallerPath) -> float:
        """Return the limit of a name, of a short-lived token, or of an address without a token."""
        share = max(self._memory // SHARE, self._most)
        last = path[-1]
        if path[0].startswith(NAME):
            if len(path) == 1:
                return share
            return max(share // SHARE, self._most) if last.startswith(SALT) else inf
        return share if last.endswith("/64") or "/" not in last else inf


def slow() -> Problem:
    return Problem(408, "The body arrives too slowly. Try again.", retry_after=1.0, reason="slow")


def _too_many() -> Problem:
    detail = "Your unfinished requests take too much memory. Finish some of them, then try again."
    return Problem(429, detail, retry_after=1.0, reason="memory")
