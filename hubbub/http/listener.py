"""The listening sockets of a port. Each connection holds a place from its first moment on."""

import asyncio
import errno
import logging
import socket
import ssl
from asyncio import sslproto
from collections.abc import Callable
from typing import Any

from hubbub.http.client_hello import wait_for_hello
from hubbub.http.connections import Connection
from hubbub.http.port_shares import PortShares
from oracles.errors import ParameterError

log = logging.getLogger(__name__)

BACKLOG = 1024
"""Connections that wait in the system."""
AT_ONCE = 16
"""Connections taken before the loop reads again, so that a client's header is read before many others have come."""
SEND_BUFFER = 48 << 10
"""Bytes that the kernel doubles and keeps for the answers of a connection. It would let them grow to megabytes."""
RECEIVE_BUFFER = 32 << 10
"""Bytes that the kernel doubles and keeps for what a connection receives. It would let them grow to megabytes."""
HANDSHAKE = 30.0
"""Seconds for a whole TLS handshake."""
TLS_BUFFER = 32 << 10
"""Bytes that asyncio takes for each TLS connection at once, which is two records. Its own 256 KiB filled the memory."""
PAUSE = 1.0
"""Seconds until the next attempt if the process can open no more files."""
_SHORTAGES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


def bind(host: str, port: int, option: str) -> list[socket.socket]:
    """Return a listening socket for every address of the host, all on one port. `option` is the port's option."""
    sockets: list[socket.socket] = []
    try:
        places = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, _, _, _, address in dict.fromkeys(places):
            # Port 0 gives each socket a port of its own, so all take the port of the first.
            number = sockets[0].getsockname()[1] if sockets else port
            place = (address[0], number, *address[2:])
            sockets.append(socket.create_server(place, family=family, backlog=BACKLOG))
    except OSError as error:
        for listening in sockets:
            listening.close()
        fault = f"{host}:{port} cannot be listened on: {error.strerror or error}"
        raise ParameterError(f"{fault}; name another {option}, or 0 for any free one") from error

    # A client can be gone before it is accepted. A blocking accept would then stop the event loop.
    for listening in sockets:
        listening.setblocking(False)
        # Its connections have the same sizes.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
    return sockets


class Listener:
    """The open sockets of a port, which give each connection to a protocol.

    TLS begins after a connection has its place. A server of asyncio would report it only after the handshake, so
    handshakes that never end would have no limit.
    """

    def __init__(
        self,
        sockets: list[socket.socket],
        shares: PortShares,
        protocol: Callable[[Connection], asyncio.Protocol],
        context: ssl.SSLContext | None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._sockets = sockets
        self._shares = shares
        self._protocol = protocol
        self._tls: dict[str, Any] = {"ssl": context, "ssl_handshake_timeout": HANDSHAKE} if context else {}
        if context is not None:
            # Each new connection of asyncio reads this. uvloop has a buffer of its own.
            sslproto.SSLProtocol.max_size = TLS_BUFFER
        self._starting: dict[asyncio.Task[None], Connection] = {}
        """The connections that have no transport yet."""
        for listening in sockets:
            self._loop.add_reader(listening, self._accept, listening)

    async def close(self) -> None:
        """Accept no more, and end the handshakes."""
        for listening in self._sockets:
            self._loop.remove_reader(listening)
            listening.close()
        for connection in self._starting.values():
            connection.close()
        await asyncio.gather(*self._starting, return_exceptions=True)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(AT_ONCE):
            try:
                client, address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _SHORTAGES:
                    raise
                self._pause(listening, error)
                return
            self._start(client, address[0])

    def _pause(self, listening: socket.socket, error: OSError) -> None:
        log.error("The port takes no connection for %s s: %s. Raise the limit of open files.", PAUSE, error.strerror)
        # A socket with waiting connections stays readable, so the loop would spin without a pause.
        self._loop.remove_reader(listening)
        self._loop.call_later(PAUSE, self._resume, listening)

    def _resume(self, listening: socket.socket) -> None:
        if listening.fileno() >= 0:
            self._loop.add_reader(listening, self._accept, listening)

    def _start(self, client: socket.socket, peer: str) -> None:
        client.setblocking(False)
        connection = self._shares.admit(client, peer, has_tls=bool(self._tls))
        if connection is None:
            client.close()
            return
        task = self._loop.create_task(self._greet(client, connection))
        self._starting[task] = connection
        task.add_done_callback(self._starting.pop)

    async def _greet(self, client: socket.socket, connection: Connection) -> None:
        """Give the connection a transport, after the handshake if there is TLS."""
        if self._tls and not await self._may_begin(client, connection):
            self._shares.leave(connection)
            client.close()
            return
        try:
            transport, _ = await self._loop.connect_accepted_socket(
                lambda: self._protocol(connection), client, **self._tls
            )
        except OSError:  # no handshake in time, or the client is gone
            self._shares.leave(connection)
            return
        if transport.is_closing():
            self._shares.leave(connection)

    async def _may_begin(self, client: socket.socket, connection: Connection) -> bool:
        """Wait until the handshake may begin, and return whether the connection is still there."""
        task = asyncio.current_task()
        connection.on_close = None if task is None else task.cancel
        try:
            await wait_for_hello(client)
            await self._shares.handshakes.begin(connection)
        except (OSError, asyncio.CancelledError):  # the client is gone, or it has given way, or the port closes
            return False
        finally:
            connection.on_close = None
        return True
