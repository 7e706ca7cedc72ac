"""A campaign of faults. It kills, freezes, stops and adds workers under load, and checks every final.

python tests/faults/campaign.py 1000 --broker kafka --seed 1      (make faults N=1000)

Every final and alert must equal, byte for byte, the record of one process that reads the whole log. If a record is
written twice, both must be equal. The load has good frames, late and future ones, rubbish, and ids that repeat.
"""

import argparse
import asyncio
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from hubbub.kafka.clients import client_arguments

sys.path.insert(0, str(Path(__file__).parents[2]))

from aggregator.topics.broker_topics import alter, describe
from hubbub.kafka.clients import started
from hubbub.kafka.settings import CHANGELOG, CLOCKS, SNAPSHOTS
from oracles.frame import encode, encode_json, partition_of, slots
from oracles.query import load, strings
from tests import forks, strangers
from tests.brokers import Cluster, Tansu, create_topics
from tests.integration.workers import (
    command,
    environment,
    expected,
    judge,
    read_definitions,
    read_log,
    read_published,
    until,
)
from tests.queries import make_text
from tests.slowness import patience
from tests.strangers import STRANGERS, Stranger, Writer

SETTLE = 90.0
"""Seconds after the load until every closed window must have its final."""

TIMES = {"budget": 1e9, "pane": "2s", "lateness": "2s", "skew": "6s", "windows": ["2s", "6s/2s", "all"]}
THREE_SECONDS = TIMES | {"pane": "3s", "lateness": "1s", "windows": ["3s", "9s/3s"]}
PLATFORMS = {"platform": ["ios", "android", "web"]}
GROUPS = {"groups": {"platform": ["ios", "android"]}, "weights": {"ios": 0.3, "android": 0.7}}
FOUR_SECONDS = TIMES | {"pane": "4s", "skew": "8s", "windows": ["4s", "8s"]}
FIVE_SECONDS = TIMES | {"pane": "5s", "skew": "5s", "windows": ["5s", "all"]}
STRINGS = {"domain": {"discover": "text", "length": 4, "cells": 12}, "windows": ["2s", "6s", "all"], "search": "6s"}
NUMBERS = {
    "domain": {"low": 1, "high": 1000, "bins": 64, "scale": "log", "unit": "ms"},
    "ranges": {"slow": [100, 1000]},
}
QUERIES = (
    make_text("marked", TIMES, crowd=1, domain=64, oracle="grr", epsilon=4.0, publish="all", emit_every="1s")
    + make_text("hashed", THREE_SECONDS | GROUPS, crowd=400, domain=1000, oracle="olh", publish="all")
    + make_text("named", FOUR_SECONDS, crowd=1, domain=["a", "b", "c"], oracle="oue", require_id=True)
    + make_text("record", FIVE_SECONDS, crowd=300, attributes={"sex": ["f", "m"], "age": 30}, solution="smp")
    + make_text("strings", TIMES | STRINGS, crowd=50, epsilon=6.0, answers="fresh")
    + make_text("waits", TIMES | NUMBERS, crowd=100, groups=PLATFORMS, epsilon=2.0, emit_every="1s")
)


HASTE = "from oracles.query import strings\nstrings.LEAST_PANE = 1\n"
"""Code that lets a worker take panes of seconds for unknown strings."""
TEXTS = ("oom", "segv", "abrt", "", "日本語", "Naïve", "longer than four")


@dataclass
class Crew:
    """Workers under a supervisor that restarts them, as a deployment does."""

    kafka: object
    folder: Path
    count: int
    patch: str | None = None
    with_names: bool = False
    """Whether each worker has a name in its group, which the process that replaces it has too."""
    workers: list = field(default_factory=list)
    exits: Counter = field(default_factory=Counter)
    over: bool = False

    def __enter__(self):
        self.lock = threading.Lock()
        self.env = environment(self.kafka, self.folder / "hubbub.toml")
        self.scale(self.count)
        self.supervisor = threading.Thread(target=self._supervise)
        self.supervisor.start()
        return self

    def __exit__(self, *_):
        self.over = True
        self.supervisor.join()
        for worker in self.workers:
            worker.send_signal(signal.SIGCONT)
            worker.terminate()
        for worker in self.workers:
            try:
                self.exits[worker.wait(patience(15))] += 1
            except subprocess.TimeoutExpired:
                worker.kill()
                worker.wait()
                self.exits["did not stop"] += 1

    def _spawn(self, number):
        """Start the worker with this place in the list."""
        env = {**self.env, "HUBBUB_INSTANCE": f"worker-{number}"} if self.with_names else self.env
        with (self.folder / "workers.log").open("ab") as log:
            return forks.start(command(HASTE + (self.patch or "")), env=env, stdout=log, stderr=log)

    def double(self, number, freeze):
        """Start a second process with the name of a worker, which may be frozen meanwhile. Return the older one."""
        with self.lock:
            older = self.workers[number]
            if freeze:
                older.send_signal(signal.SIGSTOP)
            self.workers[number] = self._spawn(number)
        return older

    def _supervise(self):
        while not self.over:
            time.sleep(0.2)
            with self.lock:
                for i, worker in enumerate(self.workers):
                    if worker.poll() is not None:
                        self.exits[worker.returncode] += 1
                        self.workers[i] = self._spawn(i)

    def scale(self, count):
        with self.lock:
            while len(self.workers) < count:
                self.workers.append(self._spawn(len(self.workers)))
            surplus = self.workers[count:]
            del self.workers[count:]
        for worker in surplus:
            worker.terminate()
            self.exits[worker.wait(patience(60))] += 1

    def any(self, rng):
        with self.lock:
            return rng.choice(self.workers)


class Load(Writer):
    """A writer of frames of all kinds, with `rate` frames a second, until `stop`."""

    def __init__(self, kafka, queries, partitions, rate, seed):
        self.kafka = kafka
        self.queries = list(queries.values())
        self.partitions = partitions
        self.rate = rate
        self.rng = np.random.default_rng(seed)
        self.random = random.Random(seed)
        self.kinds = Counter()
        self.ids = []

    async def _run(self):
        producer = AIOKafkaProducer(
            **client_arguments(self.kafka),
            acks="all",
            enable_idempotence=not self.kafka.embedded,
            request_timeout_ms=10_000,
            metadata_max_age_ms=5000,
            max_request_size=4 << 20,
        )
        await producer.start()
        try:
            while not self.over:
                for _ in range(max(1, self.rate // 50)):
                    kind, data, partition = self._frame()
                    self.kinds[kind] += 1
                    with suppress(KafkaError):  # a broker may be down; only frames in the log count
                        key = b"nothing" if data is None else None
                        await producer.send(self.kafka.topic("reports"), data, key=key, partition=partition)
                await asyncio.sleep(0.02)
        finally:
            with suppress(KafkaError):
                await producer.stop()

    def _frame(self):
        query = self.random.choice(self.queries)
        shift, kind = self.random.choices([(0, "good"), (-30, "late"), (60, "future")], [94, 3, 3])[0]
        pane = int(time.time() + shift) // query.pane * query.pane
        n = self.random.randint(1, 20)
        if query.strings is not None:
            reports = query.oracle.perturb([query.strings.cells_of(text) for text in self.random.choices(TEXTS, k=n)])
        elif query.domain is None:
            values = np.column_stack([self.rng.integers(0, size, n) for size in query.oracle.sizes])
            reports = query.oracle.perturb(values, self.rng)
        elif query.name == "marked":  # one bucket for each frame, so that a frame that counts twice shows
            reports = np.full((n, 1), self._bucket(), np.uint8)
        else:
            reports = query.oracle.perturb(self.rng.integers(0, query.oracle.size, n), self.rng)
        what = self.random.random()
        group = self.random.choice([0, 1, 1, 2, 2, 2, 3, 200])
        if what < 0.02:
            kinds = strangers.frames(query, pane, reports, self.random, self.partitions)
            kind = self.random.choice([*kinds])
            return kind, *kinds[kind]
        if what < 0.1 and self.ids:
            return "sent again", *self.random.choice(self.ids)
        if query.require_id or what < 0.3:
            name = self.rng.bytes(8)
            partition = partition_of(name, self.partitions, query.digest, query.spread)
            frame = encode(query.digest, pane, reports, name, group=group), partition
            self.ids = [*self.ids[-200:], frame]
            return f"{kind}, with an id", *frame
        partition = self.random.choice(slots(query.digest, query.spread, self.partitions))
        if what > 0.95:
            return kind, encode_json(query.digest, pane, reports, group=self._named(query, group)), partition
        return kind, encode(query.digest, pane, reports, group=group), partition

    def _named(self, query, group):
        """Return a group as JSON names it, or a value that the query does not have, or None."""
        if not group or not query.groups:
            return None
        return {query.groups.name: query.groups.label(group) if group < query.groups.count else "tv"}

    def _bucket(self):
        """Return a bucket. Every few seconds another one is the favourite, so that there are alerts."""
        return self.random.choice((self.random.randrange(64), int(time.time()) // 7 % 64))


FAULTS = {
    "kill": 5,
    "kill all": 1,
    "freeze": 2,
    "restart": 2,
    "scale": 2,
}
SILENCE = {"silent start": 1}
NAME_FAULTS = {"second process": 3}
BROKER_FAULTS = {"kill broker": 1, "freeze broker": 1}


def commit(kind, crew, cluster, rng):
    """Cause one fault."""
    session = 2.0 if crew.kafka.embedded else 6.0
    with suppress(ProcessLookupError):
        match kind:
            case "kill":
                crew.any(rng).kill()
            case "kill all":
                for worker in list(crew.workers):
                    worker.kill()
            case "restart":
                crew.any(rng).terminate()
            case "freeze":  # others take over, then it goes on
                worker = crew.any(rng)
                worker.send_signal(signal.SIGSTOP)
                time.sleep(session * 1.2 + rng.uniform(0.5, 3))
                worker.send_signal(signal.SIGCONT)
            case "scale":
                crew.scale(rng.randint(1, 4))
            case "second process":  # with the name of a worker, which then ends by itself
                older = crew.double(rng.randrange(len(crew.workers)), rng.random() < 0.5)
                time.sleep(rng.uniform(3, 12))
                older.send_signal(signal.SIGCONT)
                crew.exits[older.wait(patience(2 * SETTLE))] += 1
            case "silent start":  # no broker answers workers that restart
                for broker in range(len(cluster.nodes)):
                    cluster.freeze(broker)
                crew.any(rng).kill()
                time.sleep(rng.uniform(2, 5))
                for broker in range(len(cluster.nodes)):
                    cluster.resume(broker)
            case "kill broker":
                broker = rng.randrange(len(cluster.nodes))
                cluster.kill(broker)
                time.sleep(rng.uniform(2, 6))
                cluster.restart(broker)
            case "freeze broker":
                broker = rng.randrange(len(cluster.nodes))
                cluster.freeze(broker)
                time.sleep(rng.uniform(5, 15))
                cluster.resume(broker)


def campaign(
    cluster,
    faults,
    *,
    seed=1,
    partitions=4,
    workers=2,
    rate=150,
    pause=(0.5, 4.0),
    kinds=None,
    compact=True,
    patch=None,
    with_names=False,
    settle=SETTLE,
    say=print,
):
    """Run a campaign, and return its verdict."""
    rng = random.Random(seed)
    strings.LEAST_PANE = 1
    kafka = create_topics(cluster, partitions)
    if compact and not kafka.embedded:
        asyncio.run(clean_always(kafka))
    kinds = kinds or FAULTS
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hubbub-faults-")))
        (folder / "hubbub.toml").write_text(QUERIES)
        queries = load(folder / "hubbub.toml")
        frames = Load(kafka, queries, partitions, rate, seed)
        stranger = Stranger(kafka, queries, partitions, seed)
        stack.push(lambda kind, *_: kind and say((folder / "workers.log").read_text()[-5000:]))
        crew = stack.enter_context(Crew(kafka, folder, workers, patch, with_names))
        until(lambda: '"recovered"' in (folder / "workers.log").read_text(), SETTLE)
        frames.start()
        stranger.start()
        history = []
        try:
            for _ in range(faults):
                time.sleep(rng.uniform(*pause))
                kind = rng.choices(list(kinds), list(kinds.values()))[0]
                commit(kind, crew, cluster, rng)
                history.append(kind)
            time.sleep(3)
        finally:
            frames.stop()
            stranger.stop()
        time.sleep(4)
        log = asyncio.run(read_log(kafka, partitions))
        versions = asyncio.run(read_definitions(kafka)).versions.values()
        least = expected(log, versions, kafka.dialect.log_has_time)
        begin = time.monotonic()
        while True:
            published = asyncio.run(read_published(kafka, partitions))
            published = {key: record for key, record in published.items() if not key.startswith(STRANGERS.encode())}
            if least.keys() <= published.keys() or time.monotonic() - begin > patience(settle):
                break
            time.sleep(1)
        verdict = judge(
            published,
            least,
            expected(asyncio.run(read_log(kafka, partitions)), versions, kafka.dialect.log_has_time),
        )
        verdict.faults = Counter(history)
        if not verdict.exact or crew.exits[1]:  # 1: an unexpected error
            log = (folder / "workers.log").read_text()
            say("\n".join(line for line in log.splitlines() if '"critical"' in line))
            for key in verdict.wrong + verdict.missing:
                say(f"{key}: {[*published.get(key, ())]}, should be {verdict.expected.get(key)}")
    say(f"frames: {dict(frames.kinds)}")
    say(f"strange records: {dict(stranger.kinds)}")
    verdict.strange = stranger.kinds
    say(f"faults: {dict(verdict.faults)}; workers ended with {dict(crew.exits)}")
    say(
        f"{verdict.finals} finals and {verdict.alerts} alerts over {verdict.reports:,} reports: "
        f"lost {verdict.losses}, double {verdict.double}, "
        f"missing {len(verdict.missing)}, wrong {len(verdict.wrong)}, unknown {len(verdict.extra)}, "
        f"contradicting {len(verdict.contradicting)} (seed {seed})"
    )
    return verdict


async def clean_always(kafka):
    """Let the brokers compact the topics all the time."""
    async with started(AIOKafkaAdminClient(**client_arguments(kafka)), kafka) as admin:
        names = [kafka.topic(name) for name in (CHANGELOG, SNAPSHOTS, CLOCKS)]
        changes = {name: {"segment.ms": "1000", "min.cleanable.dirty.ratio": "0.01"} for name in names}
        await alter(admin, await describe(admin, names), changes)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("faults", type=int, nargs="?", default=20)
    parser.add_argument("--broker", choices=("tansu", "kafka", "three"), default="kafka")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rate", type=int, default=150)
    parser.add_argument("--named", action="store_true", help="workers have names, and second processes take them")
    options = parser.parse_args()
    brokers = {"tansu": Tansu, "kafka": Cluster, "three": lambda: Cluster(3)}[options.broker]
    kinds = FAULTS | {"tansu": {}, "kafka": SILENCE, "three": SILENCE | BROKER_FAULTS}[options.broker]
    if options.named:
        kinds |= NAME_FAULTS
    print(f"seed {options.seed}", flush=True)
    with brokers() as cluster:
        verdict = campaign(
            cluster,
            options.faults,
            seed=options.seed,
            partitions=options.partitions,
            workers=options.workers,
            rate=options.rate,
            kinds=kinds,
            with_names=options.named,
        )
    sys.exit(not verdict.exact)


if __name__ == "__main__":
    main()
