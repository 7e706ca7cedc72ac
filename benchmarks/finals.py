"""Measure the whole CPU of a final: worker and estimator together, divided by the finals that they publish.

python -m benchmarks.finals [one mixed many] [--seconds 60]     needs Java and Maven; five minutes

Three mixes: one query, 15 queries at low rates with three kinds of windows, and 200 queries on 64 partitions. Counting,
checkpoints, ticks and the work for the group are part of the CPU. The figure beside it is the promise of `hubbub check`
for the same queries and partitions. The last column is their ratio, from one run.
"""

import asyncio
import random
import time
from typing import NamedTuple

import numpy as np
from aiokafka import AIOKafkaProducer

from aggregator.plan import costs
from benchmarks.harness import BROKER, arguments, load_of, place_of, selection, show, usage
from benchmarks.many import FRAMES, QUERY, started_worker
from hubbub.kafka.clients import client_arguments, started
from hubbub.kafka.settings import REPORTS
from oracles.frame import encode
from oracles.query import load
from tests.brokers import Cluster

SINGLE = """\
[queries.page]
domain = 1024
oracle = "olh"
epsilon = 1.0
budget = 1e9
pane = "10s"
windows = ["10s"]
"""
MIXED = """\
[queries.q{number}]
domain = {size}
oracle = "{oracle}"
epsilon = 1.0
budget = 1e9
pane = "{pane}s"
windows = ["{pane}s", "1m/{pane}s", "all"]
"""
PANES = (*[2] * 8, *[5] * 4, *[10] * 3)
KINDS = (("grr", 4), ("olh", 64), ("oue", 256))
REPORTS_EACH = 50
"""Reports of a frame."""
BURN_IN = 30.0
"""Seconds of load before the measurement."""


class Mix(NamedTuple):
    """Queries, their partitions, and the frames a second of all of them together."""

    text: str
    partitions: int
    frames: int


def mixed_queries():
    """Return 15 queries of three kinds of answers, with panes of 2, 5 and 10 seconds."""
    texts = []
    for number, pane in enumerate(PANES):
        oracle, size = KINDS[number % len(KINDS)]
        texts.append(MIXED.format(number=number, size=size, oracle=oracle, pane=pane))
    return "".join(texts)


MIXES = {
    "one": Mix(SINGLE, 12, 20),
    "mixed": Mix(mixed_queries(), 12, 20),
    "many": Mix("".join(QUERY.format(number=number) for number in range(200)), 64, FRAMES),
}


def send(kafka, file, partitions, rate):
    asyncio.run(_send(kafka, list(load(file).values()), partitions, rate))


async def _send(kafka, queries, partitions, rate):
    """Send frames of the queries in turns, for ever."""
    rng = np.random.default_rng(20260101)
    reports = {}
    for query in queries:
        values = rng.zipf(1.5, REPORTS_EACH) % query.oracle.size
        reports[query.digest] = query.oracle.perturb(values, rng)

    producer = AIOKafkaProducer(**client_arguments(kafka), acks="all", linger_ms=20)
    async with started(producer, kafka):
        begin = time.monotonic()
        count = 0
        while True:
            while count < (time.monotonic() - begin) * rate:
                query = queries[count % len(queries)]
                pane = int(time.time()) // query.pane * query.pane
                frame = encode(query.digest, pane, reports[query.digest])
                await producer.send(kafka.topic(REPORTS), frame, partition=random.randrange(partitions))
                count += 1
            await asyncio.sleep(0.02)


def measure(cluster, mix, seconds):
    """Return the finals a second, and the CPU seconds of a final in the worker and in its estimator."""
    with place_of(cluster, mix.text, mix.partitions) as place:
        worker = started_worker(place)
        with load_of(send, place.kafka, str(place.file), place.partitions, mix.frames):
            time.sleep(BURN_IN)
            finals = worker.total("hubbub_records_total", final="true")
            usages = usage(worker)
            begin = time.monotonic()
            time.sleep(seconds)
            later_usages = usage(worker)
            took = time.monotonic() - begin
            number = worker.total("hubbub_records_total", final="true") - finals
        seconds_of_parts = [later - earlier for earlier, later in zip(usages, later_usages, strict=True)]
        return number / took, [cpu / number for cpu in seconds_of_parts], list(place.queries.values())


def main():
    options = arguments(__doc__, MIXES, seconds=(60.0, "length of each measurement"))
    show(f"{'mix':8}{'finals/s':>10}{'worker':>10}{'estimator':>11}{'together':>10}{'promised':>10}{'ratio':>7}")
    with Cluster(1, flags=BROKER) as cluster:
        for name, mix in selection(MIXES, options.cases).items():
            rate, (worker, estimator), queries = measure(cluster, mix, options.seconds)
            promise = costs.cpu_per_final(queries, mix.partitions)
            cells = [f"{1000 * seconds:.2f} ms" for seconds in (worker, estimator, worker + estimator, promise)]
            ratio = promise / (worker + estimator)
            show(f"{name:8}{rate:10.1f}{cells[0]:>10}{cells[1]:>11}{cells[2]:>10}{cells[3]:>10}{ratio:7.2f}")


if __name__ == "__main__":
    main()
