"""Honest phones on the slowest uplink of GPRS, beside an attack: 1,000 bytes a second, with a round trip of 2 s.

A relay makes the network. It takes 100 bytes in each tenth of a second, and passes them on a second later.
"""

import asyncio
import socket
import ssl
from contextlib import asynccontextmanager

import pytest

from tests.hostile.attacks import HONEST, HOST, Attack, hold
from tests.hostile.trial import port

PLACES, ATTACKERS = 100, 150
STEP = 0.1
"""Seconds between two pieces."""
PIECE = 100
"""Bytes of a piece, so 1,000 bytes a second."""
DELAY = 1.0
"""Seconds of one way."""
BUFFER = 2_304
"""Bytes of the relay's receive buffers, the least that Linux allows, so that the port sees how slow the phone reads."""


async def _pump(reader, writer):
    """Pass bytes on, slowly and later."""
    loop = asyncio.get_running_loop()
    while piece := await reader.read(PIECE):
        loop.call_later(DELAY, writer.write, piece)
        await asyncio.sleep(STEP)
    await asyncio.sleep(DELAY)
    writer.close()


@asynccontextmanager
async def slow_network(number, source):
    """Yield the port of a relay to the port `number`. Its connections come from this address."""
    tasks = set()
    writers = []
    loop = asyncio.get_running_loop()

    async def relay(reader, writer):
        far = socket.socket()
        far.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
        far.bind((source, 0))
        far.setblocking(False)
        await loop.sock_connect(far, ("127.0.0.1", number))
        far_reader, far_writer = await asyncio.open_connection(sock=far, limit=PIECE)
        writers.extend((writer, far_writer))
        for pair in ((reader, far_writer), (far_reader, writer)):
            task = asyncio.create_task(_pump(*pair))
            tasks.add(task)

    server = await asyncio.start_server(relay, "127.0.0.1", 0, limit=PIECE)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for writer in writers:
            writer.transport.abort()
        await server.wait_closed()


async def _answer(number, request, context=None):
    """Return the first line of the answer to a phone's request."""
    async with slow_network(number, HONEST[0]) as relay:
        waits = {} if context is None else {"ssl_handshake_timeout": 60.0}
        reader, writer = await asyncio.open_connection("127.0.0.1", relay, ssl=context, **waits)
        try:
            writer.write(request)
            return await reader.readline()
        finally:
            writer.transport.abort()


def beside_an_attack(attack, request, context=None):
    """Return the first line of the answer to a phone, while attackers hold more connections than there are places."""

    async def run(number):
        starts = asyncio.Semaphore(0)
        tasks = [asyncio.create_task(hold(attack, number, i, ATTACKERS, starts.release)) for i in range(ATTACKERS)]
        for _ in range(ATTACKERS):
            await starts.acquire()
        try:
            return await _answer(number, request, context)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    with port(attack.port, PLACES) as (_, number):
        return asyncio.run(run(number))


def report(size):
    """Return a request with a body of `size` bytes. The port answers 400 when it has the whole body."""
    head = b"POST /v1/reports" + HOST + b"Content-Type: application/vnd.hubbub.frames\r\nContent-Length: %d\r\n\r\n"
    return head % size + bytes(size)


@pytest.mark.xdist_group("hostile")
@pytest.mark.parametrize("size", [450, pytest.param(40_000, marks=pytest.mark.long)])
def test_a_slow_phone_sends_a_report_or_its_offline_queue(size):
    """40 kB take 40 s. A body that does not progress would get 408 after 10 s."""
    line = beside_an_attack(Attack("body by length", "nothing moves", "17 addresses"), report(size))
    assert line.startswith(b"HTTP/1.1 400 ")


@pytest.mark.xdist_group("hostile")
def test_a_slow_phone_completes_a_handshake():
    """It takes several round trips."""
    context = ssl._create_unverified_context()  # noqa: S323 - the port is its own
    request = b"GET /v1/queries" + HOST + b"Connection: close\r\n\r\n"
    line = beside_an_attack(Attack("handshake", "nothing moves", "17 addresses"), request, context)
    assert line.startswith(b"HTTP/1.1 200 ")
