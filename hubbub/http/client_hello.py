"""The first record of a TLS client. Only when it is whole does a handshake begin, which costs memory."""

import asyncio
import socket

HEAD = 5
"""Bytes before a record: its kind, its version and its length."""
_HANDSHAKE = 22
_LONGEST = 16 << 10
_LEAST_READABLE = getattr(socket, "SO_RCVLOWAT", None)


async def wait_for_hello(client: socket.socket) -> None:
    """Wait until the first record of a client is whole, without reading it. Raise ConnectionError if it is gone."""
    if _LEAST_READABLE is None:  # Windows cannot wait for so many bytes
        return
    try:
        await _wait_for_bytes(client, HEAD, _LEAST_READABLE)
        head = client.recv(HEAD, socket.MSG_PEEK)
        if not head:
            raise ConnectionResetError("the client sent no hello")

        # TLS itself refuses anything else.
        if len(head) == HEAD and head[0] == _HANDSHAKE:
            length = min(int.from_bytes(head[3:]), _LONGEST)
            await _wait_for_bytes(client, HEAD + length, _LEAST_READABLE)
    finally:
        if client.fileno() >= 0:
            client.setsockopt(socket.SOL_SOCKET, _LEAST_READABLE, 1)


async def _wait_for_bytes(client: socket.socket, size: int, option: int) -> None:
    """Wait until the system has received so many bytes, or the end of them."""
    loop = asyncio.get_running_loop()
    arrival = loop.create_future()

    def wake() -> None:
        if not arrival.done():
            arrival.set_result(None)

    client.setsockopt(socket.SOL_SOCKET, option, size)
    loop.add_reader(client, wake)
    try:
        await arrival
    finally:
        loop.remove_reader(client)
