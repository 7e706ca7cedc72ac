"""Answers whose bytes are built once and sent to many clients. aiohttp builds the headers again for each answer."""

import time
from collections.abc import Mapping
from email.utils import formatdate
from functools import lru_cache

from aiohttp import HttpVersion11, web
from aiohttp.abc import AbstractStreamWriter


class PreparedAnswer(web.Response):
    """A short answer with constant bytes, except for the date. It stores nothing of a request."""

    def __init__(self, status: int, kind: str, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        headers = headers or {}
        super().__init__(status=status, body=body, content_type=kind, headers=headers)
        head = (
            f"HTTP/1.1 {status} {self.reason}",
            f"Content-Type: {kind}",
            f"Content-Length: {len(body)}",
            "X-Content-Type-Options: nosniff",
            *(f"{name}: {value}" for name, value in headers.items()),
            "Date: ",
        )
        self._head = "\r\n".join(head).encode()
        self._rest = b"\r\n\r\n" + body

    @staticmethod
    def suits(request: web.BaseRequest) -> bool:
        """Whether the answer suits the request: it has HTTP/1.1 and keeps the connection open."""
        return request.version == HttpVersion11 and request.keep_alive

    @property
    def keep_alive(self) -> bool:
        # aiohttp decides this in its own `prepare`, which never runs here, and would close the connection.
        return True

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        transport = request.transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError("the client has disconnected")
        transport.write(b"".join((self._head, _date(int(time.time())), self._rest)))
        return None

    async def write_eof(self, data: bytes = b"") -> None:
        """Do nothing, because `prepare` writes everything."""


@lru_cache(maxsize=1)
def _date(second: int) -> bytes:
    return formatdate(second, usegmt=True).encode()
