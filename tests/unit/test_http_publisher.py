"""A publisher over HTTP refuses addresses that would carry its token in clear, and tries again until it is answered."""

import asyncio
import time

import numpy as np
import pytest
from aiohttp import web

from hubbub.http.server import serving
from oracles.errors import ParameterError
from oracles.query.public_definition import public_definition
from producers import DeliveryError, HttpPublisher, NotAllowed
from producers.pins import pins_of
from producers.publishers import http_publisher
from tests.queries import make_query

QUERY = make_query(name="page", domain=4, oracle="grr")
REPORT = np.zeros((1, 1), np.uint8)


@pytest.mark.parametrize("url", ["http://gateway.example", "ftp://127.0.0.1", "127.0.0.1:8802", ""])
def test_a_token_is_not_sent_in_clear(url, tmp_path):
    with pytest.raises(ParameterError, match="https"):
        HttpPublisher(url, queue=tmp_path)


def publish(folder, answer, work, **more):
    """Do some work with a publisher to a gateway that gives these answers."""

    async def run():
        app = web.Application()
        app.add_routes([web.post("/v1/reports", answer), web.get("/v1/queries", answer)])
        async with serving(app, "127.0.0.1", 0, drain=1.0) as (host, port):
            publisher = HttpPublisher(f"http://{host}:{port}", queue=folder, **more)
            await publisher.start()
            try:
                await work(publisher)
            finally:
                await publisher.close()

    asyncio.run(run())


def failing(times, mistake=None):
    """Return a function of tokens that fails so many times, like one whose server cannot be reached."""
    failures = iter(range(times))

    def token():
        if next(failures, None) is not None:
            if mistake is None:
                raise ConnectionError("no network")
            return mistake
        return "fresh\n"

    return token


@pytest.mark.parametrize(
    "mistake", [pytest.param("<html>\n<h1>502</h1>\n</html>", id="a page"), pytest.param(b"bytes", id="bytes"), None]
)
def test_reports_wait_for_a_function_of_tokens_that_fails(tmp_path, monkeypatch, mistake):
    monkeypatch.setattr(http_publisher, "_FIRST_PAUSE", 0.01)
    tokens = []

    async def answer(request):
        tokens.append(request.headers["Authorization"])
        return web.json_response({"accepted": 1}, status=202)

    async def work(publisher):
        await publisher.put(QUERY, REPORT)
        await publisher.flush()

    publish(tmp_path, answer, work, token=failing(3, mistake))
    assert tokens == ["Bearer fresh"]
    assert not [*tmp_path.iterdir()]


async def unreached(_):
    raise AssertionError


def test_a_publisher_names_the_failure_of_a_function_of_tokens(tmp_path):
    async def work(publisher):
        await publisher.put(QUERY, REPORT)
        with pytest.raises(DeliveryError, match=r"1 reports are not accepted .*`token` failed: .*no network"):
            await publisher.flush()
        with pytest.raises(DeliveryError, match=r"did not list its queries .*no network"):
            await publisher.query("page", max_epsilon=1.0)

    publish(tmp_path, unreached, work, token=failing(100), patience=0.1)
    assert len([*tmp_path.iterdir()]) == 1, "the next publisher sends it"


def test_a_definition_outside_the_pins_is_refused(tmp_path):
    async def answer(_):
        return web.json_response({"queries": [public_definition(QUERY)]})

    async def work(publisher):
        pinned = pins_of(QUERY)
        assert await publisher.query(QUERY.name, max_epsilon=8.0, pinned=pinned) == QUERY
        with pytest.raises(NotAllowed, match="pins period to at least"):
            await publisher.query(QUERY.name, max_epsilon=8.0, pinned={**pinned, "period": QUERY.period + 1})
        with pytest.raises(ParameterError, match="unknown member"):
            await publisher.query(QUERY.name, max_epsilon=8.0, pinned={"domian": 1})

    publish(tmp_path, answer, work)


def test_a_pane_without_room_for_keys_holds_up_no_other_pane(tmp_path):
    pane = int(time.time()) // 10 * 10
    panes, is_put = [], asyncio.Event()

    async def answer(request):
        body = await request.read()
        await is_put.wait()
        panes.append(int.from_bytes(body[16:24], "little"))
        if panes[-1] == pane:
            return web.json_response({"status": 429, "reason": "ids", "counted": "unknown"}, status=429)
        return web.json_response({"accepted": 1}, status=202)

    async def work(publisher):
        for _ in range(http_publisher._REQUESTS):
            await publisher.put(QUERY, REPORT, at=pane)
        await publisher.put(QUERY, REPORT, at=pane + 10)
        is_put.set()
        with pytest.raises(DeliveryError, match=r'4 reports were refused: 429 .*"ids"'):
            await publisher.flush()
        await publisher.flush()

    publish(tmp_path, answer, work, patience=5.0)
    assert sorted(panes) == [pane] * 4 + [pane + 10]
    assert not [*tmp_path.iterdir()]


LONG = ("2592000", "99999", "1e400", "3601", "Infinity")


@pytest.mark.parametrize("header", [*LONG, "-5", "nan", "soon", "Fri, 31 Dec 2099 23:59:59 GMT"])
def test_a_pause_is_an_hour_at_most_and_never_nothing(tmp_path, monkeypatch, header):
    """The JavaScript client has the same rule and the same test."""
    pauses = []
    has_paused = asyncio.Event()

    def note_pause(tries, requested_pause, pause=http_publisher._pause):
        pauses.append(pause(tries, requested_pause))
        has_paused.set()
        return pauses[-1]

    monkeypatch.setattr(http_publisher, "_pause", note_pause)

    async def answer(_):
        return web.json_response({"reason": "rate"}, status=429, headers={"Retry-After": header})

    async def work(publisher):
        await publisher.put(QUERY, REPORT)
        await has_paused.wait()

    publish(tmp_path, answer, work)
    assert 0 < pauses[0] <= 3600
    if header in LONG:
        assert pauses == [3600]
