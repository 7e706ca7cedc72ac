"""Real workers on real brokers, with functions that feed them and judge their records."""

import asyncio
import os
import secrets
import signal
import sys
import time
import urllib.error
import urllib.request
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import numpy as np
import orjson
import pytest
from aiokafka import AIOKafkaProducer, TopicPartition
from prometheus_client.parser import text_string_to_metric_families

from aggregator.publishing.finals.final import ResultSequence
from aggregator.records.maps_record import maps_name
from hubbub.definitions import catalog
from hubbub.definitions.catalog import TopicRecord
from hubbub.kafka.clients import client_arguments, consumer, started
from oracles.frame import MAX_FRAME, TICK, encode
from oracles.query import File, load
from tests import forks
from tests.brokers import create_topics
from tests.fold import closed_windows, finals
from tests.slowness import patience

HUBBUB = Path(sys.executable).with_name("hubbub")
EITHER = pytest.mark.parametrize("broker", ["kafka", pytest.param("tansu", marks=pytest.mark.long)], indirect=True)
"""Promises that do not depend on the broker. They are tested with Kafka, and in `make test-all` with both brokers."""
PATIENCE = 60.0
"""Seconds after which an event that must come counts as absent, on an idle machine."""


def command(patch=None):
    """Return the command that starts a worker. `patch` is code that runs first and breaks or hastens it."""
    if patch is None:
        return [str(HUBBUB), "worker"]
    return [
        sys.executable,
        "-c",
        f"{patch}\nimport sys\nfrom hubbub.__main__ import main\nsys.exit(main(['worker', *sys.argv[1:]]))",
    ]


def environment(kafka, queries):
    return {
        **os.environ,
        "HUBBUB_KAFKA": kafka.servers,
        "HUBBUB_PREFIX": kafka.prefix,
        "HUBBUB_QUERIES": str(queries),
        "HUBBUB_EMBEDDED": str(int(kafka.embedded)),
        "HUBBUB_PORT": "0",
        "HUBBUB_BOARD_RATE": "max",
        # Several workers share two cores, and threads of the linear algebra would only wait for one another.
        "OPENBLAS_NUM_THREADS": "1",
    }


def until(condition, seconds=PATIENCE):
    """Return the first true result of a condition."""
    begin = time.monotonic()
    result = condition()
    while not result:
        # The load may grow while this waits, so the limit is computed anew.
        assert time.monotonic() - begin < patience(seconds), "the condition did not become true"
        time.sleep(0.05)
        result = condition()
    return result


class Worker:
    """One process of `hubbub worker`."""

    def __init__(self, start, env, folder, name, begin=forks.start):
        self._output = folder / f"{name}.out"
        self._log = folder / f"{name}.log"
        with self._output.open("wb") as output, self._log.open("wb") as log:
            self.process = begin(start, env=env, stdout=output, stderr=log)

    @property
    def address(self):
        """Its HTTP address, once it has printed it."""
        return until(lambda: self.running and self._output.read_text().partition("http://")[2].partition("/")[0])

    @property
    def running(self):
        assert self.process.poll() is None, f"it ended with {self.process.returncode}: {self.log_text}"
        return True

    @property
    def log_text(self):
        return self._log.read_text()

    def events(self, message=None):
        """Return the events of its log, or those with this message."""
        lines = [orjson.loads(line) for line in self.log_text.splitlines()]
        return [line for line in lines if message in (None, line["message"])]

    def events_of(self, level):
        return [event for event in self.events() if event["level"] == level]

    def get(self, path):
        """Return the status and the text of a page."""
        try:
            with urllib.request.urlopen(f"http://{self.address}{path}", timeout=patience(10)) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.code, refused.read().decode()

    def ready(self):
        until(lambda: self.running and self.get("/readyz")[0] == 200)
        return self

    def metrics(self):
        """Return the samples as (labels, value), by the name of the metric."""
        samples = defaultdict(list)
        for family in text_string_to_metric_families(self.get("/metrics")[1]):
            for sample in family.samples:
                samples[sample.name].append((sample.labels, sample.value))
        return samples

    def total(self, name, **labels):
        """Return the sum of a metric over all samples with these labels."""
        return sum(value for has, value in self.metrics()[name] if labels.items() <= has.items())

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def wait(self, seconds=PATIENCE):
        """Return its exit code."""
        return self.process.wait(patience(seconds))

    def stop(self):
        """Send SIGTERM, and return the exit code within ten seconds of an idle machine, as a supervisor does."""
        self.process.terminate()
        return self.process.wait(patience(10))

    def end(self):
        if self.process.poll() is None:
            # A stopped process does not end on SIGTERM, and a test may have left it so.
            self.signal(signal.SIGCONT)
            self.kill()


class Place:
    """A prefix with its topics, a query file, and the workers that are started there.

    `begin` starts a process. A fork saves the imports, so benchmarks take `subprocess.Popen`.
    """

    def __init__(self, broker, folder, queries, partitions=2, *, kafka=None, begin=forks.start, **settings):
        self._begin = begin
        self.kafka = kafka or create_topics(broker, partitions, **settings)
        self.partitions = partitions
        self.folder = folder
        self.file = folder / "hubbub.toml"
        self.workers = []
        self.sent_at = 0.0
        self.define(queries)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for worker in self.workers:
            worker.end()

    def define(self, text):
        """Write the query file."""
        self.file.write_text(text)
        self.queries = load(self.file)

    def start(self, *options, patch=None, **env):
        env = {**environment(self.kafka, self.file), **env}
        worker = Worker([*command(patch), *options], env, self.folder, f"worker-{len(self.workers)}", self._begin)
        self.workers.append(worker)
        return worker

    def frame(self, name, values, pane=None, number=None):
        """Return a frame of the present pane, or of another one."""
        return self.encode(self.queries[name], values, pane, number)

    def encode(self, query, values, pane=None, number=None):
        """Return a frame of any query."""
        pane = int(time.time()) // query.pane * query.pane if pane is None else pane
        reports = query.oracle.perturb(np.array(values), np.random.default_rng(7))
        return encode(query.digest, pane, reports, number and number.to_bytes(8, "little"))

    def send(self, *frames, topic="reports"):
        """Append these (partition, value[, key]) in order. Return their offsets."""
        self.sent_at = time.time()
        return [record.offset for record in asyncio.run(_send(self.kafka, topic, frames))]

    def read(self, topic, partitions=None):
        """Return all records of a topic up to now."""
        return asyncio.run(read_topics(self.kafka, {topic: partitions or self.partitions}))[topic]

    def log(self):
        """Return the reports up to now, a list of (offset, timestamp, bytes) for each partition. A worker must run."""
        return asyncio.run(read_log(self.kafka, self.partitions))

    def finals(self):
        return asyncio.run(read_finals(self.kafka, self.partitions))

    def published(self):
        return asyncio.run(read_published(self.kafka, self.partitions))

    def wait_for_ticks(self):
        """Wait until every partition has a clock, on the embedded broker too."""
        until(lambda: {r.partition for r in self.read("reports") if r.value == TICK} == {*range(self.partitions)})

    def verdict(self, pane=None, **gate):
        """Return the verdict once every window of the reports up to this pane, or up to now, has its final."""
        longest = max(window.size for window in chain.from_iterable(query.windows for query in self.queries.values()))
        lateness = max(query.lateness for query in self.queries.values())
        # A final exists only after its window and the lateness, so no earlier look can tell a missing one.
        time.sleep(max(0.0, (pane or self.sent_at) + longest + lateness + 0.5 - time.time()))
        # What must be there now. Reports that come meanwhile may add finals, which are right too.
        least = self.expected(**gate)
        until(lambda: least.keys() <= self.published().keys())
        return judge(self.published(), least, self.expected(**gate))

    def expected(self, **gate):
        """Return the final records and the alerts that the log requires, by the definitions of their topic."""
        versions = self.definitions().versions.values()
        return expected(self.log(), versions, self.kafka.dialect.log_has_time, **gate)

    def definitions(self):
        """Return the definitions of the topic."""
        return asyncio.run(read_definitions(self.kafka))

    def define_in_topic(self, queries, *retired):
        """Append the definitions that a worker with these queries and `--retire` would append."""
        asyncio.run(define(self.kafka, queries, *retired))


async def define(kafka, queries, *retired):
    """Append the definitions that a worker with these queries and `--retire` would append."""
    writes = catalog.changes(File(queries), await read_definitions(kafka), retired, secrets.token_hex(8)).writes
    await _send(kafka, "queries", [(0, value, key) for key, value in writes])


async def read_definitions(kafka):
    """Return the definitions of their topic."""
    records = await read_topics(kafka, {"queries": 1})
    return catalog.read(TopicRecord(record.key, record.value, record.timestamp) for record in records["queries"])


async def _send(kafka, topic, frames):
    producer = AIOKafkaProducer(**client_arguments(kafka), acks="all", enable_idempotence=not kafka.embedded)
    async with started(producer, kafka):
        sendings = [await producer.send(kafka.topic(topic), *record, partition=p) for p, *record in frames]
        return await asyncio.gather(*sendings)


async def read_topics(kafka, sizes):
    """Return all records of several topics up to now, by topic. `sizes` has the number of partitions of each."""
    names = {kafka.topic(name): name for name in sizes}
    tps = [TopicPartition(topic, partition) for topic, name in names.items() for partition in range(sizes[name])]
    by_topic = {name: [] for name in sizes}
    async with reader(kafka, tps) as consumer:
        ends = await consumer.end_offsets(tps)
        quiet = not kafka.embedded  # the embedded broker states ends that are too low
        while not (quiet and all([await consumer.position(tp) >= end for tp, end in ends.items()])):
            batches = await consumer.getmany(timeout_ms=500)
            quiet = not (batches and kafka.embedded)
            for tp, records in batches.items():
                by_topic[names[tp.topic]] += records
    return by_topic


async def read_log(kafka, partitions):
    """Return all reports up to now. Ticks show that a partition was read far enough."""
    began = time.time() * 1000
    tps = [TopicPartition(kafka.topic("reports"), p) for p in range(partitions)]
    log = [[] for _ in tps]
    missing = set(tps)
    begin_of_wait = time.monotonic()
    async with reader(kafka, tps) as consumer:
        while missing:
            # The watchdog ends a worker that hangs within one PATIENCE.
            assert time.monotonic() - begin_of_wait < patience(3 * PATIENCE), f"nobody has ticked on {missing}"
            for tp, records in (await consumer.getmany(timeout_ms=200)).items():
                log[tp.partition] += [(r.offset, r.timestamp, r.value) for r in records]
                if records and records[-1].timestamp >= began:
                    missing.discard(tp)
    return log


async def read_finals(kafka, partitions):
    """Return every version of every final record, by key."""
    records = await read_topics(kafka, {"estimates": partitions})
    return versions_by_key(records["estimates"])


async def read_published(kafka, partitions):
    """Return every version of every final record and alert, by key."""
    topics = await read_topics(kafka, dict.fromkeys(("estimates", "alerts", "maps"), partitions))
    # Maps have the key of their final.
    maps = {maps_name(key): values for key, values in versions_by_key(topics["maps"]).items()}
    return versions_by_key(topics["estimates"] + topics["alerts"]) | maps


def versions_by_key(records):
    versions = defaultdict(Counter)
    for record in records:
        if not record.key.endswith(b"|p"):
            versions[record.key][record.value] += 1
    return versions


class reader:
    def __init__(self, kafka, tps):
        # A broker answers in order: what is asked next waits for the fetch before it.
        self.consumer = consumer(kafka, max_partition_fetch_bytes=8 << 20, fetch_max_wait_ms=20)
        self.tps = tps

    async def __aenter__(self):
        await self.consumer.start()
        self.consumer.assign(self.tps)
        await self.consumer.seek_to_beginning()
        return self.consumer

    async def __aexit__(self, *_):
        await self.consumer.stop()


def expected(log, versions, log_has_time, limit=MAX_FRAME, **gate):
    """Return the final records and the alerts that the log requires, by key."""
    records = {}
    results = defaultdict(ResultSequence)
    by_query = defaultdict(list)
    for final in finals(log, versions, log_has_time=log_has_time, limit=limit, **gate):
        by_query[final.versions.query.digest].append(final)
    for definition, final in (window for group in by_query.values() for window in closed_windows(group)):
        query = definition.at(final.span.end - definition.query.pane).query
        result = results[query.digest].next(query, final)
        records |= {**dict(result.window.records), **dict(result.decision.alerts)}
        records |= {maps_name(key): value for key, value in result.window.maps}
    return records


@dataclass
class Verdict:
    """The result of a comparison of a run's records with the expected ones."""

    finals: int = 0
    alerts: int = 0
    reports: int = 0
    """The number of reports in tumbling windows."""
    missing: list = field(default_factory=list)
    extra: list = field(default_factory=list)
    wrong: list = field(default_factory=list)
    contradicting: list = field(default_factory=list)
    losses: int = 0
    """The number of reports that are missing in finals."""
    double: int = 0
    """The number of reports that finals count twice."""
    expected: dict = field(default_factory=dict)
    faults: Counter = field(default_factory=Counter)
    strange: Counter = field(default_factory=Counter)
    """The number of strange records, by topic."""

    @property
    def exact(self):
        return not (self.missing or self.extra or self.wrong or self.contradicting)


def judge(published, least, most):
    """Compare records. All records of `least` must be published, and all published records must be in `most`."""
    verdict = Verdict(missing=[key for key in least if key not in published], expected=most)
    reports = {}
    for key, versions in published.items():
        if len(versions) > 1:
            verdict.contradicting.append(key)
        if key not in most:
            verdict.extra.append(key)
            continue
        right = orjson.loads(most[key])
        verdict.wrong += [key for version in versions if version != most[key]]
        if "maps" in right:
            continue
        if "kind" in right:
            verdict.alerts += 1
            continue
        verdict.finals += 1
        if right["window"]["kind"] == "tumbling":
            reports[right["query"], right["window"]["end"]] = right["n"]  # of each attribute the same, but for smp
        for version in versions:
            more = orjson.loads(version)["n"] - right["n"]
            verdict.losses += max(0, -more)
            verdict.double += max(0, more)
    verdict.reports = sum(reports.values())
    for key in verdict.missing:
        n = orjson.loads(least[key]).get("n", 0)
        if isinstance(n, int):
            verdict.losses += n  # the maps of strings have a number each
    return verdict
