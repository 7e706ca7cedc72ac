"""Request bodies, within limits of size, time, total memory and the memory of each caller."""

import asyncio

from aiohttp import web

from hubbub.http.problem import Problem
from producers.gateway.access.limits import Work
from producers.gateway.access.tokens import Caller
from producers.gateway.intake.submission import inflate, too_large

PATIENCE = 30.0
"""Seconds for one body."""
MEMORY = 256 << 20
"""Bytes of all bodies in memory."""
RATIO = 1032
"""The largest ratio of decompressed and compressed bytes of gzip."""
SHARE = 8
"""A caller may use 1/SHARE of this memory, and a short-lived token 1/SHARE of that of its name."""


class Bodies:
    """The bodies of requests that are not answered yet."""

    def __init__(self, most: int, work: Work) -> None:
        self._most = most
        self._work = work
        self.held = 0
        """Bytes of all these bodies."""
        self._shares: dict[tuple[str, str], int] = {}
        """Bytes of each caller, and of each name of tokens."""

    async def read(self, request: web.BaseRequest, caller: Caller) -> bytes:
        """Return the body without its compression. It counts until `release`."""
        self._check_size(request.content_length or 0)
        if request.content.is_eof():
            body = request.content.read_nowait()
            self._check_size(len(body))
            self._hold(len(body), caller)
        else:
            body = await self._receive(request, caller)

        # The packed bytes are gone before the unpacked ones are counted, so that both need not fit together.
        self.release(body, caller)
        body = self._open(body, caller, is_gzip=request.headers.get("Content-Encoding", "").lower() == "gzip")
        self._hold(len(body), caller)
        return body

    def release(self, body: bytes, caller: Caller) -> None:
        self._count(-len(body), caller)

    async def _receive(self, request: web.BaseRequest, caller: Caller) -> bytes:
        chunks: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(PATIENCE):
                # Counted piece by piece, because a client may claim any length, or none.
                chunk = await request.content.readany()
                while chunk:
                    self._check_size(size + len(chunk))
                    self._hold(len(chunk), caller)
                    chunks.append(chunk)
                    size += len(chunk)
                    chunk = await request.content.readany()
        except BaseException as error:
            self._count(-size, caller)
            if isinstance(error, TimeoutError):
                raise Problem(408, f"The body did not arrive within {PATIENCE:g} s. Try again.") from None
            raise

        return b"".join(chunks)

    def _open(self, body: bytes, caller: Caller, *, is_gzip: bool) -> bytes:
        """Return the body without its compression, and charge the caller for all that this may have produced."""
        self._work.check(caller)
        # A body that turns out to be invalid has cost as much time as a valid one.
        size = min(self._most, RATIO * len(body)) if is_gzip else len(body)
        try:
            if is_gzip:
                body = inflate(body, self._most)
                size = len(body)
        finally:
            self._work.charge(caller, size / 1024)
        return body

    def _check_size(self, size: int) -> None:
        if size > self._most:
            raise too_large(f"The body has {size} bytes or more, the limit is {self._most}. Send less at a time.")

    def _hold(self, size: int, caller: Caller) -> None:
        """Count bytes, or raise a Problem if there is no room for them."""
        share = max(MEMORY // SHARE, self._most)
        for key in _names(caller):
            if self._shares.get(key, 0) + size > share:
                detail = "Your unfinished requests take too much memory. Finish some of them, then try again."
                raise Problem(429, detail, retry_after=1.0, reason="memory")
            share = max(share // SHARE, self._most)
        if self.held + size > MEMORY:
            raise Problem(503, "The gateway is busy with other bodies. Try again.", retry_after=1.0)
        self._count(size, caller)

    def _count(self, size: int, caller: Caller) -> None:
        self.held += size
        for key in _names(caller):
            total = self._shares.pop(key, 0) + size
            if total:
                self._shares[key] = total


def _names(caller: Caller) -> tuple[tuple[str, str], ...]:
    """Return the key of a caller. Before that of a short-lived token is the key of its name."""
    return ((caller.account.name, ""), caller.key) if caller.salt else (caller.key,)
