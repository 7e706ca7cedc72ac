"""The body of a long answer, which is written in pieces, so that an unread answer holds little memory."""

from aiohttp.abc import AbstractStreamWriter
from aiohttp.payload import Payload

from hubbub.http.connections import Connection

PIECE = 32 << 10
"""Bytes of a piece. The next one is written when the kernel has taken nearly all of this one."""


class AnswerPieces(Payload):
    """Bytes that many answers may share. A copy of the rest would cost memory for each answer."""

    def __init__(self, body: bytes, connection: Connection) -> None:
        super().__init__(body)
        self._size = len(body)
        self._connection = connection

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return bytes(self._value).decode(encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        view = memoryview(self._value)
        for start in range(0, len(view), PIECE):
            if not self._connection.hold_answer(PIECE):
                self._connection.give_way()
                raise ConnectionResetError("no room for the unsent bytes of answers")
            await writer.write(view[start : start + PIECE])
            await writer.drain()
