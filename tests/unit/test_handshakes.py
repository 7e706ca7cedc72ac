"""The TLS handshakes of a port: only some are in progress, and a silent client holds none of their places."""

import asyncio
import socket
import ssl
from asyncio import sslproto
from contextlib import ExitStack, suppress
from types import SimpleNamespace

import pytest
import trustme

from hubbub.http import handshakes, listener, port_protocol, port_shares
from hubbub.http.connections import ConnectionState
from hubbub.http.port_shares import PortShares
from tests.hostile.attacks import whole_hello
from tests.unit.test_connections import HALF_HANDSHAKE
from tests.unit.test_ports_hostile import gateway

LIMIT = 4
HELLO = whole_hello()


def with_tls(shares):
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    return gateway(shares, context)


async def ask(number, source):
    """Return the first line of an answer over TLS."""
    context = ssl._create_unverified_context()  # noqa: S323 - its own port
    reader, writer = await asyncio.open_connection("127.0.0.1", number, ssl=context, local_addr=(source, 0))
    try:
        writer.write(b"GET /v1/queries HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        return await reader.readline()
    finally:
        writer.transport.abort()


async def connect(stack, number, source, start):
    loop = asyncio.get_running_loop()
    stranger = stack.enter_context(socket.socket())
    stranger.setblocking(False)
    stranger.bind((source, 0))
    await loop.sock_connect(stranger, ("127.0.0.1", number))
    await loop.sock_sendall(stranger, start)
    return stranger


def is_silent(connection):
    """Whether the port has answered the hello. Before a hello is whole, its end would stop the wait for it."""
    return connection.state is ConnectionState.HANDSHAKE and connection.on_close is None


async def silence(stack, shares, number, networks):
    """Open twice as many silent connections as there are handshakes. Each owes its next message."""
    sources = [f"127.1.{index % networks}.1" for index in range(2 * LIMIT)]
    strangers = [await connect(stack, number, source, HELLO) for source in sources]
    while len(strangers) > sum(map(is_silent, shares._connections)):  # noqa: ASYNC110 - no event
        await asyncio.sleep(0)
    return strangers


async def drip(strangers):
    """Send a long record piece by piece. Its bytes are progress, although they end no handshake."""
    loop = asyncio.get_running_loop()
    piece = b"\x17\x03\x03\x40\x00"
    while True:
        for stranger in strangers:
            with suppress(OSError):
                await loop.sock_sendall(stranger, piece)
        piece = bytes(100)
        await asyncio.sleep(0.05)


@pytest.mark.parametrize("drips", [False, True])
@pytest.mark.parametrize("networks", [1, 2 * LIMIT])
def test_no_handshake_waits_for_silent_ones_of_many_networks(networks, drips, monkeypatch):
    """Time stands still, as when an attack begins: nobody has used more of it, and no client is slow yet."""
    monkeypatch.setattr(handshakes, "HANDSHAKES", LIMIT)
    monkeypatch.setattr(handshakes, "time", SimpleNamespace(monotonic=lambda: 1.0))

    async def run():
        shares = PortShares()
        with ExitStack() as stack:
            async with with_tls(shares) as (_, number):
                strangers = await silence(stack, shares, number, networks)
                task = asyncio.create_task(drip(strangers if drips else []))
                sources = ["127.1.0.1", "127.2.0.1", *LIMIT * ["127.2.1.1"]]
                answers = await asyncio.gather(*(ask(number, source) for source in sources))
                assert all(answer.startswith(b"HTTP/1.1 200 ") for answer in answers)
                assert shares.ends.total() == 0
                assert shares.handshakes.shares.held == 0
                task.cancel()

    asyncio.run(run())


def test_a_silent_handshake_ends_by_its_lag(monkeypatch):
    monkeypatch.setattr(handshakes, "HANDSHAKES", LIMIT)
    monkeypatch.setattr(port_shares, "PATIENCE", 0.1)

    async def run():
        shares = PortShares()
        with ExitStack() as stack:
            async with with_tls(shares) as (_, number):
                await connect(stack, number, "127.1.0.1", HELLO)
                while not shares.ends["slow"]:  # noqa: ASYNC110 - no event
                    await asyncio.sleep(0)
                assert shares.ends.total() == 1

    asyncio.run(run())


def test_a_handshake_waits_while_others_have_no_answer(monkeypatch):
    """TLS answers a hello when it takes it. Here the test takes it."""
    monkeypatch.setattr(handshakes, "HANDSHAKES", 1)

    async def run():
        shares = PortShares()
        with ExitStack() as stack:
            pairs = [[stack.enter_context(end) for end in socket.socketpair()] for _ in range(2)]
            for client, _ in pairs:
                client.sendall(HELLO)
            first, second = (shares.admit(server, "127.1.0.1", has_tls=True) for _, server in pairs)
            await shares.handshakes.begin(first)
            task = asyncio.create_task(shares.handshakes.begin(second))
            for _ in range(10):
                await asyncio.sleep(handshakes.LOOK)
            assert first.state is ConnectionState.WORK
            assert second.handshake is None

            pairs[0][1].recv(len(HELLO))
            await task
            assert first.state is ConnectionState.HANDSHAKE
            assert second.handshake is not None
            shares.leave(second)
            assert shares.handshakes.shares.held == 0

    asyncio.run(run())


def test_a_client_without_a_whole_hello_has_no_handshake_in_progress():
    async def run():
        shares = PortShares()
        with ExitStack() as stack:
            async with with_tls(shares) as (_, number):
                for start in (b"", HALF_HANDSHAKE, HELLO[:-1]):
                    await connect(stack, number, "127.1.0.1", start)
                assert (await ask(number, "127.1.0.1")).startswith(b"HTTP/1.1 200 ")
                waiting = [connection for connection in shares._connections if connection.on_close is not None]
                assert len(waiting) == 3

    asyncio.run(run())


def test_many_handshakes_of_one_office_wait_and_all_are_served(monkeypatch):
    monkeypatch.setattr(handshakes, "HANDSHAKES", LIMIT)

    async def run():
        shares = PortShares()
        async with with_tls(shares) as (_, number):
            answers = await asyncio.gather(*(ask(number, "127.3.0.1") for _ in range(10 * LIMIT)))
            assert all(answer.startswith(b"HTTP/1.1 200 ") for answer in answers)
            assert shares.ends.total() == 0
            assert shares.handshakes.shares.held == 0

    asyncio.run(run())


def test_a_connection_that_gives_way_waits_no_longer(monkeypatch):
    """The port is full of connections that wait for a handshake. The ones that give way are closed."""
    monkeypatch.setattr(handshakes, "HANDSHAKES", 1)

    async def run():
        shares = PortShares(3)
        strangers = []
        async with with_tls(shares) as (_, number):
            strangers = [
                await asyncio.open_connection("127.0.0.1", number, local_addr=("127.0.1.1", 0)) for _ in range(3)
            ]
            while shares.open < 3:  # noqa: ASYNC110 - no event
                await asyncio.sleep(0)
            assert (await ask(number, "127.2.0.1")).startswith(b"HTTP/1.1 200 ")
            ends = [asyncio.create_task(reader.read()) for reader, _ in strangers]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            for _, writer in strangers:
                writer.transport.abort()
            await asyncio.gather(*ends, return_exceptions=True)

    asyncio.run(run())


def test_a_tls_connection_has_small_buffers():
    """The defaults of asyncio and aiohttp, 256 KiB and 64 KiB, filled the memory of a container."""

    async def run():
        shares = PortShares()
        async with with_tls(shares) as (_, number):
            context = ssl._create_unverified_context()  # noqa: S323 - its own port
            _, writer = await asyncio.open_connection("127.0.0.1", number, ssl=context)
            [connection] = shares._connections
            while connection.transport is None:  # noqa: ASYNC110 - no event
                await asyncio.sleep(0)
            assert connection.transport.get_read_buffer_limits()[1] == port_protocol.UNREAD
            assert sslproto.SSLProtocol.max_size == listener.TLS_BUFFER
            writer.transport.abort()

    asyncio.run(run())
