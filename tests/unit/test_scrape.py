"""The answer to a scrape: the forms of the library, and a loop that turns meanwhile."""

import asyncio
import threading

import pytest
from aiohttp import ClientSession, web
from prometheus_client import CollectorRegistry, Counter, generate_latest
from prometheus_client.core import CounterMetricFamily
from prometheus_client.openmetrics.exposition import generate_latest as open_metrics
from prometheus_client.registry import Collector

from hubbub.http import scrape as scrape_module
from hubbub.http.scrape import scrape_handler
from hubbub.http.server import serving

OPEN = "application/openmetrics-text; version=1.0.0"


def registry_of(count):
    registry = CollectorRegistry()
    for number in range(40):
        counter = Counter(f"events_{number}", "Events", ["name"], registry=registry)
        for name in range(count):
            counter.labels(f"{name}").inc(name)
    return registry


async def scrape(registry, query="", **headers):
    app = web.Application()
    app.add_routes([web.get("/metrics", scrape_handler(registry))])
    async with serving(app, "127.0.0.1", 0) as (host, port), ClientSession() as session:
        reply = await session.get(f"http://{host}:{port}/metrics{query}", headers=headers)
        return reply.headers, await reply.read()


@pytest.mark.parametrize(("accept", "write"), [("*/*", generate_latest), (OPEN, open_metrics)])
def test_the_text_is_that_of_the_library(accept, write):
    registry = registry_of(3)
    headers, body = asyncio.run(scrape(registry, Accept=accept))
    assert body == write(registry)
    assert headers["Content-Type"].startswith(accept.partition(";")[0].replace("*/*", "text/plain"))


def test_a_scrape_may_name_its_metrics():
    _, body = asyncio.run(scrape(registry_of(1), "?name[]=events_1_total&name[]=events_2_total"))
    assert body.count(b"# TYPE") == 2


class SpiedSamples(list):
    """Samples that note the thread which writes them."""

    def __iter__(self):
        WRITERS.add(threading.current_thread())
        return super().__iter__()


WRITERS = set()


def test_the_loop_turns_between_two_metrics_and_another_thread_writes_the_text(monkeypatch):
    monkeypatch.setattr(scrape_module, "SLICE", 0.0)

    async def run():
        turns = 0
        collected_at = []

        class Spy(Collector):
            def collect(self):
                for number in range(5):
                    collected_at.append(turns)
                    family = CounterMetricFamily(f"events_{number}", "Events", 1)
                    family.samples = SpiedSamples(family.samples)
                    yield family

        async def count():
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        registry = CollectorRegistry()
        registry.register(Spy())
        collected_at.clear()
        WRITERS.clear()
        counting = asyncio.create_task(count())
        await scrape(registry)
        counting.cancel()
        assert len({*collected_at}) == 5
        assert WRITERS
        assert threading.main_thread() not in WRITERS

    asyncio.run(run())
