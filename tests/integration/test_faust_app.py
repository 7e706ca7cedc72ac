"""hubbub.faust in a Faust app of one's own: kills, stops and a rebalance count no frame twice.

The broker is Apache Kafka. The embedded one states ends that are too low, at which a recovery of Faust gives up.
"""

import asyncio
import json
import secrets
import signal
import subprocess
import sys
import time
from pathlib import Path

import faust
import numpy as np
import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from hubbub.faust import tallies
from oracles.errors import ParameterError
from oracles.frame import encode, encode_json
from oracles.query import load
from tests.queries import make_query
from tests.slowness import patience

PROGRAM = Path(__file__).with_name("faust_program.py")
ROOT = PROGRAM.parents[2]
STARTS = tuple(int(time.time()) // 10 * 10 - 60 + 10 * number for number in range(3))
"""Windows of the last minute, because Faust removes old ones by the clock of the machine."""
QUERIES = """
edition = 2
[queries.q]
domain = ["a", "b", "c"]
epsilon = 2.0
oracle = "grr"
pane = "2s"
"""


class App:
    """One process of the app, and what it has written."""

    def __init__(self, server, name, folder, number=0):
        self.output = folder / f"output{number}"
        files = folder / "queries.toml", self.output, folder / f"data{number}"
        command = [sys.executable, PROGRAM, server, name, "2", *files]
        self.process = subprocess.Popen([*command, *map(str, STARTS)], cwd=ROOT)

    def read(self):
        return json.loads(self.output.read_text()) if self.output.exists() else {"partitions": [], "windows": {}}

    def wait(self, condition, seconds=60):
        """Wait for a state of the output."""
        end = time.monotonic() + patience(seconds)
        while not condition(state := self.read()):
            assert self.process.poll() is None, "the app has ended"
            assert time.monotonic() < end, state
            time.sleep(0.1)
        return state

    def end(self, number):
        self.process.send_signal(number)
        self.process.wait(patience(60))
        self.output.unlink(missing_ok=True)


def total(state):
    return sum(window["n"] for window in state["windows"].values())


class Sender:
    """Frames of one or two reports on two partitions, and their sums by window."""

    def __init__(self, query, server, topic):
        self.query, self.server, self.topic = query, server, topic
        self.rng = np.random.default_rng(1)
        self.state = {start: query.only_oracle.zeros() for start in STARTS}
        self.n = dict.fromkeys(STARTS, 0)

    def send(self, count, *others):
        asyncio.run(self._send(count, others))

    async def _send(self, count, others):
        producer = AIOKafkaProducer(bootstrap_servers=self.server, enable_idempotence=True)
        await producer.start()
        for number in range(count):
            pane = STARTS[0] + 2 * int(self.rng.integers(0, 15))
            reports = self.query.only_oracle.perturb(self.rng.integers(0, 3, 1 + number % 2), self.rng)
            start = pane - pane % 10
            self.query.only_oracle.add(self.state[start], reports)
            self.n[start] += len(reports)
            write = encode_json if number % 7 == 0 else encode
            await producer.send(self.topic, write(self.query.digest, pane, reports), partition=number % 2)
        for value in others:
            await producer.send(self.topic, value, partition=0)
        await producer.stop()

    @property
    def total(self):
        return sum(self.n.values())

    def check(self, state):
        """Check that no window has too many, and return what is missing, by window."""
        missing = {}
        for start in STARTS:
            window = state["windows"].get(str(start), {"n": 0})
            assert window["n"] <= self.n[start], "counted twice"
            if window["n"] == self.n[start]:
                expected = self.query.only_oracle.estimate(self.state[start], self.n[start]).shares.tolist()
                assert window["shares"] == expected
            else:
                missing[start] = self.n[start] - window["n"]
        return missing


@pytest.fixture
def name():
    """Return the name of the app and its topic. Tests of one process share a broker, and may not share frames."""
    return f"frames-{secrets.token_hex(4)}"


@pytest.fixture
def start(kafka, name, tmp_path):
    """Return a function that starts an app. What still runs at the end of a test is killed."""
    apps = []

    def begin(number=0):
        apps.append(App(kafka.bootstrap, name, tmp_path, number))
        return apps[-1]

    yield begin
    for app in apps:
        app.process.kill()
        app.process.wait()


@pytest.fixture
def sender(kafka, name, tmp_path):
    (tmp_path / "queries.toml").write_text(QUERIES)

    async def create():
        admin = AIOKafkaAdminClient(bootstrap_servers=kafka.bootstrap)
        await admin.start()
        await admin.create_topics([NewTopic(name, 2, 1)])
        await admin.close()

    asyncio.run(create())
    return Sender(load(tmp_path / "queries.toml")["q"], kafka.bootstrap, name)


def test_an_app_counts_and_goes_on_after_a_kill(sender, start):
    foreign = encode(b"another!", STARTS[0], np.zeros((1, 1), np.uint8))
    odd_pane = encode(sender.query.digest, STARTS[0] + 1, np.zeros((1, 1), np.uint8))
    late = encode(sender.query.digest, STARTS[0] - 100_000, np.zeros((1, 1), np.uint8))
    sender.send(200, foreign, odd_pane, b"nonsense", late)
    app = start()
    state = app.wait(lambda state: total(state) == sender.total)
    assert state["refused"] == {"digest": 1, "malformed": 2, "late": 1}
    assert state["estimated"] == [*STARTS]
    assert sender.check(state) == {}

    app.end(signal.SIGKILL)
    sender.send(100)
    app = start()
    state = app.wait(lambda state: len(state["partitions"]) == 2 and total(state) == sender.total)
    app.end(signal.SIGTERM)
    assert sender.check(state) == {}


def settled(app):
    """Return what the app has written when its counts have not changed for some seconds."""
    last, since = None, time.monotonic()
    while time.monotonic() - since < patience(5):
        state = app.read()
        if state != last:
            last, since = state, time.monotonic()
        time.sleep(0.2)
    return last


@pytest.mark.long
def test_kills_stops_and_a_rebalance_count_no_frame_twice(sender, start):
    """Faust can lose frames whose write to the changelog failed. The message lists them, and none is counted twice."""
    ends = [signal.SIGKILL, signal.SIGTERM, signal.SIGKILL, signal.SIGTERM, signal.SIGKILL]
    for number in ends:
        app = start()
        before = total(app.wait(lambda state: len(state["partitions"]) == 2))
        sender.send(500)
        app.wait(lambda state, before=before: total(state) > before)
        app.end(number)

    app = start()
    app.wait(lambda state: len(state["partitions"]) == 2)
    other = start(1)
    other.wait(lambda state: len(state["partitions"]) == 1)
    sender.send(500)
    app.wait(lambda state: len(state["partitions"]) == 1)
    other.end(signal.SIGTERM)
    # During a recovery Faust runs no timer, so the file is old until the table is read.
    app.wait(lambda state: len(state["partitions"]) == 2 and total(state) > before)
    missing = sender.check(settled(app))
    app.end(signal.SIGTERM)
    assert sum(missing.values()) < sender.total / 10, f"reports that Faust lost, by window: {missing}"


def test_other_queries_and_windows_are_refused():
    app = faust.App("refused", broker="kafka://127.0.0.1:1", web_enabled=False, autodiscover=False)
    with pytest.raises(ParameterError, match="several attributes"):
        tallies(app, make_query({"attributes": {"a": 2, "b": 3}}), "frames")
    for window in (0, -2, 3):
        with pytest.raises(ParameterError, match="multiple of the pane, 2 s"):
            tallies(app, make_query({"domain": 3, "pane": "2s"}), "frames", window=window)
