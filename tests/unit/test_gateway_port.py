"""A gateway's port without Kafka: the short way that reports take answers as the routes do."""

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
    """The status line, the headers but the date, and the body; and whether the connection is kept."""
    reader, writer = await asyncio.open_connection(*address)
    writer.write(f"POST /v1/reports HTTP/{version}\r\nHost: a\r\nContent-Length: {len(body)}\r\n{head}\r\n".encode())
    if "Expect" in head:
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    writer.write(body)
    line, *headers = (await reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
    told = dict(header.lower().split(": ", 1) for header in headers)
    dated = told.pop("date").endswith(" gmt")
    content = await reader.readexactly(int(told["content-length"]))
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
    try:
        kept = await reader.read(12) == b"HTTP/1.1 200"
    except ConnectionError:
        kept = False
    writer.close()
    return line, told, content, dated, kept


@pytest.mark.parametrize("origins", [frozenset(), frozenset({ORIGIN})], ids=["no origins", "one"])
@pytest.mark.parametrize("name", HEADS)
def test_the_short_way_answers_as_the_routes_do(name, origins):
    head, body = HEADS[name]

    async def run():
        made = gateway(origins)
        found = []
        for direct in (None, made.direct):
            async with server.serving(made.application(), "127.0.0.1", 0, drain=1.0, direct=direct) as address:
                found.append(await answer(address, head, body))
        routed, short = found
        assert routed == short
        assert "server" not in short[1]
        assert short[1]["x-content-type-options"] == "nosniff"
        status = short[0].split()[1]
        assert made.metrics.registry.get_sample_value(
            "hubbub_gateway_requests_total", {"route": "/v1/reports", "status": status}
        ) == len(found)

    asyncio.run(run())


def test_every_route_of_the_table_is_served_and_described():
    async def run():
        made = gateway()
        async with (
            server.serving(made.application(), "127.0.0.1", 0, drain=1.0) as (host, port),
            ClientSession() as session,
        ):
            for route in ROUTES:
                async with session.request(route.method, f"http://{host}:{port}{route.path}") as found:
                    assert found.status not in (404, 405)
                    if route.name == "openapi":
                        described = (await found.json())["paths"]
        assert described.keys() == {route.path for route in ROUTES}

    asyncio.run(run())


@pytest.mark.parametrize(("version", "head"), [("1.0", ""), ("1.0", "Connection: keep-alive\r\n"), ("1.1", "")])
def test_an_older_client_is_answered_in_its_version(version, head):
    async def run():
        made = gateway()
        async with server.serving(made.application(), "127.0.0.1", 0, drain=1.0, direct=made.direct) as address:
            line, told, content, dated, kept = await answer(address, BINARY + head, BODY, version)
            assert (line, content, dated) == (f"HTTP/{version} 202 Accepted", b'{"accepted":3}', True)
            assert kept == (version == "1.1" or bool(head))
            assert told.get("connection") == ("keep-alive" if head else None)

    asyncio.run(run())


def test_who_waits_for_a_word_before_the_body_gets_it():
    async def run():
        made = gateway()
        async with server.serving(made.application(), "127.0.0.1", 0, drain=1.0, direct=made.direct) as address:
            line, _, content, _, _ = await answer(address, BINARY + "Expect: 100-continue\r\n", BODY)
            assert (line, content) == ("HTTP/1.1 202 Accepted", b'{"accepted":3}')

    asyncio.run(run())


def test_a_client_that_has_gone_when_it_is_answered_harms_nobody(caplog):
    async def run():
        waiting, go = asyncio.Event(), asyncio.Event()

        async def mix(_):
            waiting.set()
            await go.wait()

        made = gateway(mix=mix)
        async with server.serving(made.application(), "127.0.0.1", 0, drain=1.0, direct=made.direct) as address:
            _, writer = await asyncio.open_connection(*address)
            writer.write(f"POST /v1/reports HTTP/1.1\r\nHost: a\r\n{BINARY}".encode())
            writer.write(b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY)
            await waiting.wait()
            writer.transport.abort()
            await asyncio.sleep(0.05)
            go.set()
            assert (await answer(address, BINARY, BODY))[0] == "HTTP/1.1 202 Accepted"
            assert made._bodies.held == 0

    asyncio.run(run())
    assert not caplog.records
