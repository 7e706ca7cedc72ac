"""A gateway's port without Kafka. The short path of reports gives the answers of the routes."""

import asyncio
from types import SimpleNamespace

import pytest
from aiohttp import ClientSession

from hubbub.http import server
from oracles.frame import encode
from producers.gateway.access.limits import Rates
from producers.gateway.intake.active_definitions import ServedDefinitions
from producers.gateway.openapi import ROUTES
from producers.gateway.server import Gateway, Rules
from tests.unit.test_gateway import AT, PANE, QUERIES, WEB, numbered

BODY = encode(WEB.digest, PANE, numbered(3))
BINARY = "Content-Type: application/vnd.hubbub.frames\r\n"
ORIGIN = "https://a.example"
HEADS = {
    "accepted": (BINARY, BODY),
    "closed": (BINARY + "Connection: close\r\n", BODY),
    "malformed": (BINARY, BODY[:-1]),
    "of another kind": ("Content-Type: text/plain\r\n", BODY),
    "of a page that may": (BINARY + f"Origin: {ORIGIN}\r\n", BODY),
    "of a page that may not": (BINARY + "Origin: https://b.example\r\n", BODY),
    "too large": (BINARY, BODY + bytes(1 << 16)),
    "failing": (BINARY + "Idempotency-Key: 0123456789abcdef\r\n", BODY),
}


async def nothing(_):
    return None


async def failing(_):
    raise RuntimeError("a mistake of ours")


def gateway(origins=frozenset(), mix=nothing):
    rules = Rules(max_body=1 << 16, max_frame=1 << 16, origins=origins)
    definitions = SimpleNamespace(value=ServedDefinitions.of(QUERIES), missing=None)
    kafka = SimpleNamespace(missing=None, weight=0, partition=lambda _: 0)
    intake = SimpleNamespace(mix=mix, send=failing)
    return Gateway(rules, definitions, None, Rates(1e9), kafka, intake, server.ConnectionLimits(), lambda: AT / 1000)


async def answer(address, head, body, version="1.1"):
    """Return status line, headers, body, whether there is a date, and whether the connection stays open."""
    reader, writer = await asyncio.open_connection(*address)
    writer.write(f"POST /v1/reports HTTP/{version}\r\nHost: a\r\nContent-Length: {len(body)}\r\n{head}\r\n".encode())
    if "Expect" in head:
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    writer.write(body)
    line, *headers = (await reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
    by_name = dict(header.lower().split(": ", 1) for header in headers)
    has_date = by_name.pop("date").endswith(" gmt")
    content = await reader.readexactly(int(by_name["content-length"]))
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
    try:
        is_open = await reader.read(12) == b"HTTP/1.1 200"
    except ConnectionError:
        is_open = False
    writer.close()
    return line, by_name, content, has_date, is_open


@pytest.mark.parametrize("origins", [frozenset(), frozenset({ORIGIN})], ids=["no origins", "one"])
@pytest.mark.parametrize("name", HEADS)
def test_the_short_path_gives_the_answers_of_the_routes(name, origins):
    head, body = HEADS[name]

    async def run():
        running = gateway(origins)
        answers = []
        for direct in (None, running.direct):
            async with server.serving(running.application(), "127.0.0.1", 0, drain=1.0, direct=direct) as address:
                answers.append(await answer(address, head, body))
        by_route, short = answers
        assert by_route == short
        assert "server" not in short[1]
        assert short[1]["x-content-type-options"] == "nosniff"
        status = short[0].split()[1]
        assert running.metrics.registry.get_sample_value(
            "hubbub_gateway_requests_total", {"route": "/v1/reports", "status": status}
        ) == len(answers)

    asyncio.run(run())


def test_every_route_of_the_table_is_served_and_described():
    async def run():
        running = gateway()
        async with (
            server.serving(running.application(), "127.0.0.1", 0, drain=1.0) as (host, port),
            ClientSession() as session,
        ):
            for route in ROUTES:
                async with session.request(route.method, f"http://{host}:{port}{route.path}") as response:
                    assert response.status not in (404, 405)
                    if route.name == "openapi":
                        paths = (await response.json())["paths"]
        assert paths.keys() == {route.path for route in ROUTES}

    asyncio.run(run())


@pytest.mark.parametrize(("version", "head"), [("1.0", ""), ("1.0", "Connection: keep-alive\r\n"), ("1.1", "")])
def test_an_older_client_is_answered_in_its_version(version, head):
    async def run():
        running = gateway()
        async with server.serving(running.application(), "127.0.0.1", 0, drain=1.0, direct=running.direct) as address:
            line, headers, content, has_date, is_open = await answer(address, BINARY + head, BODY, version)
            assert (line, content, has_date) == (f"HTTP/{version} 202 Accepted", b'{"accepted":3}', True)
            assert is_open == (version == "1.1" or bool(head))
            assert headers.get("connection") == ("keep-alive" if head else None)

    asyncio.run(run())


def test_a_client_that_waits_before_the_body_gets_100_continue():
    async def run():
        running = gateway()
        async with server.serving(running.application(), "127.0.0.1", 0, drain=1.0, direct=running.direct) as address:
            line, _, content, _, _ = await answer(address, BINARY + "Expect: 100-continue\r\n", BODY)
            assert (line, content) == ("HTTP/1.1 202 Accepted", b'{"accepted":3}')

    asyncio.run(run())


def test_a_client_that_leaves_before_the_answer_does_no_harm(caplog):
    async def run():
        waiting, go = asyncio.Event(), asyncio.Event()

        async def mix(_):
            waiting.set()
            await go.wait()

        running = gateway(mix=mix)
        async with server.serving(running.application(), "127.0.0.1", 0, drain=1.0, direct=running.direct) as address:
            _, writer = await asyncio.open_connection(*address)
            writer.write(f"POST /v1/reports HTTP/1.1\r\nHost: a\r\n{BINARY}".encode())
            writer.write(b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY)
            await waiting.wait()
            writer.transport.abort()
            await asyncio.sleep(0.05)
            go.set()
            assert (await answer(address, BINARY, BODY))[0] == "HTTP/1.1 202 Accepted"
            assert running._bodies.held == 0

    asyncio.run(run())
    assert not caplog.records
