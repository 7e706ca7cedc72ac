"""Measure the CPU of a report at a steady rate, with few and many queries, beside a plain aiokafka consumer.

python -m benchmarks.live [case ...] [--queries 1 100] [--rate 100000] [--frame 100]

It needs Java and Maven, and three minutes.

A process sends frames at the rate, spread over the queries and four partitions. A worker and a plain consumer read them
at the same time. The consumer decodes each frame and adds its reports with hubbub's own kernel, and does nothing else.
The worker runs twice: `counting` has windows of an hour and publishes nothing in the meantime, and `publishing` has
panes of 10 s and windows of 10 s and of a minute that hops by 10 s. CPU is that of all threads of a process. The
estimator is the process of the worker that makes records.
"""

import asyncio
import time

import numpy as np
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from benchmarks.harness import BROKER, PARTITIONS, arguments, cpu, load_of, place_of, selection, show, usage
from hubbub.kafka.clients import client_arguments, started
from hubbub.kafka.settings import REPORTS
from oracles.frame import HEADER_SIZE, encode, header
from oracles.query import load
from tests.brokers import Cluster

QUERY = """\
[queries.q{number}]
domain = 64
oracle = "{oracle}"
epsilon = 1.0
budget = 1e9
pane = "{pane}"
windows = [{windows}]
lateness = "{lateness}"
"""
CASES = {
    # name: pane, windows, lateness, more settings
    "counting": ("1h", '"1h"', "1h", 'emit_every = "never"\n'),
    "publishing": ("10s", '"10s", "1m/10s"', "5s", ""),
}
BURN_IN = 12
"""Seconds of load before the measurement."""
TURN = 0.005
"""Seconds between two turns of the load."""


def send(kafka, file, rate, per_frame):
    asyncio.run(_send(kafka, list(load(file).values()), rate / per_frame, per_frame))


async def _send(kafka, queries, frames_per_s, per_frame):
    rng = np.random.default_rng(20260101)
    pools = [q.oracle.perturb(rng.integers(0, 64, per_frame), rng) for q in queries]
    producer = AIOKafkaProducer(**client_arguments(kafka), acks="all", linger_ms=5, max_batch_size=1 << 18)
    async with started(producer, kafka):
        began = time.monotonic()
        count = pane = 0
        while True:
            present = int(time.time()) // queries[0].pane * queries[0].pane
            if pane != present:
                pane = present
                frames = [encode(query.digest, pane, pool) for query, pool in zip(queries, pools, strict=True)]

            # A turn that came late sends more, so the rate holds on average.
            while count < (time.monotonic() - began) * frames_per_s:
                frame = frames[count % len(frames)]
                await producer.send(kafka.topic(REPORTS), frame, partition=(count // len(queries) + count) % PARTITIONS)
                count += 1
            await asyncio.sleep(TURN)


def consume(kafka, file):
    """Read the reports from the end, and add them."""
    asyncio.run(_consume(kafka, {q.digest: q for q in load(file).values()}))


async def _consume(kafka, queries):
    tallies = {digest: query.oracle.zeros() for digest, query in queries.items()}
    client = AIOKafkaConsumer(**client_arguments(kafka), group_id=None, max_partition_fetch_bytes=4 << 20)
    async with started(client, kafka):
        client.assign([TopicPartition(kafka.topic(REPORTS), p) for p in range(PARTITIONS)])
        await client.seek_to_end()
        while True:
            waiting = {}
            for records in (await client.getmany(timeout_ms=1000)).values():
                for record in records:
                    head = header(record.value)
                    if head is not None and head.n:
                        waiting.setdefault(head.digest, []).append(record.value[HEADER_SIZE:])
            # One call of the kernel takes all frames of a fetch, as in a worker.
            for digest, pieces in waiting.items():
                oracle = queries[digest].oracle
                oracle.add(tallies[digest], np.frombuffer(b"".join(pieces), np.uint8).reshape(-1, oracle.width))


def measure(cluster, case, count, options):
    pane, windows, lateness, more = CASES[case]
    text = "".join(
        QUERY.format(number=number, oracle=options.oracle, pane=pane, windows=windows, lateness=lateness) + more
        for number in range(count)
    )
    with place_of(cluster, text) as place:
        worker = place.start(HUBBUB_LOG_LEVEL="warning").ready()
        file = str(place.file)
        with load_of(send, place.kafka, file, options.rate, options.frame), load_of(consume, place.kafka, file) as peer:
            time.sleep(BURN_IN)
            counted = worker.total("hubbub_reports_total")
            began = time.monotonic()
            start = (*usage(worker), cpu(peer.pid))

            time.sleep(options.seconds)
            end = (*usage(worker), cpu(peer.pid))
            took = time.monotonic() - began
            reports = worker.total("hubbub_reports_total") - counted
            reports *= took / (time.monotonic() - began)  # a scrape takes time

    seconds, estimator, plain = np.subtract(end, start)
    show(
        f"{case:10} {count:4} queries: {reports / took:9,.0f} reports/s; us of CPU a report: "
        f"worker {1e6 * seconds / reports:.2f}, estimator {1e6 * estimator / reports:.2f}, "
        f"plain aiokafka {1e6 * plain / reports:.2f}"
    )


def main():
    options = arguments(
        __doc__,
        CASES,
        queries=[1, 100],
        rate=(100_000.0, "reports a second"),
        frame=(100, "reports of a frame"),
        oracle="olh",
        seconds=(30.0, "length of a measurement"),
    )
    with Cluster(1, flags=BROKER) as cluster:
        for case in selection(CASES, options.cases):
            for count in options.queries:
                measure(cluster, case, count, options)


if __name__ == "__main__":
    main()
