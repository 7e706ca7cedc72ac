"""The TLS handshakes of a port: only some are in progress, and the others wait for a place."""

import asyncio
import socket
import ssl
from asyncio import sslproto
from contextlib import ExitStack, suppress

import pytest
import trustme

from hubbub.http import handshakes, listener, port_protocol
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


async def fill(stack, shares, number, networks):
    """Open twice as many connections as there are handshakes, from these networks, and return them."""
    strangers = []
    for index in range(2 * LIMIT):
        strangers.append(await connect(stack, number, f"127.1.{index % networks}.1", HELLO))
        while shares.handshakes.shares.held < min(LIMIT, index + 1):  # noqa: ASYNC110 - no event
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
def test_handshakes_give_way_to_those_of_networks_that_used_less(networks, drips, monkeypatch):
    """If there are more networks than places, each has one at most. Then the time in the last seconds decides."""
    monkeypatch.setattr(handshakes, "HANDSHAKES", LIMIT)
    monkeypatch.setattr(handshakes, "MARGIN", 0.1)

    async def run():
        shares = PortShares()
        with ExitStack() as stack:
            async with with_tls(shares) as (_, number):
                strangers = await fill(stack, shares, number, networks)
                task = asyncio.create_task(drip(strangers if drips else []))
                for source in ("127.2.0.1", "127.2.1.1"):
                    assert (await ask(number, source)).startswith(b"HTTP/1.1 200 ")
                assert shares.handshakes.shares.held <= LIMIT
                task.cancel()

    asyncio.run(run())


def test_many_handshakes_of_one_network_lose_no_place_to_networks_that_used_more(monkeypatch):
    """An honest network with several handshakes at a time keeps them, because strangers used far more time."""
    monkeypatch.setattr(handshakes, "HANDSHAKES", LIMIT)
    monkeypatch.setattr(handshakes, "MARGIN", 0.1)

    async def run():
        shares = PortShares()
        with ExitStack() as stack:
            async with with_tls(shares) as (_, number):
                await fill(stack, shares, number, 2 * LIMIT)
                answers = await asyncio.gather(*(ask(number, "127.2.0.1") for _ in range(LIMIT)))
                assert all(answer.startswith(b"HTTP/1.1 200 ") for answer in answers)

    asyncio.run(run())


def test_within_one_address_a_handshake_that_lags_gives_way(monkeypatch):
    monkeypatch.setattr(handshakes, "HANDSHAKES", LIMIT)
    monkeypatch.setattr(handshakes, "GRACE", 0.1)

    async def run():
        shares = PortShares()
        with ExitStack() as stack:
            async with with_tls(shares) as (_, number):
                await fill(stack, shares, number, 1)
                assert (await ask(number, "127.1.0.1")).startswith(b"HTTP/1.1 200 ")

    asyncio.run(run())


def test_a_client_without_a_whole_hello_has_no_handshake_in_progress():
    async def run():
        shares = PortShares()
        with ExitStack() as stack:
            async with with_tls(shares) as (_, number):
                for start in (b"", HALF_HANDSHAKE, HELLO[:-1]):
                    await connect(stack, number, "127.1.0.1", start)
                await connect(stack, number, "127.1.0.1", HELLO)
                while shares.open < 4 or not shares.handshakes.shares.held:  # noqa: ASYNC110 - no event
                    await asyncio.sleep(0)
                assert (await ask(number, "127.1.0.1")).startswith(b"HTTP/1.1 200 ")
                assert shares.handshakes.shares.held == 1

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
