"""A roll of the gateways refuses no connection, if each waits before its stop until proxies know that it leaves."""

import asyncio
import time
from collections import Counter
from contextlib import ExitStack, asynccontextmanager

import pytest

from tests.deploy.charts import pods
from tests.integration.gateways import FRAMES, TOKEN, Site, now

HEADERS = f"Host: gateway\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: {FRAMES}\r\nConnection: close\r\n"


class Endpoints:
    """The ports of the pods of a service. A proxy learns of a change after some seconds, as in a cluster."""

    def __init__(self, ports, lag):
        self.visible = list(ports)
        self._lag = lag

    def change(self, ports):
        """Change the ports now. A proxy sees it later."""
        asyncio.get_running_loop().call_later(self._lag, lambda: self.visible.__setitem__(slice(None), ports))


@asynccontextmanager
async def proxy(endpoints):
    """Serve connections in turn from the visible ports, and yield the port of the proxy."""
    turns = 0

    async def pipe(reader, writer):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()

    async def serve(reader, writer):
        nonlocal turns
        turns += 1
        try:
            inner_reader, inner = await asyncio.open_connection(
                "127.0.0.1", endpoints.visible[turns % len(endpoints.visible)]
            )
            try:
                await asyncio.gather(pipe(reader, inner), pipe(inner_reader, writer))
            finally:
                inner.close()
        except OSError:  # the client sees a connection that ends without an answer
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def send(port, body):
    """Send one request over a connection of its own, and return its status, or the error."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(f"POST /v1/reports HTTP/1.1\r\n{HEADERS}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            line = await reader.readline()
            await reader.read()
            return int(line.split()[1]) if line else "no answer"
        finally:
            writer.close()
    except OSError as error:
        return type(error).__name__


async def load(port, frame, rate, finish):
    """Send requests at a rate, each when it is due, until `finish`. Return how many had each outcome."""
    tasks = []
    start = time.monotonic()
    while not finish.is_set():
        due = start + len(tasks) / rate
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        tasks.append(asyncio.create_task(send(port, frame())))
    return Counter(await asyncio.gather(*tasks))


async def roll(site, stack, *, rate, pause, lag):
    """Replace two gateways one after another, as a Deployment does. Return the outcomes of the requests meanwhile."""

    async def gateway():
        process = stack.enter_context(
            await asyncio.to_thread(site.gateway_with_tokens, "--trusted-proxies", "127.0.0.1/32")
        )
        return await asyncio.to_thread(process.ready)

    old = [await gateway(), await gateway()]
    ports = [each.port for each in old]
    endpoints = Endpoints(ports, lag)
    finish = asyncio.Event()
    reports = site.reports("numbers", 1)
    async with proxy(endpoints) as port:
        clients = asyncio.create_task(load(port, lambda: site.frame_of("numbers", reports, now()), rate, finish))
        for each in old:
            new_gateway = await gateway()
            ports = [*(port for port in ports if port != each.port), new_gateway.port]
            endpoints.change(ports)
            await asyncio.sleep(pause)
            assert await asyncio.to_thread(each.stop) == 0
        await asyncio.sleep(lag + 1)
        finish.set()
        counts = await clients
        await asyncio.sleep(1)  # the proxy closes its connections
        return counts


def outcomes(broker, folder, **settings):
    with ExitStack() as stack:
        site = stack.enter_context(Site(broker, folder))
        return asyncio.run(roll(site, stack, **settings))


def test_a_pause_before_the_stop_refuses_no_connection(tansu, tmp_path):
    counts = outcomes(tansu, tmp_path, rate=50, pause=3.0, lag=1.0)
    assert set(counts) == {202}, counts
    assert counts[202] > 100


@pytest.mark.long
def test_without_the_pause_connections_are_refused(tansu, tmp_path):
    counts = outcomes(tansu, tmp_path, rate=50, pause=0.0, lag=2.0)
    assert counts.total() > counts[202], counts


@pytest.mark.long
def test_the_chart_refuses_none_of_200_requests_a_second(tansu, tmp_path):
    """The pause is that of the chart, and the proxy learns of a change within half of it."""
    container = pods("secured")["gateway"]["spec"]["containers"][0]
    pause = container["lifecycle"]["preStop"]["sleep"]["seconds"]
    counts = outcomes(tansu, tmp_path, rate=200, pause=pause, lag=pause / 2)
    assert set(counts) == {202}, counts
    assert counts[202] > 200 * 2 * pause
