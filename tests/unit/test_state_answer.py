"""GET /v1/state and the refusals of the gateway while a query is stopped."""

import asyncio
import gzip
import json
from hashlib import sha256

import pytest
from aiohttp import ClientSession, web

from hubbub.definitions import stop_record
from hubbub.definitions.catalog import TopicRecord, changes, read
from hubbub.http.problem import Problem
from hubbub.http.rates import NetworkRates
from hubbub.http.server import serving
from oracles.frame import encode
from oracles.query import File
from oracles.query.public_definition import public_definition
from producers.gateway.intake.active_definitions import ServedDefinitions
from producers.gateway.intake.pipeline import Intake
from producers.gateway.intake.submission import FRAMES, Submission
from producers.gateway.intake.submission import read as read_body
from producers.gateway.openapi import SCHEMAS
from tests.queries import make_query

NOW = 1_000_000
PAGE = make_query(name="page", domain=["a", "b"], oracle="grr", skew="30s", pane="10s")
OTHER = make_query(name="other", domain=["ä", "b"], oracle="grr")
FIRST_PANE = NOW + 40
RESUMED_PANE = NOW + 140


def log(*, is_stopped=False, is_resumed=False):
    writes = changes(File({"page": PAGE, "other": OTHER}), read([]), (), "0" * 16).writes
    records = [TopicRecord(*write, 1000 * (NOW - 1000)) for write in writes]
    if is_stopped:
        records.append(TopicRecord(*stop_record.write("page", "1", is_stopped=True), 1000 * NOW))
    if is_resumed:
        records.append(TopicRecord(*stop_record.write("page", "2", is_stopped=False), 1000 * (NOW + 100)))
    return records


def served(**steps):
    definitions = read(log(**steps))
    return ServedDefinitions(definitions.versions, definitions.stops)


def state(definitions, second):
    return json.loads(definitions.state(second).plain.body)["queries"]


def listed(definitions, second):
    return [query["name"] for query in json.loads(definitions.listing(second).text)["queries"]]


def test_the_state_has_the_digest_and_the_hash_of_each_item():
    queries = state(served(), NOW)
    assert list(queries) == ["other", "page"]
    for query in (PAGE, OTHER):
        text = json.dumps(public_definition(query), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        item = sha256(text.encode()).hexdigest()[:16]
        assert queries[query.name] == {"digest": query.digest.hex(), "item": item, "stopped": False, "sample": 1}
        assert queries[query.name].keys() == set(
            SCHEMAS["state"]["properties"]["queries"]["additionalProperties"]["required"]
        )


def test_a_query_is_stopped_at_once_and_goes_on_with_the_pane_of_the_resume():
    during_stop = served(is_stopped=True)
    assert state(during_stop, NOW)["page"]["stopped"]
    assert listed(during_stop, NOW) == ["other"], "an older client must find nothing to answer"

    after_resume = served(is_stopped=True, is_resumed=True)
    assert state(after_resume, RESUMED_PANE - 1)["page"]["stopped"], "workers still refuse its panes"
    assert not state(after_resume, RESUMED_PANE)["page"]["stopped"]
    assert listed(after_resume, RESUMED_PANE) == ["other", "page"]
    assert state(after_resume, RESUMED_PANE)["page"] == state(served(), NOW)["page"]


def refusal(definitions, pane):
    body = encode(PAGE.digest, pane, PAGE.oracle.perturb([0, 1]))
    with pytest.raises(Problem) as error:
        read_body(body, FRAMES, definitions, 1000 * pane, 1 << 20)
    problem = error.value
    return problem.status, problem.more["reason"], problem.more.get("counted")


def test_a_gateway_refuses_every_pane_of_a_stopped_query_and_those_of_the_stop_afterwards():
    assert refusal(served(is_stopped=True), NOW) == (409, "stopped", "none")
    assert refusal(served(is_stopped=True), FIRST_PANE) == (409, "stopped", "none")

    after_resume = served(is_stopped=True, is_resumed=True)
    assert refusal(after_resume, RESUMED_PANE - 10) == (409, "stopped", "none")
    for pane in (FIRST_PANE - 10, RESUMED_PANE):
        body = encode(PAGE.digest, pane, PAGE.oracle.perturb([0, 1]))
        assert read_body(body, FRAMES, after_resume, 1000 * pane, 1 << 20)[0].n == 2


def test_reports_that_wait_in_a_mix_buffer_are_refused_too():
    class Appender:
        async def append(self, frames):
            raise AssertionError("nothing of a stopped query may reach Kafka")

    class Definitions:
        value = served(is_stopped=True)

    async def run():
        intake = Intake(Appender(), Definitions(), 1 << 20, linger=0.0, clock=lambda: NOW)
        submission = Submission(PAGE, NOW, PAGE.oracle.perturb([0, 1]), 1000 * (NOW + 60))
        with pytest.raises(Problem) as error:
            await intake.mix([submission])
        assert (error.value.status, error.value.more) == (409, {"reason": "stopped", "counted": "none"})

    asyncio.run(run())


@pytest.mark.parametrize("encoding", ["gzip", "identity"])
@pytest.mark.parametrize("version", ["1.1", "close"])
def test_a_cache_may_keep_the_answer_and_every_page_may_read_it(encoding, version):
    definitions = served()

    async def handle(request):
        return definitions.state(NOW).answer(request)

    async def run():
        app = web.Application()
        app.add_routes([web.get("/v1/state", handle)])
        async with (
            serving(app, "127.0.0.1", 0, drain=1.0) as (host, port),
            ClientSession(auto_decompress=False) as session,
        ):
            headers = {"Accept-Encoding": encoding} | ({"Connection": "close"} if version == "close" else {})
            async with session.get(f"http://{host}:{port}/v1/state", headers=headers) as answer:
                return answer.headers, await answer.read()

    headers, body = asyncio.run(run())
    text = gzip.decompress(body) if encoding == "gzip" else body
    assert headers.get("Content-Encoding") == (encoding if encoding == "gzip" else None)
    assert json.loads(text)["queries"].keys() == {"page", "other"}
    assert headers["Cache-Control"] == "public, max-age=10"
    assert headers["Access-Control-Allow-Origin"] == "*"
    assert headers["Vary"] == "Accept-Encoding"
    assert headers["Content-Type"].startswith("application/json")
    assert not {"Set-Cookie", "ETag"} & headers.keys()


def test_a_query_needs_fewer_than_100_bytes():
    queries = {f"query.{number}": make_query(name=f"query.{number}", domain=number + 2) for number in range(200)}
    definitions = ServedDefinitions.of(queries)
    assert len(definitions.state(NOW).compact.body) < 100 * len(queries)


def test_the_answer_is_made_once_a_second():
    definitions = served()
    assert definitions.state(NOW + 0.1) is definitions.state(NOW + 0.9)
    assert definitions.state(NOW) is not definitions.state(NOW + 1)


def test_a_cheap_request_takes_a_part_of_the_rate():
    rates = NetworkRates(2.0)
    path = ("/24", "address")
    assert [rates.take(path, 0.0, 0.125) for _ in range(16)] == [0.0] * 16
    assert rates.take(path, 0.0, 0.125) == 0.125 / 2
    assert rates.take(path, 0.0) == 0.5
