"""Strange requests to every port. The port answers each or closes its connection, without harm."""

import asyncio
import random
import time
from itertools import product
from types import SimpleNamespace

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.aiohttp import make_aiohttp_handler

from aggregator.board.server.events import Events
from aggregator.board.server.metrics import BoardMetrics
from aggregator.board.server.server import application, health_handlers
from aggregator.board.store.store import Store
from hubbub.http import port_shares, server
from hubbub.http.health import health, serving_alone
from hubbub.http.port_shares import PortShares
from producers.gateway import bodies
from producers.gateway.intake.active_definitions import ServedDefinitions
from producers.gateway.server import Gateway, Rules
from producers.simulation.delivery import status
from tests.boards import QUERIES
from tests.unit.fuzz import corpus
from tests.unit.fuzz.mutator import corrupt

LARGEST = 4 << 20
"""Bytes of an answer, at the most."""


async def nothing(*_):
    """Do nothing, as if Kafka had acknowledged everything."""


def board(shares=None, host="127.0.0.1"):
    store = Store(86_400, 1 << 26, time.time)
    for key, value in corpus.definition_writes()[:2]:
        store.define(key, value)
    for topic, take in (("estimates", store.take_record), ("alerts", store.take_alert), ("truth", store.take_truth)):
        for value in corpus.values_by_topic()[topic]:
            take(value)
    following = SimpleNamespace(missing=None, problem=None, state=dict)
    metrics = BoardMetrics(store)
    handlers = health_handlers(following, metrics, None, "127.0.0.1")
    app = application(store, Events(), following, metrics, None, "127.0.0.1", handlers)
    return server.serving(app, host, 0, shares=shares, drain=1.0, cancel=True)


def gateway(shares=None, context=None, host="127.0.0.1", queries=QUERIES, tokens=None):
    rules = Rules(max_body=1 << 16, max_frame=1 << 16, origins=frozenset({"https://a.example"}))
    definitions = SimpleNamespace(value=ServedDefinitions.of(queries), missing=None)
    kafka = SimpleNamespace(missing=None, weight=0, partition=lambda _: 0)
    intake = SimpleNamespace(mix=nothing, send=nothing)
    shares = shares or PortShares()
    running = Gateway(rules, definitions, tokens, kafka, intake, shares)
    settings = {"shares": shares, "drain": 1.0, "context": context, "direct": running.direct}
    return server.serving(running.application(), host, 0, **settings)


def worker(shares=None, host="127.0.0.1"):
    handlers = health(make_aiohttp_handler(CollectorRegistry()), lambda: None)
    return serving_alone(handlers, host, 0, shares=shares)


PORTS = {
    "board": board,
    "gateway": gateway,
    "worker": worker,
    "simulation": lambda: status.serve_metrics("127.0.0.1", 0, "some", status.DeliveryCounts()),
}
GET = "GET {} HTTP/1.1\r\nHost: 127.0.0.1:8803\r\nConnection: close\r\n{}\r\n"
PATHS = (
    "/api/v1/queries",
    "/api/v1/queries/homepage/estimate?window=latest&kind=tumbling&size=10&step=10&method=norm_sub&values=a,b",
    "/api/v1/queries/homepage/estimate?window=1700000010&format=csv",
    "/api/v1/queries/homepage/set?name=fun",
    "/api/v1/queries/homepage/heavy-hitters?method=unbiased",
    "/api/v1/queries/homepage/history?value=a%2Cb&kind=hopping",
    "/api/v1/queries/profile/windows?attribute=age",
    "/api/v1/alerts?format=csv",
    "/v1/queries",
    "/openapi.json",
    "/metrics",
    "/healthz",
    "/readyz",
    "/static/page.js",
    "/",
)
HEADERS = (
    "",
    "Authorization: Bearer abc\r\n",
    'If-None-Match: W/"abc", *\r\n',
    "Accept: text/csv\r\nAccept-Encoding: gzip\r\n",
    "Origin: https://a.example\r\nAccess-Control-Request-Method: POST\r\n",
    "X-Forwarded-For: 10.1.2.3, ::1\r\nIdempotency-Key: 0123456789abcdef\r\n",
)


def requests():
    texts = [GET.format(path, headers).encode() for path, headers in product(PATHS, HEADERS)]
    kinds = [(f"application/{kind}", "") for kind in ("vnd.hubbub.frames", "json")]
    kinds += [(kind, "Content-Encoding: gzip\r\n") for kind, _ in kinds]
    for kind, data in kinds:
        for body in (corpus.gzip_bodies() if data else corpus.submissions())[:3]:
            head = f"POST /v1/reports HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Type: {kind}\r\n{data}"
            texts.append(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            chunks = f"{len(body):x}\r\n".encode() + body + b"\r\n0\r\n\r\n"
            texts.append(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode() + chunks)
    return texts


async def answer(host, number, request):
    """Return the answer until the port closes the connection. It is empty if the port closes it at once."""
    reader, writer = await asyncio.open_connection(host, number)
    content = b""
    try:
        writer.write(request)
        while len(content) <= LARGEST and (more := await reader.read(1 << 16)):
            content += more
            if b"text/event-stream" in content:  # it goes on for ever
                break
    except ConnectionError:
        pass
    finally:
        writer.close()
    return content


@pytest.mark.parametrize("count", [100, pytest.param(5_000, marks=pytest.mark.long)])
@pytest.mark.parametrize("port", PORTS)
def test_every_request_gets_an_answer_or_a_closed_connection(port, count, monkeypatch, caplog):
    monkeypatch.setattr(port_shares, "PATIENCE", 0.3)
    monkeypatch.setattr(bodies, "PATIENCE", 0.3)
    draw = random.Random(f"14 {port}")
    good_requests = requests()

    async def run():
        codes = set()
        async with PORTS[port]() as (host, number):
            for start in range(0, count, 50):
                bad = [corrupt(draw.choice(good_requests), draw) for _ in range(start, min(count, start + 50))]
                async with asyncio.timeout(120):
                    answers = await asyncio.gather(*(answer(host, number, request_bytes) for request_bytes in bad))
                for request, answer_text in zip(bad, answers, strict=True):
                    assert not answer_text or answer_text.startswith(b"HTTP/"), (request, answer_text[:200])
                    assert len(answer_text) <= LARGEST
                    head = answer_text.partition(b"\r\n\r\n")[0].lower()
                    assert b"\r\nserver:" not in head
                    assert not answer_text or b"\r\nx-content-type-options: nosniff" in head or b" 100 " in head
                    assert b"Traceback" not in answer_text
                    codes.add(answer_text[9:12])
            for request_bytes in [request for request in good_requests if b"/metrics" in request][:1]:
                assert (await answer(host, number, request_bytes)).startswith(b"HTTP/1.1 200 ")
        assert b"500" not in codes, [record.exc_text for record in caplog.records]
        assert {b"200", b"404", b"400"} <= codes

    asyncio.run(run())
