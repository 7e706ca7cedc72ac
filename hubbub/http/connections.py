"""The open connections of a port, with the progress that the other side of each owes."""

import asyncio
import socket
import struct
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from enum import Enum, auto

from hubbub.http.fair_shares import CallerPath, FairShares
from hubbub.http.share_groups import Holder

try:
    import fcntl
    import termios
except ImportError:  # Windows has neither, and there only the bytes in the process count
    OUTQ = INQ = None
else:
    OUTQ = termios.TIOCOUTQ
    """The request for the bytes in a send queue that the other side has not acknowledged."""
    INQ = termios.FIONREAD
    """The request for the bytes in a receive queue that the process has not read."""

_TCP_INFO = getattr(socket, "TCP_INFO", -1)
_COUNTS = struct.Struct("=QQ")
"""The bytes that were acknowledged and received, in `struct tcp_info` of Linux."""
_COUNTS_OFFSET = 120


class ConnectionState(Enum):
    HANDSHAKE = auto()
    """The other side owes its part of a TLS handshake."""
    HEADER = auto()
    """The other side owes the rest of a header."""
    BODY = auto()
    """The other side owes the rest of a body."""
    WORK = auto()
    """The process works for a request. The other side owes the reading of an answer, if one has begun."""
    IDLE = auto()
    """The other side owes the reading of the last answer, then the next request."""


class Connection:
    """An open connection, which holds a place of its port."""

    def __init__(
        self, client: socket.socket, path: CallerPath, answers: FairShares, ends: Counter[str], *, is_proxy: bool
    ) -> None:
        self.path = path
        """The path of the peer or, behind a trusted proxy and within a request, that of the client."""
        self.is_proxy = is_proxy
        self.transport: asyncio.Transport | None = None
        self.state = ConnectionState.HEADER
        self.place: Holder | None = None
        self.read_bytes = 0
        """Bytes of the other side that the process has read."""
        self.unpaid_seconds = 0.0
        """Seconds of CPU that are not charged yet. They are below 0 if more is charged than was used."""
        self.handshake: Holder | None = None
        """The place among the handshakes in progress, until the hello is answered."""
        self.on_close: Callable[[], object] | None = None
        """Ends the wait for a handshake, before there is a transport."""
        self.on_slow: Callable[[], None] | None = None
        """Refuses the body that does not arrive, instead of closing the connection."""

        self.parts: set[Holder] = set()
        """What the connection holds of other things. These holders lag as the connection does."""

        self._client = client
        self._answers = answers
        self._ends = ends
        self._answer: Holder | None = None
        """The unsent bytes of this connection, if it has any."""
        self._sent_bytes = 0
        self._received_bytes = 0
        self._owes_reading = False

    def enter(self, state: ConnectionState, now: float) -> None:
        """Begin a state with a new debt of the other side. Work is no debt."""
        self.state = state
        self._owes_reading = False
        place = self.place
        if place is None:
            return
        if state is ConnectionState.WORK:
            place.rest()
        else:
            place.owe(now)

    def give_way(self) -> None:
        self._ends["full"] += 1
        self.close()

    def close(self) -> None:
        """End the connection at once. An orderly end would wait for the other side again."""
        self.leave_answers()
        if self.transport is not None:
            self.transport.abort()
            return
        if self.on_close is not None:
            self.on_close()
            return
        with suppress(OSError):  # the client may be gone already
            self._client.shutdown(socket.SHUT_RDWR)

    @property
    def unsent(self) -> int:
        """The bytes that the other side's system has not acknowledged."""
        size = 0 if self.transport is None else self.transport.get_write_buffer_size()
        return size + self._queue(OUTQ)

    @property
    def unread(self) -> int:
        """The bytes that the system has received and the process has not read."""
        return self._queue(INQ)

    def hold_answer(self, size: int = 0) -> bool:
        """Count the unsent bytes and so many more. Return False if there is no room, and the connection must end."""
        total = self.unsent + size
        if self._answer is None:
            if not total:
                return True
            self._answer = self._answers.enter(self.path, total, self.give_way)
            if self._answer is None:
                return False
            self.parts.add(self._answer)
            return True

        growth = total - self._answer.size
        if growth > 0:
            return self._answers.grow(self._answer, growth)
        self._answers.shrink(self._answer, -growth)
        if not total:
            self.leave_answers()
        return True

    def leave_answers(self) -> None:
        if self._answer is not None:
            self._answers.leave(self._answer)
            self.parts.discard(self._answer)
            self._answer = None

    def look(self, now: float) -> float:
        """Count the bytes that have moved since the last look, and return the lag."""
        place = self.place
        if place is None:
            return 0.0
        sent_bytes, received_bytes = self._moved()
        state = self.state

        if state is ConnectionState.HANDSHAKE:
            place.progress(sent_bytes + received_bytes, now)
        elif state in (ConnectionState.HEADER, ConnectionState.BODY):
            place.progress(received_bytes, now)
        elif self.unsent:
            if not self._owes_reading and state is ConnectionState.WORK:
                place.owe(now)
            self._owes_reading = True
            place.progress(sent_bytes, now)
        else:
            self._end_reading(now)
        for part in self.parts:
            part.follow(place)
        return place.lag(now)

    def _end_reading(self, now: float) -> None:
        """Begin the debt of the next request, if the last answer was still being read."""
        if self._owes_reading and self.place is not None:
            self.enter(self.state, now)

    def _queue(self, request: int | None) -> int:
        """Return the bytes in a queue of the system, or 0 if the connection is closed or the system cannot tell."""
        if request is None:
            return 0
        try:
            queue = fcntl.ioctl(self._client, request, b"\0\0\0\0")
        except (OSError, ValueError):
            return 0
        return int.from_bytes(queue, "little")

    def _moved(self) -> tuple[int, int]:
        """Return the bytes that were acknowledged and received since the last call."""
        earlier = self._sent_bytes, self._received_bytes
        try:
            info = self._client.getsockopt(socket.IPPROTO_TCP, _TCP_INFO, _COUNTS_OFFSET + _COUNTS.size)
            self._sent_bytes, self._received_bytes = _COUNTS.unpack_from(info, _COUNTS_OFFSET)
        except (OSError, struct.error):  # closed, or a system without these counts
            self._received_bytes = self.read_bytes
            self._sent_bytes = -self.unsent
        return max(0, self._sent_bytes - earlier[0]), max(0, self._received_bytes - earlier[1])
