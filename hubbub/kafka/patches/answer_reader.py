"""A reader of Kafka's answers that receives a long answer in one place. The records of a fetch stay there.

aiokafka reads with asyncio's StreamReader, which copies each byte twice more and allocates new memory each time. In
addition, aiokafka copies the records of each partition out of the answer.
"""

import asyncio
import io
from typing import Any

import aiokafka
import numpy as np
from aiokafka import conn
from aiokafka.consumer import fetcher
from aiokafka.protocol.fetch import FetchRequest

from hubbub.fast_paths import note
from hubbub.kafka.patches.bounded_batches import FetchedBatches

TESTED_VERSIONS = frozenset({"0.14.0"})
"""The versions of aiokafka that this module was tested with."""
SHORT = 1 << 16
"""Bytes of the longest answer that is read from the common buffer. The buffer has twice this size."""
PART = 64 << 20
"""The maximum number of bytes to reserve in advance, even if an answer announces more. Memory comes with the bytes."""


class AnswerReader:
    """The received bytes of a connection, with the methods and errors of a StreamReader that aiokafka uses."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._transport: Any = None
        self._buffer = memoryview(bytearray(2 * SHORT))
        """The common buffer. The unread bytes are between `_start` and `_end`."""
        self._start = 0
        self._end = 0

        self._parts: list[memoryview] = []
        """The received parts of a long answer. The last part may have room for more bytes."""
        self._room = memoryview(b"")
        """The free rest of the last part."""
        self._missing = 0
        """Bytes of the long answer that are not received yet."""

        self._waiter: asyncio.Future[None] | None = None
        self._paused = False
        self._ended = False
        self._error: BaseException | None = None

    def set_transport(self, transport: Any) -> None:
        self._transport = transport

    def at_eof(self) -> bool:
        """Whether the connection has ended and all bytes are read."""
        return self._ended and self._start == self._end and not self._parts

    async def readexactly(self, count: int) -> bytes | memoryview:
        """Return the next `count` bytes. If the connection ends earlier, raise IncompleteReadError.

        A long answer is a view of the memory in which it was received.
        """
        if count < 0:
            raise ValueError("readexactly size can not be less than zero")
        if self._error is not None:
            raise self._error

        if count > max(SHORT, self._end - self._start):
            return await self._read_long(count)

        while self._end - self._start < count:
            if self._is_over:
                raise self._cut_off(self._consume(self._end - self._start), count)
            self._make_room()
            await self._wait()
        return self._consume(count)

    async def _read_long(self, count: int) -> bytes | memoryview:
        beginning = self._consume(self._end - self._start)
        self._missing = count
        try:
            self._reserve()
            self._room[: len(beginning)] = beginning
            self._room = self._room[len(beginning) :]
            self._missing = count - len(beginning)
            while self._missing and not self._is_over:
                await self._wait()

            missing = self._missing
            # One part needs no copy. Most answers have one, because a fetch is smaller than a part.
            answer = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        finally:
            # A cancelled read must not leave room behind, or the next answer would go there.
            self._parts = []
            self._room = memoryview(b"")
            self._missing = 0

        if missing:
            raise self._cut_off(bytes(answer[: count - missing]), count)
        return answer

    def _reserve(self) -> None:
        """Add a part for the missing bytes."""
        self._room = np.empty(min(self._missing, PART), np.uint8).data
        self._parts.append(self._room)

    @property
    def _is_over(self) -> bool:
        return self._ended or self._error is not None

    def _cut_off(self, partial: bytes, count: int) -> BaseException:
        return self._error or asyncio.IncompleteReadError(partial, count)

    def _consume(self, count: int) -> bytes:
        end = self._start + count
        data = bytes(self._buffer[self._start : end])
        self._start = end
        # An empty buffer starts again at 0, so that short answers move no bytes.
        if self._start == self._end:
            self._start = 0
            self._end = 0
        return data

    def _make_room(self) -> None:
        """Move the unread bytes to the beginning of the buffer."""
        unread = bytes(self._buffer[self._start : self._end])
        self._start = 0
        self._end = len(unread)
        self._buffer[: self._end] = unread

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
        """Return the memory for the next bytes."""
        if not self._missing:
            return self._buffer[self._end :]
        if not len(self._room):
            self._reserve()
        return self._room

    def buffer_updated(self, count: int) -> None:
        """Note that so many bytes were received into the memory of `get_buffer`."""
        if self._missing:
            self._missing -= count
            self._room = self._room[count:]
            if self._missing:
                return
        else:
            self._end += count
            # asyncio ends a connection whose buffer has no room left, so reading pauses earlier.
            if self._end > SHORT and not self._paused:
                self._paused = True
                self._transport.pause_reading()
        self._wake()

    def end(self, error: BaseException | None = None) -> None:
        """Note the end of the connection. `error` is None if the other side closed it."""
        if error is None:
            self._ended = True
        else:
            self._error = error
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class ReceivingProtocol(conn.AIOKafkaProtocol, asyncio.BufferedProtocol):  # type: ignore[misc] # aiokafka is untyped
    """A protocol of aiokafka that passes the bytes to an AnswerReader, and to the StreamReader only the end."""

    def __init__(self, *arguments: Any, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(*arguments, loop=loop)
        self.reader = AnswerReader(loop)

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.reader.set_transport(transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        del sizehint  # the reader knows the size of the answer
        return self.reader.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self.reader.buffer_updated(nbytes)

    def eof_received(self) -> Any:
        self.reader.end()
        return super().eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self.reader.end(exc)
        super().connection_lost(exc)


class FetchStream:
    """A stream of the answer to a fetch, as aiokafka decodes it. Long fields are views, which keep the whole answer."""

    def __init__(self, answer: memoryview) -> None:
        self._rest = answer

    def read(self, count: int) -> bytes | memoryview:
        data = self._rest[:count]
        self._rest = self._rest[count:]
        # aiokafka decodes short fields as texts and numbers, which need bytes.
        return data if count > SHORT else data.tobytes()


class Streams:
    """The part of the module io that aiokafka's connections use."""

    @staticmethod
    def BytesIO(answer: bytes | memoryview) -> io.BytesIO | FetchStream:
        return FetchStream(answer) if isinstance(answer, memoryview) else io.BytesIO(answer)


class ReceivingConnection(conn.AIOKafkaConnection):  # type: ignore[misc]
    """A connection of aiokafka that reads from the AnswerReader of its protocol."""

    def _handle_frame(self, answer: bytes | memoryview) -> None:
        """Copy a long answer, except that to a fetch, because only `FetchedBatches` reads views."""
        _, request, _ = self._requests[0]
        is_fetch = getattr(request, "API_KEY", None) == FetchRequest.API_KEY
        if isinstance(answer, memoryview) and not (is_fetch and fetcher.MemoryRecords is FetchedBatches):
            answer = answer.tobytes()
        super()._handle_frame(answer)

    def _create_reader_task(self) -> Any:
        """Replace the reader before its first use."""
        self._reader = self._protocol.reader
        return super()._create_reader_task()


def install() -> None:
    """Make all connections of this process use an AnswerReader, if this version of aiokafka was tested with it."""
    fits = aiokafka.__version__ in TESTED_VERSIONS
    note("answers", on=fits, reason=f"aiokafka {aiokafka.__version__} is not tested with the reader of answers")
    if fits:
        conn.AIOKafkaProtocol = ReceivingProtocol
        conn.AIOKafkaConnection = ReceivingConnection
        conn.io = Streams
