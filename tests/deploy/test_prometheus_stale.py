"""A real Prometheus with the intervals of deploy/ tells clients that stop from a worker that dies. It takes minutes."""

import os
import time
from contextlib import ExitStack

import pytest

from aggregator.demo.broker import free_port
from tests.boards import Board
from tests.deploy.observers import Alertmanager, Prometheus, until, webhook
from tests.integration.crowds import crowd
from tests.integration.workers import Place
from tests.queries import make_text

pytestmark = [pytest.mark.xdist_group("prometheus"), pytest.mark.long]

QUERIES = make_text(
    "page", crowd=1, domain=8, oracle="grr", epsilon=4.0, budget=1000.0, pane="1s", windows=["10s"], lateness="2s"
)
SCRAPE = "15s"
AFTER = 240
"""Seconds after which a stale query would have raised the alert: two minutes, the age of its final, and scrapes."""


class Installation:
    """A worker, a board, crowds, and Prometheus with the intervals and pauses of deploy/prometheus."""

    def __init__(self, stack, broker, folder):
        token = folder / "board-token"
        token.write_text("0123456789abcdef")
        port, _ = stack.enter_context(webhook())
        alertmanager = stack.enter_context(Alertmanager(port))
        ports = {job: free_port() for job in ("hubbub-worker", "hubbub-board")}
        addresses = {job: [f"127.0.0.1:{port}"] for job, port in ports.items()}
        self.prometheus = stack.enter_context(Prometheus(addresses, alertmanager.port, token, SCRAPE))
        self.place = stack.enter_context(Place(broker, folder, QUERIES))
        self.worker = self.place.start(HUBBUB_PORT=str(ports["hubbub-worker"])).ready()
        access = {**os.environ, "HUBBUB_TOKEN_FILE": str(token)}
        stack.enter_context(Board(self.place.kafka, port=ports["hubbub-board"], env=access))

    def crowd(self):
        """Start a crowd, and wait until Prometheus sees its reports and finals."""
        process = crowd(self.place, "page", "--port", 0, "--clients", 2000, "--seed", 5)
        until(lambda: self.value("hubbub:reports:rate5m") > 0, "reports", 120)
        until(lambda: 0 < self.value("hubbub:newest_final_age:seconds") < 30, "a new final", 120)
        return process

    def value(self, name):
        """Return the newest value of a series of the query, or 0 if there is none."""
        series = self.prometheus.query(f'{name}{{query="page", namespace="compose", release="hubbub"}}')
        return float(series[0]["value"][1]) if series else 0.0

    def alert(self, state):
        """Return the series of the alert in a state."""
        return self.prometheus.query(f'ALERTS{{alertname="HubbubFinalsStale", alertstate="{state}"}}')


@pytest.fixture
def installation(tansu, tmp_path):
    with ExitStack() as stack:
        yield Installation(stack, tansu, tmp_path)


def test_clients_that_stop_raise_no_alert_and_a_worker_that_dies_does(installation):
    process = installation.crowd()
    process.kill()
    start = time.monotonic()
    while time.monotonic() < start + AFTER:
        assert not installation.alert("pending")
        assert not installation.alert("firing")
        time.sleep(5)
    assert installation.value("hubbub:newest_final_age:seconds") > AFTER / 2  # finals are old by then
    assert installation.value("hubbub:unpublished_age:seconds") == 0
    installation.crowd()
    installation.worker.kill()
    until(lambda: installation.alert("firing"), "the alert after the death of the worker", AFTER)
    [alert] = installation.alert("firing")
    labels = {name: alert["metric"][name] for name in ("query", "namespace", "release", "severity")}
    assert labels == {"query": "page", "namespace": "compose", "release": "hubbub", "severity": "critical"}
    until(lambda: installation.prometheus.query('ALERTS{alertname="HubbubNoWorker", alertstate="firing"}'), "the other")
