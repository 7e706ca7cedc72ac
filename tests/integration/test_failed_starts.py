"""A worker that fails to start has changed nothing in any topic. Each way to fail has its exit code and its words."""

import asyncio
import json
import secrets
import socket
import threading
from contextlib import ExitStack, contextmanager

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition

from aggregator.demo.broker import free_port
from aggregator.topics import command as topics
from aggregator.topics.layout import TIMESTAMP
from hubbub.definitions import formats
from hubbub.definitions.formats import NEWEST
from hubbub.kafka.clients import client_arguments, consumer, started
from hubbub.kafka.settings import REPORTS, STATUS, WORKER
from oracles.query import load
from tests.commands import run_worker
from tests.integration.admin import administer, change_settings, delete
from tests.integration.queries import PAGE
from tests.integration.workers import Place, until
from tests.slowness import patience


@pytest.fixture
def place(kafka, tmp_path):
    with Place(kafka, tmp_path, PAGE) as place:
        yield place


def ends(kafka):
    """Return the end of every partition of every topic of the prefix."""

    async def run(admin):
        names = [topic for topic in await admin.list_topics() if topic.startswith(kafka.prefix)]
        counts = {topic["topic"]: len(topic["partitions"]) for topic in await admin.describe_topics(names)}
        async with started(consumer(kafka), kafka) as reader:
            return await reader.end_offsets([TopicPartition(name, p) for name in names for p in range(counts[name])])

    return administer(kafka, run)


@contextmanager
def older_member(kafka):
    """Keep a member in the group that has the client id of Faust, as workers of older releases have."""
    name = f"faust-{secrets.token_hex(4)}"
    has_joined = threading.Event()
    is_over = threading.Event()

    async def run():
        group = kafka.topic(WORKER)
        member = AIOKafkaConsumer(
            kafka.topic(REPORTS), group_id=group, client_id=name, enable_auto_commit=False, **client_arguments(kafka)
        )
        async with started(member, kafka):
            while not is_over.is_set():
                await member.getmany(timeout_ms=50)
                if member.assignment():
                    has_joined.set()

    thread = threading.Thread(target=asyncio.run, args=(run(),))
    thread.start()
    try:
        assert has_joined.wait(patience(30))
        yield
    finally:
        is_over.set()
        thread.join()


def wrong_option(_place, _stack):
    return ["--leave"]


def wrong_file(place, _stack):
    place.file.write_text(place.file.read_text().replace('oracle = "grr"', 'oracle = "none"'))
    return []


def taken_port(_place, stack):
    listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
    return ["--port", listener.getsockname()[1]]


def absent_broker(_place, _stack):
    return ["--kafka", f"127.0.0.1:{free_port()}"]


def lower_formats(place, _stack):
    # Topics of an older release also lack one, which the raise creates.
    delete(place.kafka, {place.kafka.topic(STATUS)})
    place.send((0, None, formats.KEY), topic="queries")
    return ["--upgrade-patience", 1]


def higher_formats(place, _stack):
    value = json.dumps({"version": NEWEST + 1, "release": "9.1.0"}).encode()
    place.send((0, value, formats.KEY), topic="queries")
    return []


def older_worker(place, stack):
    stack.enter_context(older_member(place.kafka))
    return ["--upgrade-patience", 1]


def missing_topic(place, _stack):
    delete(place.kafka, {place.kafka.topic(STATUS)})
    return []


def wrong_setting(place, _stack):
    change_settings(place.kafka, REPORTS, {TIMESTAMP: "CreateTime"})
    return []


def missing_query(place, _stack):
    other_file = place.folder / "other.toml"
    other_file.write_text(PAGE.replace("queries.page", "queries.other"))
    place.define_in_topic(load(other_file))
    return []


WAYS = [
    (wrong_option, 2, "--leave needs --instance"),
    (wrong_file, 2, "oracle"),
    (taken_port, 2, "cannot be listened on"),
    (absent_broker, 3, "cannot be reached"),
    (lower_formats, 4, "run `hubbub topics --raise-formats`"),
    (higher_formats, 4, "install release 9.1.0"),
    (older_worker, 4, "Stop them first"),
    (missing_topic, 4, "there is no such topic"),
    (wrong_setting, 4, "must be LogAppendTime"),
    (missing_query, 2, "--retire other"),
]


@pytest.mark.parametrize(("prepare", "code", "words"), WAYS, ids=[prepare.__name__ for prepare, _, _ in WAYS])
def test_a_start_that_fails_changes_nothing(place, capsys, monkeypatch, prepare, code, words):
    where = ["--kafka", place.kafka.servers, "--prefix", place.kafka.prefix, "--queries", place.file, "--port", 0]
    with ExitStack() as stack:
        options = prepare(place, stack)
        earlier_ends = ends(place.kafka)
        try:
            exit_code = run_worker(monkeypatch, *where, *options)
        except SystemExit as ending:
            exit_code = ending.code
        assert (exit_code, words in capsys.readouterr().err) == (code, True)
        assert ends(place.kafka) == earlier_ends


def test_a_worker_on_topics_of_an_older_release_waits_until_they_are_raised(place):
    lower_formats(place, None)
    worker = place.start()
    assert worker.get("/healthz") == (200, "ok\n")
    until(lambda: "waiting: the topics have formats version 1" in worker.log_text)
    status, text = worker.get("/readyz")
    assert (status, text.partition(":")[0]) == (503, "starting")
    assert not any(name.startswith("hubbub_") for name in worker.metrics())
    where = ["--kafka", place.kafka.servers, "--prefix", place.kafka.prefix]
    assert topics.main([*where, "--raise-formats"]) == 0
    worker.ready()
    until(lambda: worker.metrics()["hubbub_lag_seconds"])
