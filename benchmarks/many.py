"""Measure many small queries: the CPU of a final, how late finals arrive at a consumer, and a restart under load.

python -m benchmarks.many [--seconds 3600]     needs Java and Maven; by default three minutes

Broker, load, consumer and worker share the cores of the machine. Every query counts 4 values with grr in panes of 10 s,
and publishes windows of 10 s and of a minute that hops by 10 s. So all finals of a pane are due at once.

A final is late by the time at the consumer minus the end of its window, the query's lateness and one tick (1 s). The
CPU of a final is given twice: all CPU of the process, counting and checkpoints included, and the part above the CPU of
quiet seconds, in which no final is due. Growth compares the last third of the run with the first. At the end the worker
gets SIGTERM under load, and a new one starts.
"""

import asyncio
import random
import threading
import time
from collections import Counter
from itertools import pairwise, product
from statistics import quantiles

import numpy as np
from aiokafka import AIOKafkaProducer, TopicPartition

from aggregator.worker.ticks import TICK
from benchmarks.harness import BROKER, arguments, load_of, place_of, show, usage
from hubbub.kafka.clients import client_arguments, consumer, started
from hubbub.kafka.settings import ESTIMATES, REPORTS, SNAPSHOTS
from oracles.frame import encode
from oracles.query import load
from tests.brokers import Cluster
from tests.integration.workers import until

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
        client.assign([TopicPartition(topic, p) for topic, p in product(topics, range(self._partitions))])
        await client.seek_to_end()
        while not self._over.is_set():
            for tp, records in (await client.getmany(timeout_ms=50)).items():
                for record in records:
                    if tp.topic == topics[1]:
                        self.writes["records"] += 1
                        self.writes["bytes"] += len(record.key) + len(record.value or b"")
                    # Provisional records have keys that end in `p`.
                    elif not record.key.endswith(b"|p"):
                        self.arrivals.setdefault(record.key, time.time())
                    elif record.value is not None:
                        self.writes["provisional"] += 1
            if not self.cpu or time.time() >= self.cpu[-1][0] + 1:
                self.cpu.append((time.time(), *usage(self.worker)))
        await client.stop()


def end_of(key):
    return int(key.rpartition(b"|")[2])


def report(watch, since, last_end, queries):
    """Print the figures of the finals whose windows end between two times."""
    due = sum(len(query.windows) for query in queries) * (int(last_end) // PANE - int(since) // PANE)
    lateness = queries[0].lateness
    finals = []
    for key, arrival in sorted(watch.arrivals.items()):
        end = end_of(key)
        if since < end <= last_end:
            finals.append((end, arrival - end - lateness - TICK))
    if len(finals) < 3:
        show("no finals")
        return

    tail = quantiles([seconds for _, seconds in finals], n=100)
    show(f"finals: {len(finals)} of {due} due, {len(finals) / (last_end - since):.1f} a second")
    most = max(seconds for _, seconds in finals)
    show(f"late at a consumer: median {tail[49]:.2f} s, p99 {tail[98]:.2f} s, most {most:.2f} s")
    if tail[98] > PANE - QUIET - TICK:
        show("so late that finals were published in the quiet seconds too: the CPU above them is too low")
    report_growth(finals, since, last_end)
    report_cpu(watch, since, last_end, len(finals), lateness)


def report_growth(finals, since, last_end):
    """Print whether the last finals of a run are later than the first ones."""
    third = (last_end - since) / 3
    medians = []
    for low, high in ((since, since + third), (last_end - third, last_end)):
        part = [seconds for end, seconds in finals if low < end <= high]
        medians.append(quantiles(part or [0.0, 0.0], n=2)[0])
    show(f"growth: median of the last third minus that of the first {medians[1] - medians[0]:+.2f} s")

    minutes = {}
    for end, seconds in finals:
        minutes.setdefault(int(end - since) // 60, []).append(seconds)
    tails = [quantiles(minute, n=100)[98] for minute in minutes.values() if len(minute) > 1]
    show("p99 of each minute: " + " ".join(f"{seconds:.2f}" for seconds in tails) + " s")


def report_cpu(watch, since, last_end, count, lateness):
    """Print the CPU of a final: all of it, and the part above the seconds in which none is due."""
    samples = [sample for sample in watch.cpu if since <= sample[0] <= last_end + PANE]
    took = samples[-1][0] - samples[0][0]
    finals = count / (last_end - since) * took
    for column, name in ((1, "worker"), (2, "estimator")):
        total = samples[-1][column] - samples[0][column]
        quiet_rates = [
            (end[column] - start[column]) / (end[0] - start[0])
            for start, end in pairwise(samples)
            if (end[0] - lateness) % PANE > PANE - QUIET
        ]
        rest = total - took * sum(quiet_rates) / max(1, len(quiet_rates))
        show(
            f"CPU of the {name}: {total / took:.3f} cores, {1000 * total / finals:.2f} ms a final, "
            f"{1000 * rest / finals:.2f} ms above quiet seconds"
        )


def started_worker(place):
    """Start a worker, and return it when it is ready."""
    worker = place.start(HUBBUB_LOG_LEVEL="warning")
    until(lambda: worker.running and worker.get("/readyz")[0] == 200, RESTART)
    return worker


def main():
    options = arguments(__doc__, queries=200, partitions=64, seconds=(120.0, "length of the measurement"))
    text = "".join(QUERY.format(number=number) for number in range(options.queries))
    with Cluster(1, flags=BROKER) as cluster, place_of(cluster, text, options.partitions) as place:
        worker = started_worker(place)
        watch = Watch(place, worker)
        watch.start()
        with load_of(send, place.kafka, str(place.file), place.partitions):
            time.sleep(BURN_IN)
            began = time.time()
            watch.writes.clear()
            time.sleep(options.seconds)
            took = time.time() - began
            last_end = time.time() - PANE
            watch.stop()

            report(watch, began - PANE, last_end, list(place.queries.values()))
            show(f"provisional records: {watch.writes['provisional'] / took:.1f} a second, which the CPU includes")
            show(
                f"topic `snapshots`: {watch.writes['records'] / took:.0f} records and "
                f"{watch.writes['bytes'] / took / 1000:.1f} kB a second"
            )

            ended = time.monotonic()
            worker.process.terminate()
            worker.process.wait()
            stopped = time.monotonic()
            started_worker(place)
            ready = time.monotonic() - stopped
            show(f"restart: stopped in {stopped - ended:.1f} s, ready {ready:.1f} s after its start")


if __name__ == "__main__":
    main()
