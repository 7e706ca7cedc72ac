"""A token of a file sees the queries that the file names, and nothing of any other."""

import asyncio
import json
from functools import cache
from hashlib import sha256
from itertools import chain

import pytest
from aiohttp import ClientSession

from aggregator.board.server.events import Events
from aggregator.board.server.metrics import BoardMetrics
from aggregator.board.server.route import ROUTES
from aggregator.board.server.server import application, health_handlers
from aggregator.board.server.viewers import ViewerFile
from hubbub.file_watch import FileWatch
from hubbub.http.server import serving
from oracles.errors import QueryError
from tests.boards import HOMEPAGE, PANE, START, Crowd
from tests.unit.test_board_store import store

WHOLE, LINK = "whole", "link"
FILE = f"""
[tokens.friends]
sha256 = ["{sha256(LINK.encode()).hexdigest()}"]
queries = ["prof*"]
"""
PUBLIC = '[public]\nqueries = ["nothing"]\n'


class Following:
    missing, problem = None, None

    def state(self):
        return {"now": 0, "ready": True, "problem": None, "notice": None}


def ask_all(path, token, *requests):
    """Return status and text of each answer of a board with this file and the token `whole`. A request has a token."""
    board = store(messages(), clock=lambda: START + 3 * PANE)
    metrics = BoardMetrics(board)
    viewers = FileWatch([path], lambda: ViewerFile.read(path))
    handlers = health_handlers(Following(), metrics, token, "127.0.0.1", viewers)
    app = application(board, Events(), Following(), metrics, token, "127.0.0.1", handlers, viewers)

    async def run():
        async with serving(app, "127.0.0.1", 0, drain=1.0, cancel=True) as (host, port), ClientSession() as session:
            answers = []
            for place, own_token in requests:
                headers = {"Authorization": f"Bearer {own_token}"} if own_token else {}
                async with session.get(f"http://{host}:{port}{place}", headers=headers) as answer:
                    answers.append((answer.status, await answer.text()))
            return answers

    return asyncio.run(run())


@cache
def messages():
    """Return the records of three windows."""
    crowd = Crowd(HOMEPAGE, clients=20_000, surge=1)
    return [*chain.from_iterable(crowd.next() for _ in range(3))]


@pytest.fixture
def path(tmp_path):
    place = tmp_path / "viewers.toml"
    place.write_text(FILE)
    return place


LISTS = ["/api/v1/overview", "/api/v1/queries", "/api/v1/alerts"]


def test_the_token_of_the_board_sees_all_and_another_only_its_queries(path):
    answers = ask_all(path, WHOLE, *((place, token) for token in (WHOLE, LINK) for place in LISTS))
    assert [status for status, _ in answers] == [200] * 6
    assert all("homepage" in text for _, text in answers[:3])
    assert all("homepage" not in text for _, text in answers[3:])
    assert "profile" in answers[3][1]
    assert json.loads(answers[5][1])["alerts"] == []


@pytest.mark.parametrize("route", [route for route in ROUTES if route.of_query], ids=lambda route: route.name)
def test_a_query_that_a_token_does_not_see_is_unknown(path, route):
    place = route.path.format(query="homepage")
    (status, text), (other_status, other_text) = ask_all(
        path, WHOLE, (place, LINK), (route.path.format(query="absent"), LINK)
    )
    assert status == other_status == 404
    assert text == other_text.replace("absent", "homepage"), "the answer does not tell that it exists"


def test_alerts_and_metrics_of_other_queries_are_hidden(path):
    alerts, of_absent, metrics, whole = ask_all(
        path,
        WHOLE,
        ("/api/v1/alerts?query=homepage", LINK),
        ("/api/v1/alerts?query=absent", LINK),
        ("/metrics", LINK),
        ("/metrics", WHOLE),
    )
    assert alerts[0] == of_absent[0] == 404
    assert alerts[1] == of_absent[1].replace("absent", "homepage")
    assert "hubbub_share" not in metrics[1]
    assert "homepage" in whole[1]


def test_without_a_token_only_public_queries_are_seen(path):
    requests = [("/api/v1/overview", None), ("/api/v1/overview", "wrong"), ("/openapi.json", None)]
    overview, wrong, description = ask_all(path, WHOLE, *requests)
    assert overview[0] == wrong[0] == 401
    assert "homepage" not in description[1]
    assert "securitySchemes" in description[1]

    path.write_text(FILE + PUBLIC.replace("nothing", "home*"))
    for token in (WHOLE, None):
        overview, wrong, estimate = ask_all(path, token, *requests[:2], ("/api/v1/queries/homepage/estimate", None))
        assert overview[0] == estimate[0] == 200
        assert "homepage" in overview[1]
        assert "profile" not in overview[1]
        assert wrong[0] == 401


def test_a_listener_gets_events_of_its_queries_only():
    async def run():
        events = Events()
        with events.join(("192.0.2.0/24",), None, lambda name: name == "a") as queue:
            for name in ("a", "b"):
                events.send("record", {"query": name}, name)
            events.send("beat", {})
            return [queue.get_nowait() for _ in range(queue.qsize())]

    messages = asyncio.run(run())
    assert [message.split(b"\n")[0] for message in messages] == [b"event: record", b"event: beat"]
    assert b'"a"' in messages[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[tokens.a]\nsha256 = ['x']\nqueries = ['q']", "64 hex digits"),
        ("[tokens.a]\nsha256 = []\nqueries = ['q']", "must be a list of one or more"),
        (f"[tokens.a]\nsha256 = ['{'0' * 64}']", "queries: is missing"),
        ("[tokens.a]\nqueries = ['q']", "sha256"),
        ("[public]\nqueries = ['']", "the name of a query"),
        ("[public]\nquery = ['a']", "unknown key"),
        ("[other]", "unknown key"),
    ],
)
def test_a_wrong_file_is_refused(tmp_path, text, message):
    path = tmp_path / "viewers.toml"
    path.write_text(text)
    with pytest.raises(QueryError, match=message):
        ViewerFile.read(path)


def test_a_name_with_a_star_is_a_pattern(path):
    sight = ViewerFile.read(path).of(LINK)
    names = ["profile", "prof", "pro", "a-profile", "Profile"]
    assert list(filter(sight.sees, names)) == ["profile", "prof"]
    assert ViewerFile.read(path).of("wrong") is None
