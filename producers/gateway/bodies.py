"""Bodies of requests: each within its bounds of bytes and time, all together within those of memory."""

import asyncio

from aiohttp import web

from hubbub.problem import Problem
from producers.gateway.submission import inflated, too_large

PATIENCE = 30.0
"""Seconds for one body."""
MEMORY = 256 << 20
"""Bytes of all that are held at a time."""


class Bodies:
    """The bodies that are read, and not answered yet."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.held = 0
        """Bytes of all of them."""

    async def read(self, request: web.BaseRequest) -> bytes:
        """A body as it was before it was compressed; it is held until it is released."""
        most = self._most
        if (request.content_length or 0) > most:
            raise too_large(f"the body has {request.content_length} bytes, and {most} is the most")
        if request.content.is_eof():
            body = request.content.read_nowait()
            self._hold(len(body))
        else:
            body = await self._received(request)
        if len(body) <= most and request.headers.get("Content-Encoding", "").lower() == "gzip":
            self.release(body)
            body = inflated(body, most)
            self._hold(len(body))
        if len(body) > most:
            self.release(body)
            raise too_large(f"the body has more than {most} bytes, and that is the most")
        return body

    def release(self, body: bytes) -> None:
        self.held -= len(body)

    async def _received(self, request: web.BaseRequest) -> bytes:
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
                raise Problem(408, f"the body has not come within {PATIENCE:g} s") from None
            raise
        return b"".join(chunks)

    def _hold(self, size: int) -> None:
        if self.held + size > MEMORY:
            raise Problem(503, "too many bodies are held at once", retry_after=1.0)
        self.held += size
