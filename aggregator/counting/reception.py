"""Kafka's answers, received in place: a long one goes from the socket to where it is put together.

asyncio's StreamReader, with which aiokafka reads, moves each byte twice more, into memory that is asked for each time.
"""

import asyncio
import logging
from typing import Any

import aiokafka
from aiokafka import conn

log = logging.getLogger(__name__)

KNOWN = frozenset({"0.14.0"})
"""The versions of aiokafka whose connections read as is relied on here."""
SHORT = 1 << 16
"""Bytes up to which an answer is taken from what has come; twice as many may wait."""
PART = 1 << 20
"""The most bytes that are reserved before they come, however many are announced."""


class Reader:
    """What comes through a connection: for aiokafka as a StreamReader gives it, errors included."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._transport: Any = None
        self._came = memoryview(bytearray(2 * SHORT))
        """From _start to _end what nobody has read yet."""
        self._start = self._end = 0
        self._parts: list[bytearray] = []
        """Of a long answer what has come, and room for more of it."""
        self._room = memoryview(b"")
        """The rest of the last part."""
        self._missing = 0
        """Bytes of the long answer that have not come."""
        self._waiter: asyncio.Future[None] | None = None
        self._paused = self._ended = False
        self._error: BaseException | None = None

    def set_transport(self, transport: Any) -> None:
        self._transport = transport

    def at_eof(self) -> bool:
        """Whether all is read, and no more will come."""
        return self._ended and self._start == self._end and not self._parts

    async def readexactly(self, count: int) -> bytes:
        """The next `count` bytes; an IncompleteReadError where the connection ends before."""
        if count < 0:
            raise ValueError("readexactly size can not be less than zero")
        if self._error is not None:
            raise self._error
        if count > max(SHORT, self._end - self._start):
            return await self._long(count)
        while self._end - self._start < count:
            if self._over:
                raise self._cut_off(self._taken(self._end - self._start), count)
            self._make_room()
            await self._wait()
        return self._taken(count)

    async def _long(self, count: int) -> bytes:
        first = self._taken(self._end - self._start)
        self._missing = count - len(first)
        try:
            while self._missing and not self._over:
                await self._wait()
            missing, found = self._missing, b"".join((first, *self._parts))
        finally:
            self._parts, self._room, self._missing = [], memoryview(b""), 0
        if missing:
            raise self._cut_off(found[: count - missing], count)
        return found

    @property
    def _over(self) -> bool:
        return self._ended or self._error is not None

    def _cut_off(self, partial: bytes, count: int) -> BaseException:
        return self._error or asyncio.IncompleteReadError(partial, count)

    def _taken(self, count: int) -> bytes:
        start, self._start = self._start, self._start + count
        found = bytes(self._came[start : self._start])
        if self._start == self._end:
            self._start = self._end = 0
        return found

    def _make_room(self) -> None:
        """Move what waits to the beginning."""
        rest = bytes(self._came[self._start : self._end])
        self._start, self._end = 0, len(rest)
        self._came[: self._end] = rest

    async def _wait(self) -> None:
        if self._paused:
            self._paused = False
            self._transport.resume_reading()
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def get_buffer(self) -> memoryview:
        """Where the next bytes belong."""
        if not self._missing:
            return self._came[self._end :]
        if not len(self._room):
            self._parts.append(bytearray(min(self._missing, PART)))
            self._room = memoryview(self._parts[-1])
        return self._room

    def buffer_updated(self, count: int) -> None:
        """So many have come there."""
        if self._missing:
            self._missing -= count
            self._room = self._room[count:]
            if self._missing:
                return
        else:
            self._end += count
            if self._end > SHORT and not self._paused:
                self._paused = True
                self._transport.pause_reading()
        self._wake()

    def end(self, error: BaseException | None = None) -> None:
        """No more will come; a connection that breaks was not ended by its other side."""
        if error is None:
            self._ended = True
        else:
            self._error = error
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class Protocol(conn.AIOKafkaProtocol, asyncio.BufferedProtocol):  # type: ignore[misc] # aiokafka is untyped
    """aiokafka's, with a Reader; the StreamReader that it is given learns no more than how the connection ends."""

    def __init__(self, *arguments: Any, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(*arguments, loop=loop)
        self.reader = Reader(loop)

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.reader.set_transport(transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        del sizehint  # an answer is taken as it is
        return self.reader.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self.reader.buffer_updated(nbytes)

    def eof_received(self) -> Any:
        self.reader.end()
        return super().eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self.reader.end(exc)
        super().connection_lost(exc)


class Connection(conn.AIOKafkaConnection):  # type: ignore[misc]
    """aiokafka's, which reads from its protocol's Reader."""

    def _create_reader_task(self) -> Any:
        """The first that it does with its reader."""
        self._reader = self._protocol.reader
        return super()._create_reader_task()


def install() -> None:
    """Make all connections of this process receive in place; where aiokafka is another they stay as they are."""
    if aiokafka.__version__ in KNOWN:
        conn.AIOKafkaProtocol, conn.AIOKafkaConnection = Protocol, Connection
    else:
        log.warning("aiokafka %s reads its own way, which takes more CPU", aiokafka.__version__)
