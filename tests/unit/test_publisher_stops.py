"""A publisher over HTTP asks for the state before each answer. A stopped query costs nothing and sends nothing."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from hubbub.http.server import serving
from producers import BudgetSpent, Client, DeliveryError, HttpPublisher, NotAllowed, Stopped
from producers.publishers import http_publisher
from producers.publishers.frames import OutgoingFrame, pane_of
from producers.publishers.spool import STATE, Spool
from tests.queries import make_query

TOKEN = "t" * 32
NOW = 1_700_000_000.0
QUERY = make_query(name="page", domain=4, oracle="grr", answers="fresh", budget=1e9, period="10s", lateness="2d")


class Gateway:
    """A gateway whose state a test sets, with the requests that it got."""

    def __init__(self):
        self.is_stopped, self.refuses, self.has_state, self.is_silent = False, None, True, False
        self.digest = QUERY.digest.hex()
        self.paths, self.tokens, self.reports = [], [], []

    async def answer(self, request):
        self.paths.append(request.path)
        self.tokens.append(request.headers.get("Authorization"))
        if self.is_silent:
            return web.Response(status=503)
        if request.path == "/v1/reports":
            self.reports.append(await request.read())
            if self.refuses is not None:
                return web.json_response({"reason": self.refuses, "counted": "none"}, status=409)
            return web.json_response({"accepted": 1}, status=202)
        if not self.has_state:
            return web.Response(status=404)
        item = {"digest": self.digest, "item": "0" * 16, "stopped": self.is_stopped, "sample": 1}
        return web.json_response({"queries": {"page": item}, "asked": None})

    def asked(self):
        return self.paths.count("/v1/state")


class Device:
    """A device with clocks that a test moves."""

    def __init__(self, folder):
        self.folder, self.gateway = folder, Gateway()
        self.wall, self.monotonic = NOW, 100.0
        self.client = Client(QUERY, ":memory:", max_epsilon=8.0, clock=lambda: self.wall)

    def sleep(self, seconds):
        self.wall += seconds
        self.monotonic += seconds

    @asynccontextmanager
    async def publisher(self):
        app = web.Application()
        app.add_routes([web.route("*", "/{path:.*}", self.gateway.answer)])
        async with serving(app, "127.0.0.1", 0, drain=1.0) as (host, port):
            publisher = HttpPublisher(
                f"http://{host}:{port}",
                queue=self.folder,
                token=TOKEN,
                clock=lambda: self.wall,
                monotonic=lambda: self.monotonic,
            )
            await publisher.start()
            try:
                yield publisher
            finally:
                await publisher.close()

    @property
    def charge(self):
        return self.client.status().life


@pytest.fixture
def device(tmp_path, monkeypatch):
    monkeypatch.setattr(http_publisher, "_FIRST_PAUSE", 0.001)
    return Device(tmp_path / "queue")


def test_an_answer_asks_once_in_ten_minutes_and_without_the_token(device):
    async def run():
        async with device.publisher() as publisher:
            for _ in range(3):
                await publisher.answer(device.client, 1)
                await publisher.flush()
                device.sleep(299)
            device.sleep(10)
            await publisher.answer(device.client, 1)
            await publisher.flush()

    asyncio.run(run())
    assert device.gateway.asked() == 2
    assert len(device.gateway.reports) == 4
    for path, token in zip(device.gateway.paths, device.gateway.tokens, strict=True):
        assert token == (None if path == "/v1/state" else f"Bearer {TOKEN}")


def test_a_stopped_query_costs_nothing_and_sends_nothing_and_goes_on_later(device):
    async def run():
        device.gateway.is_stopped = True
        async with device.publisher() as publisher:
            for _ in range(3):
                with pytest.raises(Stopped):
                    await publisher.answer(device.client, 1)
            assert device.charge == 0.0

            device.gateway.is_stopped = False
            device.sleep(600)
            await publisher.answer(device.client, 1)
            await publisher.flush()

    asyncio.run(run())
    assert device.charge == 1.0
    assert len(device.gateway.reports) == 1


@pytest.mark.parametrize("jump", [(-365 * 86_400.0, 1.0), (365 * 86_400.0, 1.0), (601.0, 0.0), (0.0, 601.0)])
def test_a_clock_that_jumps_makes_the_device_ask_again(device, jump):
    """A frozen monotonic clock is that of a laptop that slept."""

    async def run():
        async with device.publisher() as publisher:
            await publisher.answer(device.client, 1)
            await publisher.flush()
            device.gateway.is_stopped = True
            device.wall += jump[0]
            device.monotonic += jump[1]
            with pytest.raises(Stopped):
                await publisher.answer(device.client, 1)

    asyncio.run(run())
    assert device.gateway.asked() == 2
    assert device.charge == 1.0


def test_a_restart_asks_again_and_is_silent_about_a_stop_without_contact(device):
    async def run():
        async with device.publisher() as publisher:
            await publisher.answer(device.client, 1)
            await publisher.flush()
        assert (device.folder / STATE).exists()

        device.gateway.is_silent = True
        device.sleep(60)
        async with device.publisher() as publisher:
            await publisher.answer(device.client, 1)
        assert device.charge == 2.0, "the lateness is 2 days, so the report may still count"

        device.sleep(2 * 86_400)
        async with device.publisher() as publisher:
            with pytest.raises(DeliveryError, match="lateness of 172800 s"):
                await publisher.answer(device.client, 1)
        assert device.charge == 2.0

    asyncio.run(run())


def test_a_queue_from_before_the_stop_is_deleted_unsent(device):
    reports = QUERY.oracle.perturb([0, 1])
    for report in reports:
        Spool(device.folder).write(OutgoingFrame.of(QUERY.digest, pane_of(QUERY, NOW), report.reshape(1, -1)))

    async def run():
        device.gateway.is_stopped = True
        async with device.publisher() as publisher:
            with pytest.raises(DeliveryError, match=r"2 reports were refused: the query is stopped"):
                await publisher.flush()

    asyncio.run(run())
    assert device.gateway.reports == []
    assert not [*Spool(device.folder).frames()]


def test_a_refusal_as_stopped_makes_the_device_ask_again(device):
    async def run():
        async with device.publisher() as publisher:
            await publisher.answer(device.client, 1)
            await publisher.flush()
            device.gateway.refuses = "stopped"
            device.gateway.is_stopped = True
            device.sleep(10)
            await publisher.answer(device.client, 1)
            with pytest.raises(DeliveryError, match="stopped"):
                await publisher.flush()
            with pytest.raises(Stopped):
                await publisher.answer(device.client, 1)

    asyncio.run(run())
    assert device.gateway.asked() == 2
    assert device.charge == 2.0, "the gateway has read the report, so its charge stays"
    assert not [*Spool(device.folder).frames()]


def test_another_definition_is_not_answered(device):
    async def run():
        device.gateway.digest = "f" * 16
        async with device.publisher() as publisher:
            with pytest.raises(NotAllowed, match="another definition"):
                await publisher.answer(device.client, 1)

    asyncio.run(run())
    assert device.charge == 0.0


def test_a_gateway_of_an_older_release_stops_nothing(device):
    async def run():
        device.gateway.has_state = False
        async with device.publisher() as publisher:
            await publisher.answer(device.client, 1)
            await publisher.flush()

    asyncio.run(run())
    assert len(device.gateway.reports) == 1


def test_a_gateway_that_refuses_what_it_has_read_gets_no_more_than_the_charges_allow(device):
    """A charge is never given back. Otherwise this gateway would read 100 reports for the price of none."""

    async def run():
        device.gateway.refuses = "late"
        spent = 0
        async with device.publisher() as publisher:
            for _ in range(100):
                device.sleep(10)
                try:
                    await publisher.answer(device.client, 1)
                except BudgetSpent:
                    spent += 1
                    continue
                with pytest.raises(DeliveryError, match="409"):
                    await publisher.flush()
        return spent

    assert asyncio.run(run()) == 92
    assert len(device.gateway.reports) == 8
    assert device.charge == 8.0


def test_a_full_queue_is_found_before_the_charge(device):
    async def run():
        device.gateway.is_silent = True
        async with device.publisher() as publisher:
            with pytest.raises(DeliveryError, match="no gateway answered"):
                await publisher.answer(device.client, 1)
            device.gateway.is_silent = False
            publisher._most = 100
            with pytest.raises(DeliveryError, match="the queue is full"):
                await publisher.answer(device.client, 1)

    asyncio.run(run())
    assert device.charge == 0.0
