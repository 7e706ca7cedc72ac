"""A board process, and the records that workers would publish for a simulated crowd."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPConnection
from types import SimpleNamespace

import numpy as np
import orjson
from aiokafka import AIOKafkaProducer

from aggregator.merging.place_counts import answer_counts, fewest
from aggregator.records.span import Span
from aggregator.tallies.snapshot import Snapshot, merge_snapshots
from hubbub.definitions import catalog
from hubbub.kafka.clients import client_arguments, started
from oracles.query import File
from tests import forks
from tests.queries import make_queries, make_table
from tests.results import build, window_result
from tests.slowness import patience

# A value that a page must never take for markup.
HOSTILE = "<script>alert(1)</script>"
PANE = 10
START = 1_700_000_000
WINDOWS = [f"{PANE}s", f"1m/{PANE}s"]
FRESH = {"answers": "fresh", "budget": 1e9, "pane": f"{PANE}s"}
MILLISECONDS = {"low": 10, "high": 60000, "bins": 256, "scale": "log", "unit": "ms"}
SITES = "news mail maps shop video music wiki games photos weather sports travel recipes books chat radio garden"
PAGES = [f"{site}.example" for site in (*SITES.split(), "trains", "chess")] + ["a,b"]
FUN = ["video.example", "music.example", "games.example"]
TABLE = make_table(domain=[*PAGES, HOSTILE], oracle="olh", budget=1e9, pane=f"{PANE}s", windows=[*WINDOWS, "all"])
SMP = make_table(attributes={"age": 8, "sex": ["f", "m"]}, solution="smp", epsilon=2.0, budget=1e9, pane=f"{PANE}s")
QUERIES = make_queries(
    {"homepage": TABLE | {"methods": ["norm_sub", "calibrate"], "sets": {"fun": FUN}}, "profile": SMP}
)
HOMEPAGE, PROFILE = QUERIES["homepage"], QUERIES["profile"]
WEIGHTS = 1.0 / np.arange(1, 23) ** 0.9
COMMAND = "import sys; from aggregator.board.command import main; sys.exit(main(sys.argv[1:]))"
SURGE_POSITION = 13
"""The position of the value that surges."""


@dataclass
class Crowd:
    """A simulated crowd, its answers pane by pane, and the records that workers publish for them."""

    query: object
    clients: int = 20_000
    seed: int = 1
    start: int = START
    surge: int | None = None
    """The pane from which one value is more common."""

    def __post_init__(self):
        self.rng = np.random.default_rng(self.seed)
        self.snapshots, self.truth, self.states = [], [], {}

    def answers(self, pane):
        sizes = [domain.size for domain in self.query.domains]
        if len(sizes) > 1:
            return np.column_stack([self.rng.integers(0, size, self.clients) ** 2 // size for size in sizes])
        weights = np.resize(WEIGHTS, sizes[0]).copy()
        if self.surge is not None and pane >= self.surge:
            weights[SURGE_POSITION] += 0.35
        return self.rng.choice(sizes[0], self.clients, p=weights / weights.sum())

    def next(self):
        """Yield the true counts, finals and alerts of the next pane as messages."""
        pane = len(self.snapshots)
        values = self.answers(pane)
        oracle = self.query.oracle
        state = oracle.zeros()
        refusals = oracle.add(state, oracle.perturb(values, self.rng))
        self.snapshots.append(Snapshot(len(values) - refusals, refusals, 17 if pane % 3 == 0 else 0, 0, state))
        yield "truth", *self._truth(pane, values)
        for window in self.query.windows:
            size = window.size // PANE or pane + 1
            end = self.start + PANE * (pane + 1)
            if (pane + 1) * PANE % (window.step or PANE) or pane + 1 < size:
                continue
            result = self.result(Span(window, end - size * PANE, end))
            self.states[window] = result.decision.states
            yield from (("estimates", *record) for record in result.window.records)
            yield from (("alerts", *alert) for alert in result.decision.alerts)

    def result(self, span):
        first_pane, last_pane = ((moment - self.start) // PANE for moment in (span.start, span.end))
        total = merge_snapshots(self.snapshots[first_pane:last_pane], self.query.oracle.state_size)
        return window_result(self.query, span, total, states=self.states.get(span.window, []))

    def provisional(self):
        """Return a provisional record of the next tumbling window, with the reports of the last one."""
        window = self.query.windows[0]
        end = self.start + PANE * (len(self.snapshots) + 1)
        result = build(self.query, Span(window, end - PANE, end), self.snapshots[-1], through=end)
        ((key, value),) = result.records
        return "estimates", key, value

    def _truth(self, pane, values):
        columns = values.reshape(len(values), -1).T
        counts = [np.bincount(c, minlength=d.size).tolist() for c, d in zip(columns, self.query.domains, strict=True)]
        moment = self.start + PANE * pane
        body = {"query": self.query.name, "digest": self.query.digest.hex(), "pane": moment, "source": "test"}
        body["counts"] = counts if self.query.attributes else counts[0]
        return f"{self.query.name}|{moment}|test".encode(), orjson.dumps(body)


AGE = {"low": 0, "high": 128, "bins": 64, "unit": "years"}
AGES = make_table(SMP | FRESH, attributes={"age": AGE, "sex": ["f", "m"]}, ranges={"age": {"adult": [18, 128]}})
LOADS = make_table(FRESH, domain=MILLISECONDS, ranges={"slow": [1000, 60000]}, epsilon=2.0)
NUMBERS = make_queries({"load_time": LOADS | {"windows": WINDOWS}, "visit": AGES}, edition=2)
LOAD_TIME, VISIT = NUMBERS["load_time"], NUMBERS["visit"]
"""A query of numbers, and one with an attribute whose answers are numbers."""


class NumberCrowd(Crowd):
    """A crowd whose page loads are log-normal, or whose ages are normal. From `surge` on pages load half as fast."""

    def answers(self, pane):
        if self.query.attributes:
            ages = self.query.domains[0].scale.positions(self.rng.normal(40.0, 12.0, self.clients))
            return np.column_stack([ages, self.rng.integers(0, self.query.domains[1].size, self.clients)])
        return self.query.domains[0].scale.positions(self.times(pane))

    def times(self, pane):
        slower = 2.0 if self.surge is not None and pane >= self.surge else 1.0
        return slower * self.rng.lognormal(6.3, 0.8, self.clients)


PLATFORMS = {"platform": ["ios", "android", "web"]}
WEIGHTS_OF_PLATFORMS = {"ios": 0.28, "android": 0.72, "web": 0}
NAMES_OF_SCREENS = ["home", "search", "cart", "help", "news", "map", "chat", "orders", "login", "video", "sync", "tips"]
GROUPED = make_table(FRESH, domain=NAMES_OF_SCREENS, groups=PLATFORMS, oracle="oue", epsilon=2.0, windows=WINDOWS)
GROUPS = make_queries(
    {
        "screens": GROUPED | {"weights": WEIGHTS_OF_PLATFORMS, "methods": ["norm_sub"]},
        "load": LOADS | {"groups": PLATFORMS},
    }
)
SCREENS, LOAD = GROUPS["screens"], GROUPS["load"]
"""Queries with groups: of values, and of numbers."""


class GroupCrowd(Crowd):
    """A crowd of three platforms that differ. Few answer without a platform."""

    clients_by_group = (30, 9_000, 4_000, 2_000)
    """The clients without a group, and those of each group."""

    def next(self):
        """Yield the records of the next pane as messages."""
        pane = len(self.snapshots)
        oracle = self.query.oracle
        cells, parts = oracle.state_size, []
        for group, clients in enumerate(self.clients_by_group):
            tally = oracle.zeros()
            oracle.add(tally, oracle.perturb(self.answers_of(group, clients), self.rng))
            # Group 0 has its numbers in the snapshot itself. Every other group has three numbers after its cells.
            parts.append(tally)
            if group:
                parts.append([clients, 0, 0])
        assert len(parts[0]) == cells
        self.snapshots.append(Snapshot(sum(self.clients_by_group), 0, 0, 0, np.concatenate(parts)))
        end = self.start + PANE * (pane + 1)
        for window in self.query.windows:
            size = window.size // PANE or pane + 1
            if pane + 1 >= size:
                records = self.record(Span(window, end - size * PANE, end))
                yield from (("estimates", *record) for record in records.records)

    def record(self, span):
        first_pane, last_pane = ((moment - self.start) // PANE for moment in (span.start, span.end))
        panes = self.snapshots[first_pane:last_pane]
        total = merge_snapshots(panes, len(panes[0].counts))
        reasons = ["small" if fewest(n) < self.query.crowd else None for n in answer_counts(self.query, total)]
        return build(self.query, span, total, reasons)

    def answers_of(self, group, clients):
        if self.query.domain.scale is not None:
            return self.query.domain.scale.positions(self.rng.lognormal(6.3 + 0.5 * (group == 2), 0.8, clients))
        weights = WEIGHTS[: self.query.domain.size].copy()
        weights[2] += 0.8 * (group == 2)  # the cart on android
        return self.rng.choice(len(weights), clients, p=weights / weights.sum())


def withheld(message, reason="small"):
    """Return the message of a record as a worker writes it if the window shows no values."""
    topic, key, value = message
    record = orjson.loads(value)
    unknown = ("sigma", "detectable", "significance", "shift_per_fake", "n_independent", "central", "numbers")
    record |= {"version": 3, "n": 0, **dict.fromkeys((*unknown, "weighted", "discover"))}
    record |= {name: [] for name in ("values", "stderr", "low", "high")} | {"sets": {}}
    methods = record.get("shares", {"unbiased": []})
    record |= {lists: {method: [] for method in methods} for lists in ("shares", "hitters")}
    record["refused"] = {"duplicate": 0, "implausible": 0}
    risk = dict.fromkeys(record["quality"]["risk"])
    record["quality"] = {"sum": None, "prior_rejected": False, "risk": risk, "flags": [reason]}
    return topic, key, orjson.dumps(record)


def status_message(query, closed_through, newest_report, **more):
    """Return the message of a query's status. Times are ends of panes."""
    times = {"closed_through": closed_through, "newest_report": newest_report, **more}
    body = {"query": query.name, "digest": query.digest.hex(), **times}
    return "status", f"{query.name}|{query.digest.hex()}".encode(), orjson.dumps(body)


def definition_messages(queries=QUERIES):
    """Return the messages that define the queries."""
    writes = catalog.changes(File(queries), catalog.Definitions(), (), "0" * 16).writes
    return [("queries", *write) for write in writes]


def publish(kafka, messages, partition=None):
    """Send each message to the partition of its key, or all to one partition, as a worker does for a query.

    A message has its topic, key and value, and perhaps its time in milliseconds.
    """

    async def run():
        producer = AIOKafkaProducer(**client_arguments(kafka), max_request_size=16 << 20)
        async with started(producer, kafka):
            for topic, key, value, *times in messages:
                own_partition = 0 if topic == "queries" else partition
                time_ms = times[0] if times else None
                await producer.send(kafka.topic(topic), value, key=key, partition=own_partition, timestamp_ms=time_ms)
            await producer.flush()

    in_thread(lambda: asyncio.run(run()))


def in_thread(work):
    """Run `work` in another thread, because Playwright keeps an event loop running in this one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(work).result()


class Board:
    """A `hubbub board` process."""

    def __init__(self, kafka, *options, port=0, env=None, stderr=subprocess.PIPE):
        address = ["--kafka", kafka.servers, "--prefix", kafka.prefix, "--port", str(port)]
        command = [sys.executable, "-c", COMMAND, *address, *options]
        # All tests have one address, and some ask for more in a second than a person can.
        env = {"HUBBUB_BOARD_RATE": "max", **(env or os.environ)}
        self.process = forks.start(command, stdout=subprocess.PIPE, stderr=stderr, text=True, env=env)
        self.url = self.process.stdout.readline().split()[-1] if self.process.stdout else ""
        self.port = int(self.url.rstrip("/").rsplit(":", 1)[1])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop(signal.SIGKILL)

    def stop(self, number=signal.SIGTERM):
        """Stop the board. Return its exit code and its standard error."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        _, stderr = self.process.communicate(timeout=patience(20))
        return self.process.returncode, stderr

    def get(self, path, method="GET", **headers):
        """Return the status, headers and body of a response."""
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=patience(10))) as connection:
            connection.request(
                method, f"/{path}", headers={name.replace("_", "-"): text for name, text in headers.items()}
            )
            response = connection.getresponse()
            return SimpleNamespace(status=response.status, headers=response.headers, body=response.read())

    def json(self, path, **headers):
        return orjson.loads(self.get(path, **headers).body)

    def until(self, holds, seconds=30.0):
        """Return the first true result of `holds`."""
        # The limit only ends a hang. It grows with the slowness of the machine.
        begin = time.monotonic()
        result = holds()
        while not result:
            assert time.monotonic() - begin < patience(seconds), "the condition did not become true"
            time.sleep(0.05)
            result = holds()
        return result

    def ready(self):
        self.until(self._is_ready)
        return self

    def _is_ready(self):
        assert self.process.poll() is None, self.process.communicate()[1]
        return self.get("readyz").status == 200
