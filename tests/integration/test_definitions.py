"""Definitions that change through the topic while workers run. Finals equal those of `fold`, byte for byte."""

import asyncio
import re
import signal
import threading
import time
from contextlib import contextmanager
from itertools import chain, product

import orjson
import pytest
from aiokafka.client import AIOKafkaClient

from aggregator.reading.audit import command as audit
from hubbub.definitions.follower import Follower
from hubbub.definitions.registrar import Registrar
from oracles.query import load_file
from tests.integration.workers import Place, until
from tests.queries import make_table, make_text

PAGE_TIMES = {"crowd": 1, "pane": "1s", "lateness": "1s", "skew": "2s", "windows": ["1s", "4s/2s", "all"]}
PAGE = make_text("page", PAGE_TIMES, emit_every="1s", domain=["a", "b", "c"], oracle="grr", epsilon=2.0)
PATIENT = PAGE.replace('lateness = "1s"', 'lateness = "3s"').replace('"4s/2s", "all"', '"3s"')
SITE = make_text(
    "site", crowd=1, domain=50, oracle="olh", budget=100.0, pane="1s", lateness="1s", skew="2s", windows=["2s", "all"]
)
FINER = SITE.replace("epsilon = 1.0", "epsilon = 2.0")


@contextmanager
def crowd(place, texts):
    """Send reports of every query of all these files all the time, even before a query is active."""
    over = threading.Event()
    queries = {}
    for text in texts:
        place.define(text)
        queries |= {query.digest: query for query in place.queries.values()}
    place.define(texts[0])

    def run():
        while not over.wait(0.1):
            now = int(time.time())
            frames = [
                (partition, place.encode(query, values, pane))
                for query, (partition, values, pane) in product(
                    queries.values(), ((0, [0, 0, 1], now), (1, [1, 2], now), (0, [2], now - 3))
                )
            ]
            place.send(*frames)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@pytest.fixture
def place(kafka, tmp_path):
    with Place(kafka, tmp_path, PAGE) as place:
        yield place


def histories_of(place, name):
    """Return the histories of the definitions with this name."""
    return [history for history in place.definitions().versions.values() if history.query.name == name]


def versions_of(place, name):
    """Return the versions of a query in their order."""
    return [version for history in histories_of(place, name) for version in history.versions]


def wait_for_version(place, name, count):
    """Wait until a query has `count` versions and the newest one applies. Return it."""
    version = until(lambda: (all_of := versions_of(place, name)) and len(all_of) >= count and all_of[-1])
    until(lambda: time.time() > version.first + 2)
    return version


def partial_windows(verdict):
    """Return the windows of final records with flag `partial` as (query, kind, size)."""
    records = [orjson.loads(value) for value in verdict.expected.values()]
    partial = [record for record in records if "partial" in record.get("quality", {}).get("flags", ())]
    return {(r["query"], r["window"]["kind"], r["window"]["size"]) for r in partial}


def check_audit(place, since, capsys):
    """Check that the audit finds no fault at first, then a record that the test changes."""
    where = ["--kafka", place.kafka.servers, "--prefix", place.kafka.prefix]

    def text_of_audit():
        """Return what the audit prints, or nothing if it finds a fault."""
        capsys.readouterr()
        return capsys.readouterr().out if audit.main(where) == 0 else ""

    # The window `all` goes on for a while, and a busy worker may publish its next final after the audit.
    assert re.match(r"(\d+) of \1 records match the log\n", until(text_of_audit))
    part = ["--from", str(since), "--to", str(since + 6)]
    assert audit.main([*where, *part]) == 0, capsys.readouterr()
    assert "windows since the start" in capsys.readouterr().out
    # Of any pane in this part, because a slow machine sends no report in some.
    ends = [f"|tumbling|1|1|{since + second}".encode() for second in range(1, 7)]
    key = next(key for key in place.finals() if key.startswith(b"page|") and key.endswith((*ends,)))
    place.send((0, b"{}", key), topic="estimates")
    place.send((1, b"{}", key), topic="estimates")
    assert audit.main([*where, *part]) == 4
    assert f"{key.decode()}: differs from the log" in capsys.readouterr().err


@pytest.mark.waits
def test_a_running_worker_follows_its_file_and_the_topic(place, capsys):
    with crowd(place, [PAGE, PAGE + SITE]):
        one, second_worker = (place.start().ready() for _ in range(2))
        place.wait_for_ticks()
        place.define(PATIENT + SITE)
        version = wait_for_version(place, "site", 1)
        assert version.first > 0
        assert len(wait_for_version(place, "page", 2).query.windows) == 2
        place.file.write_text("[queries.page")
        until(lambda: all(worker.total("hubbub_definitions_refused") for worker in (one, second_worker)))
        place.define(PAGE)  # it lacks a query that nobody retires
        one.signal(signal.SIGHUP)
        until(lambda: "active queries are missing (1): site" in one.log_text)
        assert len(versions_of(place, "page")) == 2
        place.define(PAGE + SITE)
        wait_for_version(place, "page", 3)
        until(lambda: not one.total("hubbub_definitions_refused"))
    verdict = place.verdict()
    assert verdict.exact, verdict
    assert not partial_windows(verdict), "each window lies whole within one version"
    check_audit(place, version.first, capsys)
    assert {record.key.decode().partition("|")[0] for record in place.read("estimates")} == {"page", "site"}
    assert one.running
    assert second_worker.running


def test_no_fetch_waits_before_a_read_of_the_topic(place, monkeypatch):
    """A broker answers the requests of a connection in turn. Behind a fetch that waits, counting would wait too."""
    requests, send = [], AIOKafkaClient.send

    async def sent(client, node, request, **options):
        requests.append(type(request).__name__)
        return await send(client, node, request, **options)

    async def run():
        async with Follower(place.kafka) as follower:
            monkeypatch.setattr(AIOKafkaClient, "send", sent)
            for _ in range(5):
                await follower.read()
                await asyncio.sleep(0.2)
            idle = requests.copy()
            await Registrar(place.file, follower).register(load_file(place.file))
            return idle, follower.definitions

    idle, versions = asyncio.run(run())
    assert any("Offset" in name for name in idle)
    assert not [name for name in idle if "Fetch" in name]
    assert [version.query.name for version in versions.versions.values()] == ["page"]


def test_an_unreadable_record_is_skipped_and_a_tombstone_removes_it(place):
    place.define_in_topic(place.queries)
    definition = make_table(domain={"file": "/etc/passwd"}, pane="1s")
    for value in (b"{", orjson.dumps({"query": "page", "retired": False, "definition": definition})):
        place.send((0, value, b"0011223344556677|v0"), topic="queries")
    worker = place.start().ready()
    assert worker.total("hubbub_definitions_unread") == 1
    assert "unreadable records of the topic queries are skipped (1)" in worker.log_text
    assert "a file is not allowed here" in worker.log_text
    place.send((0, place.frame("page", [0, 1])))
    place.send((0, None, b"0011223344556677|v0"), topic="queries")
    until(lambda: not worker.total("hubbub_definitions_unread"))
    verdict = place.verdict()
    assert verdict.exact, verdict
    assert verdict.reports == 2


def test_a_file_without_an_active_query_is_exit_code_2_and_the_error_names_it(place):
    place.define(PAGE + SITE)
    place.define_in_topic(place.queries)
    place.define(PAGE)
    worker = place.start()
    assert worker.wait() == 2
    assert "active queries are missing (1): site" in worker.log_text
    assert "--retire site" in worker.log_text
    assert not any(version.retired for version in versions_of(place, "site"))
    second_worker = place.start("--retire", "site", "--retire", "page").ready()
    assert [version.retired for version in versions_of(place, "site")] == [False, True]
    assert "cannot retire page" in second_worker.log_text


def test_a_worker_with_an_older_revision_follows_the_topic_and_logs_it(place):
    place.define("revision = 7\n" + PAGE + SITE)
    new = place.start().ready()
    assert not new.total("hubbub_definitions_behind")
    place.define("revision = 6\n" + PATIENT)
    old = place.start().ready()
    until(lambda: old.total("hubbub_definitions_behind") == 1)
    until(lambda: new.total("hubbub_definitions_behind") == 1)  # its own file has become the older one
    assert "has an older revision than the topic" in old.log_text
    assert len(versions_of(place, "page")) == len(versions_of(place, "site")) == 1


@pytest.mark.long
def test_rolling_restarts_of_three_workers_under_load(place):
    """Queries are added, changed, retired and rolled back. One worker has an old file in the middle of a roll."""
    number = 0

    def roll(text, retire=()):
        nonlocal workers, number
        number += 1
        place.define(f"revision = {number}\n{text}")
        options = [*chain.from_iterable(("--retire", name) for name in retire)]
        for index in range(len(workers)):
            workers[index].stop()
            if index == 1:  # one that was not there in time comes back with the file of before
                place.define(f"revision = {number - 1}\n{PAGE}")
                stale = place.start(*options).ready()
                until(lambda stale=stale: stale.total("hubbub_definitions_behind"))
                stale.stop()
                place.define(f"revision = {number}\n{text}")
            workers[index] = place.start(*options).ready()

    with crowd(place, [PAGE, PAGE + SITE, PAGE + FINER]):
        workers = [place.start().ready() for _ in range(3)]
        place.wait_for_ticks()
        roll(PAGE + SITE)
        wait_for_version(place, "site", 1)
        roll(PATIENT + FINER)
        wait_for_version(place, "page", 2)
        roll(PATIENT, retire=["site"])
        until(lambda: all(history.newest.retired for history in histories_of(place, "site")))
        end = max(history.newest.first for history in histories_of(place, "site"))
        until(lambda: time.time() > end + 2)
        roll(PAGE + SITE)
        wait_for_version(place, "page", 3)
    verdict = place.verdict()
    assert verdict.exact, verdict
    assert ("page", "tumbling", 1) not in partial_windows(verdict)
    assert verdict.reports > 300
