"""Request bodies, within limits of size, time and total memory."""

import asyncio

from aiohttp import web

from hubbub.http.problem import Problem
from producers.gateway.intake.submission import inflate, too_large

PATIENCE = 30.0
"""Seconds for one body."""
MEMORY = 256 << 20
"""Bytes of all bodies in memory."""


class Bodies:
    """The bodies of requests that are not answered yet."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.held = 0
        """Bytes of all these bodies."""

    async def read(self, request: web.BaseRequest) -> bytes:
        """Return the body without its compression. It counts until `release`."""
        most = self._most
        if (request.content_length or 0) > most:
            raise too_large(f"The body has {request.content_length} bytes, the limit is {most}. Send less at a time.")
        if request.content.is_eof():
            body = request.content.read_nowait()
            self._hold(len(body))
        else:
            body = await self._receive(request)
        if len(body) <= most and request.headers.get("Content-Encoding", "").lower() == "gzip":
            self.release(body)
            body = inflate(body, most)
            self._hold(len(body))
        if len(body) > most:
            self.release(body)
            raise too_large(f"The body has more than {most} bytes, which is the limit. Send less at a time.")
        return body

    def release(self, body: bytes) -> None:
        self.held -= len(body)

    async def _receive(self, request: web.BaseRequest) -> bytes:
        chunks: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(PATIENCE):
                while size <= self._most:
                    chunk = await request.content.readany()
                    if not chunk:
                        break
                    self._hold(len(chunk))
                    chunks.append(chunk)
                    size += len(chunk)
        except BaseException as error:
            self.held -= size
            if isinstance(error, TimeoutError):
                raise Problem(408, f"The body did not arrive within {PATIENCE:g} s. Try again.") from None
            raise
        return b"".join(chunks)

    def _hold(self, size: int) -> None:
        if self.held + size > MEMORY:
            raise Problem(503, "The gateway is busy with other bodies. Try again.", retry_after=1.0)
        self.held += size
