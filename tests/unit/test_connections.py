"""The places of a port: which connection gives way to a newcomer, and real ports that strangers crowd."""

import asyncio
import resource
import socket
import ssl
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, suppress
from functools import partial
from math import inf

import orjson
import pytest
import trustme
from aiohttp import ClientSession, TCPConnector, web

from aggregator.board.server.events import LISTENERS, Events
from hubbub.http import listener, server
from hubbub.http.addresses import networks
from hubbub.http.connections import ConnectionState
from hubbub.http.port_shares import CONNECTIONS, PortShares
from hubbub.http.problem import Problem
from tests.unit.test_ports_hostile import PORTS

OFFICE = ("198.51.100.0/24", "198.51.100.1")
HALF_HEADER = b"GET / HTTP/1.1\r\nHo"
HALF_HANDSHAKE = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03hubbub!"
"""The beginning of a ClientHello."""


class Crowd:
    """Connections of a port, by a name. Their socket is closed."""

    def __init__(self, *limits, **more):
        self.shares = PortShares(*limits, **more)
        self.connections = {}
        with socket.socket() as self.client:
            pass

    def come(self, name, peer="192.0.2.1"):
        self.connections[name] = self.shares.admit(self.client, peer)
        return self.connections[name] is not None

    @property
    def closed(self):
        return [name for name, one in self.connections.items() if one is not None and not one.place.is_held]


def test_one_network_takes_no_place_of_another():
    crowd = Crowd(10)
    assert all(crowd.come(f"honest {i}", f"192.0.2.{i}") for i in range(5))
    for i in range(100):
        crowd.come(f"stranger {i}", "198.51.100.1")
    assert [name for name in crowd.closed if name.startswith("honest")] == []
    assert crowd.shares.open == 10
    assert crowd.shares.refused == 95


def test_a_connection_within_a_request_gives_way_like_any_other():
    crowd = Crowd(10)
    for i in range(10):
        crowd.come(i)
        crowd.connections[i].enter(ConnectionState.WORK, 0.0)
    assert crowd.come("honest", "198.51.100.1")
    assert crowd.closed == [0]


@pytest.mark.parametrize(
    ("peers", "places"),
    [
        ([f"2001:db8::{i:x}" for i in range(1, 100)], 2),
        ([f"2001:db8:0:{i:x}::1" for i in range(100)], 8),
        ([f"2001:db8:0:{i:x}00::1" for i in range(100)], 32),
        ([f"2001:db8:{i:x}::1" for i in range(100)], 100),
        ([f"::ffff:192.0.2.{i % 2}" for i in range(100)], 4),
        (["127.0.0.1"] * 100, 2),
        (["::1"] * 100, 2),
    ],
    ids=["a /64", "a /56", "a /48", "many /48", "IPv4 within IPv6", "loopback", "loopback of IPv6"],
)
def test_a_network_has_the_places_of_its_length(peers, places):
    crowd = Crowd(each=2)
    for index, peer in enumerate(peers):
        crowd.come(index, peer)
    assert crowd.shares.open == places


def test_trusted_proxies_have_one_path_between_requests_and_that_of_the_client_within_them():
    crowd = Crowd(50, each=2, proxies=networks("10.0.0.0/8, fd00::/8"))
    assert all(crowd.come(i, "10.1.2.3" if i % 2 else "fd00::1") for i in range(50))
    assert crowd.shares.places.most == 50
    crowd.shares.move(crowd.connections[0], "192.0.2.1")
    assert crowd.connections[0].path == ("192.0.2.0/24", "192.0.2.1")
    assert crowd.shares.places.most == 49
    crowd.shares.move(crowd.connections[0], None)
    assert crowd.shares.places.most == 50
    assert crowd.closed == []


def test_connections_that_leave_make_room():
    crowd = Crowd(each=2)
    for round_ in range(100):
        peer = f"2001:db8:{round_:x}::1"
        for name in range(2):
            assert crowd.come((round_, name), peer)
        for name in range(2):
            crowd.shares.leave(crowd.connections[round_, name])
            crowd.shares.leave(crowd.connections[round_, name])  # a second time does nothing
    assert crowd.shares.open == 0
    assert crowd.shares.refused == 0


def test_the_defaults_are_those_of_the_documentation():
    assert CONNECTIONS == 1_000
    assert PortShares()._each == inf


async def until(holds):
    while not holds():  # noqa: ASYNC110 - it has no event
        await asyncio.sleep(0.01)


@asynccontextmanager
async def plain(port):
    async with PORTS[port]() as (host, number):
        yield host, number, "http", True, HALF_HEADER


@asynccontextmanager
async def secured():
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    trust = ssl.create_default_context()
    authority.configure_trust(trust)
    async with server.serving(web.Application(), "127.0.0.1", 0, drain=1.0, context=context) as (host, number):
        yield host, number, "https", trust, HALF_HANDSHAKE


PORTS_UNDER_ATTACK = {name: partial(plain, name) for name in ("board", "gateway", "worker")} | {"TLS": secured}
"""Open ports, with what a client needs and what a stranger sends before it waits."""
SOURCES = {"one address": ["127.0.0.1"], "many addresses": [f"127.0.1.{i}" for i in range(1, 31)]}


@pytest.mark.parametrize("port", PORTS_UNDER_ATTACK)
@pytest.mark.parametrize("sources", SOURCES)
def test_strangers_that_send_18_bytes_and_wait_keep_nobody_out(port, sources):
    """More come than the port has places. An honest client beside them gets every answer, at its first attempt."""

    async def run():
        loop = asyncio.get_running_loop()
        with ExitStack() as stack:
            async with PORTS_UNDER_ATTACK[port]() as (host, number, scheme, trust, half), ClientSession() as old:
                assert len(half) == 18
                for index in range(1_100):
                    stranger = stack.enter_context(socket.socket())
                    stranger.setblocking(False)
                    stranger.bind((SOURCES[sources][index % len(SOURCES[sources])], 0))
                    await loop.sock_connect(stranger, (host, number))
                    await loop.sock_sendall(stranger, half)
                    if index % 100 == 99:
                        async with ClientSession() as new:
                            for session in (new, old):
                                async with session.get(f"{scheme}://{host}:{number}/", ssl=trust) as answer:
                                    assert answer.status in (200, 404)

    asyncio.run(run())


def test_a_full_address_loses_a_request_to_another_address():
    """Its three requests wait for the process, so they do not lag, and its own newcomer is refused."""

    async def run():
        go = asyncio.Event()

        async def wait(_):
            await go.wait()
            return web.Response(text="done")

        app = web.Application()
        app.add_routes([web.get("/", wait)])
        shares = PortShares(3)
        request = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
        async with server.serving(app, "127.0.0.1", 0, drain=1.0, shares=shares) as (host, port):

            async def ask(source):
                reader, writer = await asyncio.open_connection(host, port, local_addr=(source, 0))
                try:
                    writer.write(request)
                    return b"200" in await reader.read()
                except ConnectionError:
                    return False
                finally:
                    writer.close()

            def working():
                return sum(one.state is ConnectionState.WORK for one in shares._connections)

            waiting = [asyncio.create_task(ask("127.0.0.1")) for _ in range(3)]
            await until(lambda: working() == 3)
            assert not await ask("127.0.0.1")
            waiting.append(asyncio.create_task(ask("127.0.1.1")))
            await until(lambda: shares.ends["full"] == 2 and working() == 3)
            go.set()
            assert sorted(await asyncio.gather(*waiting)) == [False, True, True, True]
            assert waiting[3].result()
        assert shares.open == 0

    asyncio.run(run())


def test_a_process_that_can_open_no_more_files_serves_again_when_it_can(monkeypatch, caplog):
    monkeypatch.setattr(listener, "PAUSE", 0.05)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

    async def run():
        async with PORTS["worker"]() as (host, port):
            with ExitStack() as stack:
                resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
                stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
                files = [stack.enter_context(socket.socket())]
                with suppress(OSError):
                    while True:
                        files.append(stack.enter_context(socket.socket()))
                files[0].close()
                reader, writer = await asyncio.open_connection(host, port)
                writer.write(b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
                await until(lambda: "Raise the limit of open files" in caplog.text)
            assert (await reader.read()).startswith(b"HTTP/1.1 200 ")
            writer.close()

    asyncio.run(run())


def test_300_pages_of_one_address_throw_nobody_out():
    """Each that is refused asks again, and no place changes hands."""
    events = Events()
    with ExitStack() as stack:
        queues = []
        for _ in range(3):
            for _ in range(300 - len(queues)):
                with suppress(Problem):
                    queues.append(stack.enter_context(events.join(OFFICE)))
        assert len(queues) == LISTENERS
        assert all(queue.empty() for queue in queues)
        with pytest.raises(Problem) as refusal, events.join(OFFICE):
            pass
        assert refusal.value.status == 503

        home = stack.enter_context(events.join(("192.0.2.0/24", "192.0.2.2")))
        assert home.empty()
        (departure,) = [queue for queue in queues if not queue.empty()]
        message = departure.get_nowait()
        assert message.startswith(b'event: full\ndata: {"retry":')
        assert 30 <= orjson.loads(message.partition(b"data: ")[2])["retry"] <= 90
        assert departure.get_nowait() is None
    assert events.places.held == 0
    assert not events._queues


def test_a_board_s_listeners_of_one_network_leave_room_for_others():
    async def run():
        async with PORTS["board"]() as (host, port), AsyncExitStack() as stack:

            async def listen(source):
                connector = TCPConnector(local_addr=(source, 0))
                session = await stack.enter_async_context(ClientSession(connector=connector))
                answer = await session.get(f"http://{host}:{port}/api/v1/events")
                stack.callback(answer.close)
                return answer

            crowd = [await listen("127.0.0.1") for _ in range(LISTENERS + 5)]
            assert [answer.status for answer in crowd] == [200] * LISTENERS + [503] * 5
            assert (await listen("127.0.1.2")).status == 200
            # The place of the one that gave way is the only one whose stream ends.
            texts = [asyncio.create_task(answer.content.readuntil(b"event: full\n")) for answer in crowd[:LISTENERS]]
            done, waiting = await asyncio.wait(texts, return_when=asyncio.FIRST_COMPLETED)
            for task in waiting:
                task.cancel()
            assert len(done) == 1

    asyncio.run(run())
