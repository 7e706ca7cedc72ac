"""A publisher over HTTP. Each report counts once, even if the publisher or the gateway is killed."""

import asyncio
import signal
import subprocess
import sys
import time
from collections import Counter

import numpy as np
import pytest

from aggregator.demo.broker import free_port
from oracles.errors import ReportError
from producers import Client, DeliveryError, HttpPublisher, NotAllowed
from tests.integration.gateways import OTHER, TOKEN, Site
from tests.integration.workers import until


@pytest.fixture
def site(tansu, tmp_path):
    with Site(tansu, tmp_path) as site:
        yield site


def contents(site):
    """Return how often each number counts. A frame that is in the log twice counts once."""
    frames = {frame.id: frame for _, frame in site.frames()}
    return Counter(n for frame in frames.values() for n in np.frombuffer(frame.reports.tobytes(), "<u2").tolist())


def publisher(site, gateway, **more):
    return HttpPublisher(gateway.url[0], queue=site.folder / "queue", **more)


def test_a_client_fetches_its_queries_answers_and_is_counted(site):
    with site.gateway_with_tokens() as gateway:
        calls = iter([TOKEN, TOKEN, TOKEN, TOKEN])

        async def run():
            async with publisher(site, gateway, token=lambda: next(calls)) as there:
                with pytest.raises(NotAllowed):
                    await there.query("numbers", max_epsilon=0.5)
                query = await there.query("numbers", max_epsilon=1.0)
                client = Client(query, ":memory:", allow=["numbers"])
                report = client.answer(42)
                await there.put(query, report)
                return report

        report = asyncio.run(run())
        [(_, frame)] = site.frames()
        assert frame.reports.tobytes() == report.tobytes()
        assert next(calls) == TOKEN  # asked for before each request, of which there were three
        assert list((site.folder / "queue").iterdir()) == []


SENDER = """
import asyncio, sys
import numpy as np
from oracles.query import load
from producers import HttpPublisher

url, queue, file = sys.argv[1:]
query = load(file)["numbers"]

async def run():
    async with HttpPublisher(url, queue=queue) as there:
        for start in range(0, 3000, 100):
            numbers = np.arange(start, start + 100, dtype="<u2")
            await there.put(query, numbers.view(np.uint8).reshape(-1, 2))
            print(start, flush=True)
        await asyncio.sleep(600)

asyncio.run(run())
"""


def test_reports_count_once_if_publisher_and_gateway_are_killed(site):
    """The gateway dies before, during and after the sending, and the publisher in the middle of it."""
    port = str(free_port())
    url = f"http://127.0.0.1:{port}"
    queue = site.folder / "queue"
    command = [sys.executable, "-c", SENDER, url, str(queue), str(site.file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as sender:
        assert sender.stdout.readline() == "0\n"  # nobody listens yet
        for _ in range(2):
            with site.gateway("--port", port, "--linger", "0") as gateway:
                until(lambda: gateway.metric("hubbub_gateway_reports_total") > 0 or not any(queue.iterdir()))
                gateway.stop(signal.SIGKILL)
        for _ in range(29):
            sender.stdout.readline()
        sender.kill()

    async def rest():
        async with HttpPublisher(url, queue=queue):
            pass

    with site.gateway("--port", port):
        asyncio.run(rest())
    assert list(queue.iterdir()) == []
    assert contents(site) == Counter(range(3000))


def test_the_queue_is_bounded_and_a_final_refusal_raises_once(site):
    late = int(time.time()) - 600

    async def run(gateway):
        query = site.queries["numbers"]
        async with publisher(site, gateway, token=TOKEN, most=20_000) as there:
            with pytest.raises(ReportError):
                await there.put(query, np.full((2, 2), 255, np.uint8))
            await there.put(query, site.reports("numbers", 7), at=late)
            with pytest.raises(DeliveryError, match=r"7 reports were refused: 409 .*late") as error:
                await there.flush()
            assert error.value.reports == 7
            with pytest.raises(DeliveryError, match="the queue is full") as error:
                await there.put(query, site.reports("numbers", 9000))
            assert error.value.reports == 9000
            await there.put(query, site.reports("numbers", 1))
            await there.flush()
        with pytest.raises(DeliveryError, match="not started, or it is closed"):
            await there.put(query, site.reports("numbers", 1))

    with site.gateway_with_tokens() as gateway:
        asyncio.run(run(gateway))
    assert contents(site) == Counter([0])


def test_reports_beyond_a_quota_are_given_back_and_the_next_pane_goes_on(site):
    async def run(gateway):
        query = site.queries["numbers"]
        pane = int(time.time()) // 60 * 60
        async with publisher(site, gateway, token=OTHER) as there:
            await there.put(query, site.reports("numbers", 10), at=pane)
            await there.flush()
            await there.put(query, site.reports("numbers", 7), at=pane)
            with pytest.raises(DeliveryError, match=r"7 reports were refused: 429 .*next pane has room"):
                await there.flush()
            await there.put(query, site.reports("numbers", 2, 20), at=pane + 60)
            await there.flush()

    with site.gateway_with_tokens() as gateway:
        asyncio.run(run(gateway))
    assert contents(site) == Counter([*range(10), 20, 21])


def test_the_publisher_waits_as_the_gateway_asks_and_reports_the_waiting_reports(site):
    async def run(gateway):
        query = site.queries["numbers"]
        async with publisher(site, gateway, token=TOKEN[1:], patience=1.0) as there:
            await there.put(query, site.reports("numbers", 3))
            with pytest.raises(DeliveryError, match="are not accepted after 1 s: 401"):
                await there.flush()
            there._token = OTHER
            there._patience = 60.0
            await there.flush()

    with site.gateway_with_tokens() as gateway:
        asyncio.run(run(gateway))
    assert contents(site) == Counter(range(3))
