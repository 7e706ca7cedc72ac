"""The ports of workers, boards and simulations: whoever is slow, rude or many shuts none, and none says what it is."""

import asyncio
import time
from contextlib import suppress

import pytest
from aiohttp import ClientSession
from prometheus_client import CollectorRegistry
from prometheus_client.aiohttp import make_aiohttp_handler

from aggregator.board.server.events import Events
from aggregator.board.server.metrics import BoardMetrics
from aggregator.board.server.server import application, health_handlers
from aggregator.board.store.store import Store
from hubbub.http import port_shares, server
from hubbub.http.health import health, serving_alone
from producers.simulation.delivery import status


class NotFollowing:
    missing, problem = None, None


def board():
    store = Store(3600, 1 << 26, time.time)
    follower = NotFollowing()
    metrics = BoardMetrics(store)
    handlers = health_handlers(follower, metrics, None, "127.0.0.1")
    app = application(store, Events(), follower, metrics, None, "127.0.0.1", handlers)
    return server.serving(app, "127.0.0.1", 0, drain=1.0, cancel=True)


def worker():
    return serving_alone(health(make_aiohttp_handler(CollectorRegistry()), lambda: None), "127.0.0.1", 0)


def simulation():
    return status.serve_metrics("127.0.0.1", 0, "some", status.DeliveryCounts())


PORTS = {"board": board, "worker": worker, "simulation": simulation}


@pytest.mark.parametrize("port", PORTS)
def test_each_port_answers_a_health_check(port):
    async def run():
        async with PORTS[port]() as (host, number):
            reader, writer = await asyncio.open_connection(host, number)
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
            assert (await reader.readline()).split()[1] == b"200"
            writer.close()

    asyncio.run(run())


@pytest.mark.parametrize("port", PORTS)
def test_half_open_connections_are_closed_when_they_lag_too_much(port, monkeypatch):
    """A newcomer of the same address is answered meanwhile."""
    monkeypatch.setattr(port_shares, "PATIENCE", 2.0)

    async def run():
        async with PORTS[port]() as (host, number):
            starts = (b"", b"G", b"GET /metrics HTTP/1.1\r\n", b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ")
            slow = [await asyncio.open_connection(host, number) for _ in range(64)]
            for index, (_, writer) in enumerate(slow):
                writer.write(starts[index % len(starts)])
            async with ClientSession() as session, session.get(f"http://{host}:{number}/metrics") as answer:
                assert answer.status == 200
                assert ("hubbub_build_info" in await answer.text()) == (port != "worker")
            for reader, writer in slow:
                async with asyncio.timeout(30):
                    with suppress(ConnectionError):
                        await reader.read()
                writer.close()

    asyncio.run(run())


@pytest.mark.parametrize("port", PORTS)
@pytest.mark.parametrize("path", ["/metrics", "/nothing"])
def test_no_answer_says_what_serves_it(port, path):
    async def run():
        async with (
            PORTS[port]() as (host, number),
            ClientSession() as session,
            session.get(f"http://{host}:{number}{path}") as answer,
        ):
            assert answer.status == (404 if path == "/nothing" else 200)
            assert "Server" not in answer.headers
            assert answer.headers["X-Content-Type-Options"] == "nosniff"

    asyncio.run(run())


NO_REQUESTS = (b"GET / HTTP/9\r\n\r\n", b"<script> / HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\nA: \0\r\n\r\n")


@pytest.mark.parametrize("port", PORTS)
@pytest.mark.parametrize("said", NO_REQUESTS)
def test_nor_does_the_refusal_of_what_is_no_request(port, said):
    async def run():
        async with PORTS[port]() as (host, number):
            reader, writer = await asyncio.open_connection(host, number)
            writer.write(said)
            head, _, body = (await reader.read()).partition(b"\r\n\r\n")
            writer.close()
            assert head.split(b" ")[1] == b"400"
            assert b"aiohttp" not in head
            assert b"Content-Type: application/problem+json" in head
            assert b"script" not in body

    asyncio.run(run())
