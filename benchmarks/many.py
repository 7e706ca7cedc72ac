"""Measure many small queries: the CPU of a final, how late finals arrive at a consumer, and a restart under load.

python -m benchmarks.many [--seconds 3600]     needs Java and Maven; by default three minutes

Broker, load, consumer and worker share the cores of the machine. Every query counts 4 values with grr in panes of 10 s,
and publishes windows of 10 s and of a minute that hops by 10 s. So all finals of a pane are due at once.

A final is late by the time at the consumer minus the end of its window, the query's lateness and one tick (1 s). The
CPU of a final is given twice: all CPU of the process, counting and checkpoints included, and the part above the CPU of
quiet seconds, in which no final is due. Growth compares the last third of the run with the first. At the end the worker
gets SIGTERM under load, and a new one starts.
"""

import argparse
import asyncio
import multiprocessing
import random
import tempfile
import threading
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path
from statistics import quantiles

import numpy as np
from aiokafka import AIOKafkaProducer, TopicPartition

from aggregator.worker.ticks import TICK
from benchmarks.state import cpu
from benchmarks.worker import BROKER
from hubbub.kafka.clients import client_arguments, consumer, started
from hubbub.kafka.settings import ESTIMATES, REPORTS, SNAPSHOTS
from oracles.frame import encode
from oracles.query import load
from tests.brokers import Cluster
from tests.integration.workers import Place, until

PANE = 10
QUERY = """\
[queries.q{number}]
domain = 4
oracle = "grr"
epsilon = 1.0
budget = 1e9
pane = "10s"
windows = ["10s", "1m/10s"]
"""
FRAMES = 136
"""Frames a second."""
REPORTS_EACH = 50
"""Reports of a frame."""
BURN_IN = 40
"""Seconds of load before the measurement."""
RESTART = 180.0
"""Seconds after which a restart that is not ready ends the benchmark."""
QUIET = 3.0
"""Seconds before the end of a pane in which no final is due, if the worker is not behind."""


class Load:
    """A process that sends frames at a steady rate until it is terminated."""

    def __init__(self, place):
        self._process = multiprocessing.get_context("spawn").Process(
            target=send, args=(place.kafka, str(place.file), place.partitions), daemon=True
        )

    def __enter__(self):
        self._process.start()

    def __exit__(self, *_):
        self._process.terminate()
        self._process.join()


def send(kafka, file, partitions):
    asyncio.run(_send(kafka, list(load(file).values()), partitions))


async def _send(kafka, queries, partitions):
    rng = np.random.default_rng(20260101)
    pool = [queries[0].oracle.perturb(rng.choice(4, REPORTS_EACH, p=(0.4, 0.3, 0.2, 0.1)), rng) for _ in range(1000)]
    producer = AIOKafkaProducer(**client_arguments(kafka), acks="all", linger_ms=20)
    async with started(producer, kafka):
        began, count = time.monotonic(), 0
        while True:
            while count < (time.monotonic() - began) * FRAMES:
                pane = int(time.time()) // PANE * PANE
                frame = encode(queries[count % len(queries)].digest, pane, pool[count % len(pool)])
                await producer.send(kafka.topic(REPORTS), frame, partition=random.randrange(partitions))
                count += 1
            await asyncio.sleep(0.02)


class Watch(threading.Thread):
    """A consumer that notes the arrival of each final, and the CPU of the worker and its estimator each second."""

    def __init__(self, place, worker):
        super().__init__(daemon=True)
        self._kafka, self._partitions, self.worker = place.kafka, place.partitions, worker
        self.arrivals = {}
        """The time of the first arrival of each final, by key."""
        self.writes = Counter()
        """Records and bytes in the topic `snapshots`, and provisional records."""
        self.cpu = []
        """Time, and CPU seconds of worker and estimator."""
        self._over = threading.Event()

    def run(self):
        asyncio.run(self._watch())

    def stop(self):
        self._over.set()
        self.join()

    async def _watch(self):
        client = consumer(self._kafka, fetch_max_wait_ms=20)
        await client.start()
        topics = [self._kafka.topic(name) for name in (ESTIMATES, SNAPSHOTS)]
        client.assign([TopicPartition(topic, p) for topic in topics for p in range(self._partitions)])
        await client.seek_to_end()
        while not self._over.is_set():
            for tp, records in (await client.getmany(timeout_ms=50)).items():
                for record in records:
                    if tp.topic == topics[1]:
                        self.writes["records"] += 1
                        self.writes["bytes"] += len(record.key) + len(record.value or b"")
                    elif not record.key.endswith(b"|p"):
                        self.arrivals.setdefault(record.key, time.time())
                    elif record.value is not None:
                        self.writes["provisional"] += 1
            if not self.cpu or time.time() >= self.cpu[-1][0] + 1:
                self.cpu.append((time.time(), *usage(self.worker)))
        await client.stop()


def usage(worker):
    """Return the CPU seconds of a worker and of its estimators."""
    pid = worker.process.pid
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    threads = [each.read_text().split() for each in Path(f"/proc/{pid}/task").glob("*/children")]
    estimators = {*children, *(child for each in threads for child in each)}
    return cpu(pid), sum(map(cpu, estimators))


def end_of(key):
    return int(key.rpartition(b"|")[2])


def report(watch, since, last_end, queries, out):
    """Print the figures of the finals whose windows end between two times."""
    due = sum(len(query.windows) for query in queries) * (int(last_end) // PANE - int(since) // PANE)
    lateness = queries[0].lateness
    late = sorted((end_of(key), at - end_of(key) - lateness - TICK) for key, at in watch.arrivals.items())
    late = [(end, seconds) for end, seconds in late if since < end <= last_end]
    if len(late) < 3:
        out("no finals")
        return
    each = quantiles([seconds for _, seconds in late], n=100)
    out(f"finals: {len(late)} of {due} due, {len(late) / (last_end - since):.1f} a second")
    out(f"late at a consumer: median {each[49]:.2f} s, p99 {each[98]:.2f} s, most {max(s for _, s in late):.2f} s")
    if each[98] > PANE - QUIET - TICK:
        out("so late that finals were published in the quiet seconds too: the CPU above them is too low")
    first, last = (
        quantiles([s for end, s in late if low < end <= high] or [0.0, 0.0], n=2)[0]
        for low, high in ((since, since + (last_end - since) / 3), (last_end - (last_end - since) / 3, last_end))
    )
    out(f"growth: median of the last third minus that of the first {last - first:+.2f} s")
    minutes = {}
    for end, seconds in late:
        minutes.setdefault(int(end - since) // 60, []).append(seconds)
    tails = (quantiles(each, n=100)[98] for each in minutes.values() if len(each) > 1)
    out("p99 of each minute: " + " ".join(f"{seconds:.2f}" for seconds in tails) + " s")
    samples = [sample for sample in watch.cpu if since <= sample[0] <= last_end + PANE]
    took = samples[-1][0] - samples[0][0]
    count = len(late) / (last_end - since) * took
    for column, name in ((1, "worker"), (2, "estimator")):
        total = samples[-1][column] - samples[0][column]
        quiet = [
            (two[column] - one[column]) / (two[0] - one[0])
            for one, two in pairwise(samples)
            if (two[0] - lateness) % PANE > PANE - QUIET
        ]
        rest = total - took * sum(quiet) / max(1, len(quiet))
        out(
            f"CPU of the {name}: {total / took:.3f} cores, {1000 * total / count:.2f} ms a final, "
            f"{1000 * rest / count:.2f} ms above quiet seconds"
        )


def started_worker(place):
    """Start a worker, and return it when it is ready."""
    worker = place.start(HUBBUB_LOG_LEVEL="warning")
    until(lambda: worker.running and worker.get("/readyz")[0] == 200, RESTART)
    return worker


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--partitions", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=120.0, help="length of the measurement (default: 120)")
    options = parser.parse_args()

    def out(text):
        print(text, flush=True)

    text = "".join(QUERY.format(number=number) for number in range(options.queries))
    with (
        Cluster(1, flags=BROKER) as cluster,
        tempfile.TemporaryDirectory() as folder,
        Place(cluster, Path(folder), text, options.partitions) as place,
    ):
        worker = started_worker(place)
        watch = Watch(place, worker)
        watch.start()
        with Load(place):
            time.sleep(BURN_IN)
            since, began = time.time() - PANE, time.time()
            watch.writes.clear()
            time.sleep(options.seconds)
            took, last_end = time.time() - began, time.time() - PANE
            watch.stop()
            report(watch, since, last_end, list(place.queries.values()), out)
            out(f"provisional records: {watch.writes['provisional'] / took:.1f} a second, which the CPU includes")
            out(
                f"topic `snapshots`: {watch.writes['records'] / took:.0f} records and "
                f"{watch.writes['bytes'] / took / 1000:.1f} kB a second"
            )
            ended = time.monotonic()
            worker.process.terminate()
            worker.process.wait()
            stopped = time.monotonic()
            started_worker(place)
            out(
                f"restart: stopped in {stopped - ended:.1f} s, ready {time.monotonic() - stopped:.1f} s after its start"
            )


if __name__ == "__main__":
    main()
