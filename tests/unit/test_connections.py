"""The limits of a port's connections: which is closed for a newcomer, and real ports that strangers crowd."""

import asyncio
import resource
import socket
import ssl
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, suppress
from functools import partial

import pytest
import trustme
from aiohttp import ClientSession, TCPConnector, web

from aggregator.board.server.events import LISTENERS, Events
from hubbub.http import listener, server
from hubbub.http.addresses import networks
from hubbub.http.connections import CONNECTIONS, EACH, ConnectionLimits, ConnectionState
from hubbub.http.problem import Problem
from tests.unit.test_ports_hostile import PORTS

HALF_HEADER = b"GET / HTTP/1.1\r\nHo"
HALF_HANDSHAKE = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03hubbub!"
"""The beginning of a ClientHello."""


class Crowd:
    """Connections within limits, by a name, and the names of those that were closed."""

    def __init__(self, **limits):
        self.limits = ConnectionLimits(**limits)
        self.closed, self.places = [], {}

    def come(self, name, peer="192.0.2.1"):
        self.places[name] = self.limits.admit(peer, lambda: self.closed.append(name))
        return self.places[name] is not None

    def go(self, name, *states):
        for state in states:
            self.places[name].move(state)


def test_the_oldest_without_a_header_is_closed_first_and_then_the_longest_idle():
    crowd = Crowd(each=4)
    for name in "abcd":
        assert crowd.come(name)
    crowd.go("a", ConnectionState.BUSY, ConnectionState.IDLE)
    crowd.go("c", ConnectionState.BUSY, ConnectionState.IDLE)
    crowd.go("a", ConnectionState.BUSY, ConnectionState.IDLE)  # so that c is idle for longer
    for name in "efgh":
        assert crowd.come(name)
        crowd.go(name, ConnectionState.BUSY)
    assert crowd.closed == ["b", "d", "c", "a"]
    assert not crowd.come("i")
    assert crowd.limits.open == 4
    assert crowd.limits.refused == 5
    crowd.go("f", ConnectionState.IDLE)
    assert crowd.come("i")
    assert crowd.closed[4:] == ["f"]


def test_one_address_takes_no_place_of_another():
    crowd = Crowd(most=10, each=4)
    assert all(crowd.come(f"honest {i}", f"192.0.2.{i}") for i in range(6))
    assert all(crowd.come(f"stranger {i}", "198.51.100.1") for i in range(100))
    assert [name for name in crowd.closed if name.startswith("honest")] == []
    assert crowd.limits.open == 10


def test_a_full_port_gives_up_the_oldest_without_a_header_whatever_its_address():
    crowd = Crowd(most=3, each=2)
    for i in range(3):
        crowd.come(i, f"192.0.2.{i}")
    crowd.go(0, ConnectionState.BUSY)
    assert crowd.come(3, "192.0.2.3")
    assert crowd.closed == [1]


def test_a_refused_newcomer_closes_nobody():
    """The address has room, but its wider network is full of requests."""
    crowd = Crowd(most=100, each=1)
    crowd.come("waiting", "192.0.2.1")
    for i in range(4):
        crowd.come(i, f"2001:db8:0:{i:x}::1")
        crowd.go(i, ConnectionState.BUSY)
    assert not crowd.come(4, "2001:db8:0:4::1")
    assert crowd.closed == []


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
        if crowd.come(index, peer):
            crowd.go(index, ConnectionState.BUSY)
    assert crowd.limits.open == places


def test_peers_that_are_trusted_proxies_have_no_limit_of_their_own():
    crowd = Crowd(most=50, each=2, exempt=networks("10.0.0.0/8, fd00::/8"))
    assert all(crowd.come(i, "10.1.2.3" if i % 2 else "fd00::1") for i in range(50))
    assert crowd.closed == []
    assert crowd.come(50, "10.1.2.3")
    assert crowd.closed == [0]


def test_connections_that_leave_make_room_and_are_forgotten():
    crowd = Crowd(each=2)
    for round_ in range(100):
        peer = f"2001:db8:{round_:x}::1"
        for name in range(2):
            assert crowd.come((round_, name), peer)
        for name in range(2):
            crowd.places[round_, name].leave()
            crowd.places[round_, name].leave()  # a second time does nothing
            crowd.go((round_, name), ConnectionState.IDLE)
    assert crowd.limits.open == 0
    assert crowd.closed == []
    assert len(crowd.limits._networks) == 0


def test_the_defaults_are_those_of_the_documentation():
    assert CONNECTIONS == 1_000
    assert EACH == 64
    assert ConnectionLimits()._each == EACH


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


def test_an_address_with_all_its_places_within_requests_is_refused_and_others_are_not():
    async def run():
        go = asyncio.Event()

        async def wait(_):
            await go.wait()
            return web.Response(text="done")

        app = web.Application()
        app.add_routes([web.get("/", wait)])
        limits = ConnectionLimits(each=3)
        request = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
        async with server.serving(app, "127.0.0.1", 0, drain=1.0, limits=limits) as (host, port):

            async def ask(source):
                reader, writer = await asyncio.open_connection(host, port, local_addr=(source, 0))
                try:
                    writer.write(request)
                    return b"200" in await reader.read()
                except ConnectionError:
                    return False
                finally:
                    writer.close()

            waiting = [asyncio.create_task(ask("127.0.0.1")) for _ in range(3)]
            await until(lambda: len(limits._port._members[ConnectionState.BUSY]) == 3)
            assert not await ask("127.0.0.1")
            waiting.append(asyncio.create_task(ask("127.0.0.2")))
            await until(lambda: len(limits._port._members[ConnectionState.BUSY]) == 4)
            go.set()
            assert await asyncio.gather(*waiting) == [True] * 4
        assert limits.open == 0

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


def test_one_address_has_a_tenth_of_the_places_for_listeners():
    events = Events(networks("10.0.0.0/8"))
    with ExitStack() as stack:
        for _ in range(LISTENERS // 10):
            stack.enter_context(events.join("192.0.2.1"))
        with pytest.raises(Problem, match="This address") as refusal, events.join("192.0.2.1"):
            pass
        assert refusal.value.status == 429
        stack.enter_context(events.join("192.0.2.2"))
        for _ in range(LISTENERS - LISTENERS // 10 - 1):
            stack.enter_context(events.join("10.1.2.3"))
        with pytest.raises(Problem) as refusal, events.join("192.0.2.3"):
            pass
        assert refusal.value.status == 503
    with events.join("192.0.2.1"):
        pass
    assert not events._places
    assert not events._queues


def test_a_board_s_listeners_of_one_address_leave_room_for_others():
    async def run():
        async with PORTS["board"]() as (host, port), AsyncExitStack() as stack:

            async def listen(source):
                connector = TCPConnector(local_addr=(source, 0))
                session = await stack.enter_async_context(ClientSession(connector=connector))
                answer = await session.get(f"http://{host}:{port}/api/v1/events")
                stack.callback(answer.close)
                return answer.status

            crowd = [await listen("127.0.0.1") for _ in range(LISTENERS // 10 + 5)]
            assert crowd == [200] * (LISTENERS // 10) + [429] * 5
            assert await listen("127.0.0.2") == 200

    asyncio.run(run())
