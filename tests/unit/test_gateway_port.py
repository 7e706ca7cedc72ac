"""A gateway's port without Kafka. The short path of reports gives the answers of the routes."""

import asyncio
import gzip
from hashlib import sha256
from types import SimpleNamespace

import orjson
import pytest
from aiohttp import ClientSession

from hubbub.http import port_shares, server
from hubbub.http.port_shares import PortShares
from oracles.frame import encode, encode_json
from producers.gateway import bodies, body_decoder
from producers.gateway.access.tokens import Account, Tokens, short_lived
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


def gateway(origins=frozenset(), mix=nothing, tokens=None):
    rules = Rules(max_body=1 << 16, max_frame=1 << 16, origins=origins)
    definitions = SimpleNamespace(value=ServedDefinitions.of(QUERIES), missing=None)
    kafka = SimpleNamespace(missing=None, weight=0, partition=lambda _: 0)
    intake = SimpleNamespace(mix=mix, send=failing)
    watched = tokens and SimpleNamespace(value=Tokens({account.name: account for account in tokens}))
    return Gateway(rules, definitions, watched, kafka, intake, PortShares(), lambda: AT / 1000)


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
        answers = []
        for is_direct in (False, True):
            running = gateway(origins)
            direct = running.direct if is_direct else None
            async with server.serving(running.application(), "127.0.0.1", 0, drain=1.0, direct=direct) as address:
                answers.append(await answer(address, head, body))
            status = answers[-1][0].split()[1]
            labels = {"route": "/v1/reports", "status": status}
            assert running.metrics.registry.get_sample_value("hubbub_gateway_requests_total", labels) == 1

        by_route, short_answers = answers
        assert by_route == short_answers
        assert "server" not in short_answers[1]
        assert short_answers[1]["x-content-type-options"] == "nosniff"

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
            assert line == f"HTTP/{version} 202 Accepted"
            assert content == b'{"accepted":3}'
            assert has_date is True
            assert is_open == (version == "1.1" or bool(head))
            assert headers.get("connection") == ("keep-alive" if head else None)

    asyncio.run(run())


def test_a_client_that_waits_before_the_body_gets_100_continue():
    async def run():
        running = gateway()
        async with server.serving(running.application(), "127.0.0.1", 0, drain=1.0, direct=running.direct) as address:
            line, _, content, _, _ = await answer(address, BINARY + "Expect: 100-continue\r\n", BODY)
            assert line == "HTTP/1.1 202 Accepted"
            assert content == b'{"accepted":3}'

    asyncio.run(run())


def test_a_client_that_leaves_before_the_answer_does_no_harm(caplog):
    async def run():
        waiting = asyncio.Event()
        go = asyncio.Event()

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


def test_a_body_without_a_length_has_the_same_limit():
    async def run():
        small = gateway()
        small._bodies._most = 100
        async with server.serving(small.application(), "127.0.0.1", 0, drain=1.0, direct=small.direct) as address:
            for size, status in ((100, 400), (101, 413)):
                reader, writer = await asyncio.open_connection(*address)
                head = f"POST /v1/reports HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n{BINARY}\r\n"
                writer.write(head.encode() + b"%x\r\n%b\r\n0\r\n\r\n" % (size, bytes(size)))
                assert (await refusal(reader))[0] == status
                writer.close()

    asyncio.run(run())


KEY = bytes(32)


def by(token):
    return f"{BINARY}Authorization: Bearer {token}\r\n"


def site_token():
    return short_lived("site", KEY, AT // 1000 + 60)


async def begin(address, head, length, start=b""):
    """Send a head, and the start of a body that never ends."""
    reader, writer = await asyncio.open_connection(*address)
    writer.write(f"POST /v1/reports HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n{head}\r\n".encode() + start)
    return reader, writer


async def until(holds):
    while not holds():  # noqa: ASYNC110 - a gateway has no event for its bodies
        await asyncio.sleep(0)


async def refusal(reader):
    """The status, the headers and the problem."""
    line, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
    headers = dict(header.lower().split(": ", 1) for header in lines)
    return int(line.split()[1]), headers, orjson.loads(await reader.readexactly(int(headers["content-length"])))


def test_a_caller_without_room_is_refused_before_its_body_comes():
    async def run():
        site = Account("site", keys=(KEY,), each=3)
        gateway_here, greedy, honest = gateway(tokens=[site]), site_token(), site_token()
        async with server.serving(
            gateway_here.application(), "127.0.0.1", 0, drain=1.0, direct=gateway_here.direct
        ) as address:
            for digest, pane in gateway_here._definitions.value.open_panes(AT / 1000):
                if digest != WEB.digest:
                    gateway_here._quotas._reports["site", greedy.split(".")[3], digest, pane] = 3
                    continue
                body = encode(digest, pane, numbered(3))
                assert (await answer(address, by(greedy), body))[0].endswith("202 Accepted")
            for key, length in (("", 1 << 16), ("Idempotency-Key: 0123456789abcdef\r\n", 100)):
                reader, writer = await begin(address, by(greedy) + key, length)
                status, headers, problem = await refusal(reader)
                assert status == 429
                assert problem["reason"] == "quota"
                assert problem["counted"] == "none"
                assert "retry-after" not in headers
                writer.close()
            assert (await answer(address, by(honest), BODY))[0].endswith("202 Accepted")
        value = gateway_here.metrics.registry.get_sample_value
        assert value("hubbub_quota_refused_total", {"token": "site", "query": "(all)"}) == 2
        assert value("hubbub_gateway_refused_total", {"reason": "quota"}) == 2

    asyncio.run(run())


@pytest.mark.parametrize("same_name", [True, False])
def test_a_caller_with_too_many_unfinished_bodies_loses_its_own(same_name, monkeypatch):
    monkeypatch.setattr(bodies, "MEMORY", (1 << 16) * (64 if same_name else 8))

    async def run():
        accounts = [Account("site", keys=(KEY,)), Account("app", hashes=(sha256(b"app").digest(),))]
        gateway_here = gateway(tokens=accounts)
        greedy = site_token()
        honest = site_token() if same_name else "app"
        async with server.serving(
            gateway_here.application(), "127.0.0.1", 0, drain=1.0, direct=gateway_here.direct
        ) as address:
            reader, writer = await begin(address, by(greedy), 50_000, bytes(40_000))
            await until(lambda: gateway_here._bodies.held == 40_000)
            for _ in range(3):
                next_reader, next_writer = await begin(address, by(greedy), 50_000, bytes(40_000))
                status, headers, problem = await refusal(reader)
                assert status == 429
                assert problem["reason"] == "memory"
                assert problem["counted"] == "none"
                assert headers["retry-after"] == "1"
                assert (await answer(address, by(honest), BODY))[0].endswith("202 Accepted")
                writer.close()
                reader, writer = next_reader, next_writer
            writer.transport.abort()
            await until(lambda: gateway_here._bodies.held == 0)

    asyncio.run(run())


def test_small_bodies_fit_beside_large_ones_of_all_tokens_of_their_name(monkeypatch):
    """Eight tokens hold what their name may have, one large body each. All small ones are of the same address."""
    monkeypatch.setattr(bodies, "MEMORY", (1 << 16) * 64)
    monkeypatch.setattr(bodies, "PIECE", 1 << 10)

    async def run():
        gateway_here = gateway(tokens=[Account("site", keys=(KEY,))])
        async with server.serving(
            gateway_here.application(), "127.0.0.1", 0, drain=1.0, direct=gateway_here.direct
        ) as address:
            most = (1 << 16) - 1
            writers = [(await begin(address, by(site_token()), most, bytes(most - 1)))[1] for _ in range(8)]
            await until(lambda: gateway_here._bodies.held == 8 * (most - 1))
            for _ in range(40):
                assert (await answer(address, by(site_token()), BODY))[0].endswith("202 Accepted")
            for writer in writers:
                writer.transport.abort()
            await until(lambda: gateway_here._bodies.held == 0)

    asyncio.run(run())


def test_a_body_gives_way_also_while_it_is_decoded(monkeypatch):
    """It would stay in memory without being counted."""
    monkeypatch.setattr(bodies, "MEMORY", (1 << 16) * 8)
    monkeypatch.setattr(bodies, "PIECE", 1 << 10)
    monkeypatch.setattr(body_decoder, "SLICE", 0.0)  # one frame a slice

    async def run():
        gateway_here = gateway(tokens=[Account("site", keys=(KEY,))])
        async with server.serving(
            gateway_here.application(), "127.0.0.1", 0, drain=1.0, direct=gateway_here.direct
        ) as address:
            frames = b",".join([encode_json(WEB.digest, PANE, numbered(1))] * 500)
            body = b"[" + frames.ljust((1 << 16) - 2) + b"]"
            head = f"Content-Type: application/json\r\nAuthorization: Bearer {site_token()}\r\n"
            reader, writer = await begin(address, head, len(body), body)
            await until(lambda: gateway_here._bodies.held == len(body))
            assert (await answer(address, by(site_token()), BODY))[0].endswith("202 Accepted")
            status, _, problem = await refusal(reader)
            assert status == 429
            assert problem["reason"] == "memory"
            writer.close()

    asyncio.run(run())


def test_a_body_that_lags_too_much_gets_408(monkeypatch):
    monkeypatch.setattr(port_shares, "PATIENCE", 0.5)

    async def run():
        gateway_here = gateway()
        async with server.serving(
            gateway_here.application(), "127.0.0.1", 0, drain=1.0, direct=gateway_here.direct
        ) as address:
            reader, writer = await begin(address, BINARY, 50_000, bytes(3))
            status, headers, problem = await refusal(reader)
            assert status == 408
            assert problem["reason"] == "slow"
            assert headers["retry-after"] == "1"
            assert gateway_here._bodies.held == 0
            writer.close()
        value = gateway_here.metrics.registry.get_sample_value
        assert value("hubbub_gateway_refused_total", {"reason": "slow"}) == 1

    asyncio.run(run())


def test_other_requests_are_answered_while_a_long_body_is_decoded(monkeypatch):
    monkeypatch.setattr(body_decoder, "SLICE", 0.0)  # one frame a slice, so that a fast machine needs many too

    async def run():
        gateway_here = gateway()
        async with server.serving(
            gateway_here.application(), "127.0.0.1", 0, drain=1.0, direct=gateway_here.direct
        ) as address:
            body = b"[" + b",".join([encode_json(WEB.digest, PANE, numbered(1))] * 1000) + b"]"
            order = []

            async def send(head, body):
                line, *_ = await answer(address, head, body)
                order.append(len(body))
                assert line.endswith("202 Accepted")

            long_task = asyncio.create_task(send("Content-Type: application/json\r\n", body))
            await until(lambda: gateway_here._bodies.held == len(body))
            await asyncio.gather(long_task, send(BINARY, BODY))
            assert order == [len(BODY), len(body)]

    asyncio.run(run())


@pytest.mark.parametrize("encoding", ["gzip", "identity"])
def test_a_listing_has_a_tag_and_is_not_sent_again(encoding):
    async def run():
        running = gateway(frozenset({ORIGIN}))
        async with (
            server.serving(running.application(), "127.0.0.1", 0, drain=1.0) as (host, port),
            ClientSession(auto_decompress=False) as session,
        ):
            url = f"http://{host}:{port}/v1/queries"
            headers = {"Accept-Encoding": encoding}
            async with session.get(url, headers=headers) as answer:
                assert answer.status == 200
                content = await answer.read()
                assert answer.headers.get("Content-Encoding") == (encoding if encoding == "gzip" else None)
                assert answer.headers["Vary"] == "Accept-Encoding, Origin"
                tag = answer.headers["ETag"]
            text = gzip.decompress(content) if encoding == "gzip" else content
            assert text == running._definitions.value.listing(AT / 1000).text
            async with session.get(url, headers={**headers, "If-None-Match": f'"old", {tag}'}) as answer:
                assert answer.status == 304
                assert answer.headers["ETag"] == tag
                assert await answer.read() == b""
            other = {"Accept-Encoding": "gzip" if encoding == "identity" else "identity", "If-None-Match": tag}
            async with session.get(url, headers=other) as answer:
                assert answer.status == 200

    asyncio.run(run())


def test_all_listings_of_a_second_share_one_text_and_one_gzip():
    definitions = ServedDefinitions.of(QUERIES)
    listing = definitions.listing(AT / 1000)
    assert definitions.listing(AT / 1000 + 0.5) is listing
    assert definitions.listing(AT / 1000 + 2) is listing  # no definition has changed
    assert listing.packed is listing.packed
