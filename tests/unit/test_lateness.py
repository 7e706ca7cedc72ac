"""What a worker says about late finals: gauges, lines of the log, and the words of its readiness."""

import asyncio
import logging
import time

import pytest
from aiohttp import web
from prometheus_client import generate_latest

from aggregator.merging.merger import Merger
from aggregator.merging.query_state import QueryState
from aggregator.process.freshness import Unpublished
from aggregator.worker.lateness import LATE, PAUSE, LatenessGauges, LatenessLog, slow_part
from hubbub.command.metrics import registry
from hubbub.definitions.versions import Versions
from hubbub.http.health import health
from tests.unit.test_unpublished import query, snapshot


def lines(*collectors):
    """Return the values of all series without labels, and of those of a query, by name."""
    process_registry = registry()
    for collector in collectors:
        process_registry.register(collector)
    text = generate_latest(process_registry).decode().splitlines()
    return {
        line.split()[0]: float(line.split()[1]) for line in text if line.startswith("hubbub_") and "build" not in line
    }


def test_the_gauges_are_absent_until_the_first_recovery_is_over():
    gauges = LatenessGauges(lambda: 3, lambda: time.time() - 100)
    unpublished = Unpublished(lambda: {"homepage": None}, lambda: gauges.reading_lag is not None)
    names = {"hubbub_lag_seconds", "hubbub_publish_lag_seconds", "hubbub_owed_finals"}
    names.add('hubbub_unpublished_age_seconds{query="homepage"}')
    assert not names & lines(gauges, unpublished).keys()
    gauges.reading_lag = 0.5
    values = lines(gauges, unpublished)
    assert names <= values.keys()
    assert values["hubbub_owed_finals"] == 3
    assert 100 <= values["hubbub_publish_lag_seconds"] < 160


def test_the_publish_lag_counts_from_the_window_and_not_from_the_process():
    definition = query(windows=["10s"])
    state = QueryState(Merger(Versions.of(definition), 1))
    state.merger.take(1000, 0, snapshot(1))
    assert state.owed_since() is None, "its pane is open"
    state.merger.mark(0, 1010)
    assert state.owed_since() == state.versions.due(1010) == 1010 + definition.lateness
    state.collect()
    assert state.owes(1)
    assert state.owed_since() == 1010 + definition.lateness
    state.answer([], {})
    assert state.owed_since() == 1010 + definition.lateness, "nobody has acknowledged it"
    assert state.settle() == [1010]
    assert state.owed_since() is None


def test_the_oldest_of_many_owed_windows_counts():
    state = QueryState(Merger(Versions.of(query(windows=["10s", "1m"])), 1))
    for pane in range(1020, 1080, 10):
        state.merger.take(pane, 0, snapshot(1))
    state.merger.mark(0, 1080)
    assert state.count_owed() == 7
    assert state.owed_since() == 1035


def look(log, moment, late, *, owed=7, reading_lag=0.0, write_age=0.0, monkeypatch=None):
    monkeypatch.setattr("hubbub.outside.wall", lambda: moment)
    log.look(moment - late, count_owed=lambda: owed, reading_lag=reading_lag, write_age=write_age)


def test_late_finals_are_one_line_a_minute_and_one_when_they_are_in_time_again(caplog, monkeypatch):
    caplog.set_level(logging.INFO)
    log = LatenessLog()
    for second in range(0, 300, 10):
        look(log, 1_800_000_000 + second, LATE + 20 + second, monkeypatch=monkeypatch)
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == 300 / PAUSE
    words = "finals are 80 s late: the oldest was due at 2027-01-15 07:58:40 UTC, 7 closed windows wait"
    assert warnings[0] == f"{words}, and the slow part is estimating"
    assert log.remark == "finals are 370 s late"
    caplog.clear()
    for second in (310, 320):
        look(log, 1_800_000_000 + second, 3, monkeypatch=monkeypatch)
    assert [record.getMessage() for record in caplog.records] == ["finals are in time again"]
    assert log.remark is None


@pytest.mark.parametrize(
    ("reading_lag", "write_age", "part"),
    [(0, 30, "Kafka"), (200, 0, "reading"), (200, 30, "Kafka"), (1, 1, "estimating")],
)
def test_the_slow_part_is_named(reading_lag, write_age, part):
    assert slow_part(300, reading_lag, write_age).startswith(part)


@pytest.mark.parametrize(
    ("reason", "remark", "status", "text"),
    [
        (None, None, 200, "ready\n"),
        (None, "finals are 124 s late", 200, "ready; finals are 124 s late\n"),
        ("recovering", "finals are 124 s late", 503, "recovering\n"),
    ],
)
def test_readiness_says_that_finals_are_late(reason, remark, status, text):
    async def metrics(_):
        return web.Response()

    handlers = health(metrics, lambda: reason, lambda: remark)
    response = asyncio.run(handlers["/readyz"](None))
    assert (response.status, response.text) == (status, text)
