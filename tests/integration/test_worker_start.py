"""How a worker starts, on which topics it refuses to start, and how it ends before it counts."""

import socket

import pytest

from aggregator.topics.layout import TIMESTAMP
from hubbub.kafka.settings import REPORTS, SNAPSHOTS
from tests.brokers import create_topics
from tests.commands import run_worker
from tests.integration.admin import change_settings, recreate
from tests.integration.queries import PAGE
from tests.integration.workers import Place

HELD = """
import asyncio, os
from aggregator.counting import app
recover = app.CountingApp.recover
async def held(counting):
    while not os.path.exists(os.environ["GO"]):
        await asyncio.sleep(0.01)
    await recover(counting)
app.CountingApp.recover = held
"""
"""A worker that recovers once the file `GO` exists. Otherwise it might be ready before a slow test asks it."""


@pytest.fixture
def place(broker, tmp_path):
    with Place(broker, tmp_path, PAGE) as place:
        yield place


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "hubbub.toml"
    path.write_text(PAGE)
    return path


@pytest.fixture
def on_tansu(tansu, tmp_path):
    with Place(tansu, tmp_path, PAGE) as place:
        yield place


def test_it_is_alive_before_it_is_ready(place, tmp_path):
    worker = place.start(patch=HELD, GO=str(tmp_path / "go"))
    assert worker.get("/healthz") == (200, "ok\n")
    status, text = worker.get("/readyz")
    assert status == 503
    assert text.startswith(("starting:", "recovering:"))
    assert worker.get("/metrics")[0] == 200
    (tmp_path / "go").touch()
    worker.ready()


def test_sigterm_before_it_is_ready_is_exit_code_0(place, tmp_path):
    worker = place.start(patch=HELD, GO=str(tmp_path / "go"))
    assert worker.get("/readyz")[0] == 503
    assert worker.stop() == 0


def test_sigterm_while_it_waits_for_a_silent_broker_is_exit_code_0(tansu, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as silent, Place(tansu, tmp_path, PAGE) as place:
        worker = place.start("--kafka", f"127.0.0.1:{silent.getsockname()[1]}")
        connection, _ = silent.accept()
        with connection:
            assert worker.stop() == 0


def where(kafka, file):
    embedded = ["--embedded"] if kafka.embedded else []
    return ["--kafka", kafka.servers, "--prefix", kafka.prefix, "--queries", file, "--port", "0", *embedded]


def test_a_port_in_use_is_exit_code_2(on_tansu, capsys, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert run_worker(monkeypatch, *where(on_tansu.kafka, on_tansu.file), "--port", port) == 2
    assert f"127.0.0.1:{port} cannot be listened on: " in (output := capsys.readouterr().err)
    assert "another --port" in output


def test_missing_topics_are_exit_code_4(broker, file, capsys, monkeypatch):
    assert run_worker(monkeypatch, *where(broker.kafka("nobody."), file)) == 4
    assert "nobody.reports: there is no such topic; run `hubbub topics`" in capsys.readouterr().err


def test_topics_with_other_numbers_of_partitions_are_exit_code_4(broker, file, capsys, monkeypatch):
    kafka = create_topics(broker, 2)
    recreate(kafka, SNAPSHOTS, 3)
    assert run_worker(monkeypatch, *where(kafka, file)) == 4
    output = capsys.readouterr().err
    assert "snapshots: has 3 partitions, not 2; " in output
    assert "run `hubbub topics`" in output


def test_record_times_of_the_clients_are_exit_code_4(kafka, file, capsys, monkeypatch):
    where_it_is = create_topics(kafka, 2)
    change_settings(where_it_is, REPORTS, {TIMESTAMP: "CreateTime"})
    assert run_worker(monkeypatch, *where(where_it_is, file)) == 4
    assert f"{TIMESTAMP} is CreateTime, but must be LogAppendTime; run `hubbub topics`" in capsys.readouterr().err


def test_a_worker_that_cannot_tick_exits_because_idle_partitions_would_stop(on_tansu):
    break_it = """
from aggregator.worker.ticks import TickWriter
async def write(*_): raise OSError('no tick')
TickWriter.write = write
"""
    worker = on_tansu.start(patch=break_it)
    assert worker.wait() == 1
    assert [event["message"] for event in worker.events() if event["level"] == "critical"] == ["OSError('no tick')"]
