"""A worker with many partitions and queries on a real Kafka: first without reports, then with frames."""

import asyncio
import threading
import time
from collections import Counter
from itertools import product
from statistics import quantiles

from aiokafka import TopicPartition

from aggregator.worker.ticks import TICK
from benchmarks.finals import send
from benchmarks.harness import BROKER, load_of, place_of, show, table_of, usage
from benchmarks.many import started_worker
from hubbub.kafka.clients import consumer
from hubbub.kafka.settings import CHANGELOG, CLOCKS, ESTIMATES, REPORTS, SNAPSHOTS
from tests.brokers import Cluster

QUERY = """\
[queries.q{number}]
domain = 4
oracle = "grr"
epsilon = 1.0
budget = 1e9
pane = "10s"
windows = ["10s"]
"""
FRAMES = 200
"""Frames a second."""
BURN_IN = 30.0
"""Seconds before each measurement."""
TOPICS = (REPORTS, CHANGELOG, SNAPSHOTS, CLOCKS, ESTIMATES)


class Traffic(threading.Thread):
    """A consumer that counts the records and bytes of each topic, and notes when the first final of each key comes."""

    def __init__(self, place):
        super().__init__(daemon=True)
        self._kafka = place.kafka
        self._partitions = place.partitions
        self.records = Counter()
        self.bytes = Counter()
        self.arrivals = {}
        self._over = threading.Event()

    def run(self):
        asyncio.run(self._watch())

    def stop(self):
        self._over.set()
        self.join()

    async def _watch(self):
        client = consumer(self._kafka, fetch_max_wait_ms=20)
        await client.start()
        names = {self._kafka.topic(name): name for name in TOPICS}
        # The topic of clock records has one partition, whatever the reports have.
        places = product(TOPICS, range(self._partitions))
        client.assign([TopicPartition(self._kafka.topic(n), p) for n, p in places if p == 0 or n != CLOCKS])
        await client.seek_to_end()
        while not self._over.is_set():
            for tp, records in (await client.getmany(timeout_ms=50)).items():
                name = names[tp.topic]
                self.records[name] += len(records)
                self.bytes[name] += sum(len(record.key or b"") + len(record.value or b"") for record in records)
                if name == ESTIMATES:
                    for record in records:
                        self.arrivals.setdefault(record.key, time.time())
        await client.stop()


def measure(place, worker, seconds, name):
    """Print what a worker takes and writes for a while."""
    # A new worker first compiles its queries and reads the topics, which is no part of a steady state.
    time.sleep(BURN_IN)
    traffic = Traffic(place)
    traffic.start()
    usages = usage(worker)
    begin = time.monotonic()
    time.sleep(seconds)
    took = time.monotonic() - begin
    worker_cpu, estimator_cpu = (later - earlier for earlier, later in zip(usages, usage(worker), strict=True))
    traffic.stop()

    show(f"{name}: CPU of the worker {worker_cpu / took:.3f} cores, of the estimator {estimator_cpu / took:.3f}")
    rows = [(topic, f"{traffic.records[topic] / took:.1f}", f"{traffic.bytes[topic] / took:,.0f}") for topic in TOPICS]
    show(table_of(("topic", "records a second", "bytes a second"), rows))
    # A worker closes the panes of silent partitions at its tick, so a final may be less than 0 s late.
    lateness = next(iter(place.queries.values())).lateness
    late = [arrival - int(key.rpartition(b"|")[2]) - lateness - TICK for key, arrival in traffic.arrivals.items()]
    if len(late) > 1:
        tail = quantiles(late, n=100)
        show(f"{len(late) / took:.1f} finals a second, late: median {tail[49]:.2f} s, p99 {tail[98]:.2f} s")


def live(partitions, queries, seconds):
    """Run a worker on two cores beside its broker."""
    text = "".join(QUERY.format(number=number) for number in range(queries))
    with Cluster(1, flags=BROKER) as cluster, place_of(cluster, text, partitions) as place:
        worker = started_worker(place)
        measure(place, worker, seconds, "without reports")
        with load_of(send, place.kafka, str(place.file), partitions, FRAMES):
            measure(place, worker, seconds, f"{FRAMES} frames a second")
