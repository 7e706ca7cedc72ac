"""Measure the CPU seconds of a worker's start on a long log, and of a plain reader of the same topics, in one run.

python -m benchmarks.recovery     needs Java and Maven; a minute or two

There are two logs on four partitions. The first is the log after a day at full load with the topics' settings
(deletions and segments of the last minutes, two checkpoints a second). The second has 100,000 deletions per partition,
as version 0.1 left them within a day. The worker's CPU is measured from its start until it is ready. The yardstick is a
process that only reads changelog and snapshots with getmany. A start on empty topics shows the cost of Python and its
imports.
"""

import asyncio
import os
import subprocess
import sys
import time
from typing import NamedTuple

import numpy as np
from aiokafka import AIOKafkaProducer

from aggregator.tallies import progress as clock
from aggregator.tallies.keys import PaneKey, PartitionKey, home
from aggregator.tallies.progress import Progress
from aggregator.tallies.tally import Tally, encode_tally
from aggregator.topics.layout import TOMBSTONE_LIFE
from benchmarks.harness import PARTITIONS, ROOT, cpu, place_of, show
from hubbub.kafka.clients import client_arguments, started
from hubbub.kafka.settings import CHANGELOG, REPORTS, SNAPSHOTS
from oracles.frame import TICK
from tests.brokers import Cluster

QUERIES = '[queries.page]\ndomain = 1024\noracle = "grr"\nepsilon = 1.0\nanswers = "fresh"\npane = "10s"\n'
CHECKPOINTS = 2
"""Number of checkpoints per second, four times as many as a worker writes."""
TAIL = 2 * TOMBSTONE_LIFE // 1000
"""Seconds of checkpoints in a changelog, which is the lifetime of deletions and the age of the open segment."""
DELETED = 100_000
BARE = """
import asyncio, sys
from aiokafka import TopicPartition
from hubbub.kafka import Kafka
from benchmarks.harness import PARTITIONS, ROOT, cpu, place_of, show
from hubbub.kafka.clients import consumer, started
kafka = Kafka(sys.argv[1], sys.argv[2])
async def main():
    tps = [TopicPartition(kafka.topic(name), p) for name in sys.argv[4:] for p in range(int(sys.argv[3]))]
    reader = consumer(kafka, max_partition_fetch_bytes=16 << 20)
    async with started(reader, kafka):
        reader.assign(tps)
        await reader.seek_to_beginning(*tps)
        ends = await reader.end_offsets(tps)
        while any([await reader.position(tp) < ends[tp] for tp in tps]):
            await reader.getmany(timeout_ms=200)
asyncio.run(main())
"""


class Start(NamedTuple):
    """The CPU seconds of a start."""

    worker: float
    bare: float


def a_day(query, partition):
    """Yield the records of one partition in changelog and snapshots after a day at full load."""
    now = int(time.time())
    counts = np.arange(query.oracle.state_size, dtype=np.int64)
    for number in range(TAIL * CHECKPOINTS):
        second = now - TAIL + number // CHECKPOINTS
        pane = second // query.pane * query.pane
        tally = encode_tally(Tally(counts, n=int(counts.sum()), next_offset=number))
        yield CHANGELOG, PaneKey("tally", query.digest, pane, partition).encode(), tally
        yield CHANGELOG, progress(partition, number), clock.encode(Progress(number, second * 1000))
        if number:
            yield CHANGELOG, progress(partition, number - 1), None
        if second % query.pane == 0 and number % CHECKPOINTS == 0:
            yield CHANGELOG, PaneKey("tally", query.digest, pane - query.pane, partition).encode(), None
            yield SNAPSHOTS, PaneKey("closed", query.digest, pane - query.pane, partition).encode(), None


def deletions(_, partition):
    """Yield the deletions of one partition by version 0.1, in which each checkpoint deletes a progress record."""
    for number in range(DELETED):
        yield CHANGELOG, progress(partition, number), None
        yield SNAPSHOTS, PartitionKey("watermark", partition, f"gone.{number}").encode(), None


LOGS = {"a day": a_day, "100,000 deletions": deletions}


def progress(partition, number):
    return PartitionKey("progress", partition, f"w.{number}").encode()


async def fill(kafka, query, log):
    """Append a log in batches, after the number of reports that it contains."""
    target = home(query.digest, PARTITIONS)
    producer = AIOKafkaProducer(**client_arguments(kafka), acks="all", max_batch_size=1 << 20, linger_ms=50)
    async with started(producer, kafka):
        for partition in range(PARTITIONS):
            ticks = [(REPORTS, None, TICK)] * (TAIL * CHECKPOINTS)
            sends = []
            for name, key, value in (*ticks, *log(query, partition)):
                where = target if name == SNAPSHOTS else partition
                sends.append(await producer.send(kafka.topic(name), value, key=key, partition=where))
            await asyncio.gather(*sends)


def start(place):
    """Return a worker's CPU seconds from its start until it has read everything and counts."""
    worker = place.start().ready()
    seconds = cpu(worker.process.pid)
    worker.kill()
    return seconds


def bare(kafka):
    """Return the CPU seconds of a process that only reads, including its imports."""
    command = [sys.executable, "-c", BARE, kafka.servers, kafka.prefix, str(PARTITIONS), CHANGELOG, SNAPSHOTS]
    start = os.times()
    subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": str(ROOT)})  # noqa: S603 - our own
    end = os.times()
    return end.children_user + end.children_system - start.children_user - start.children_system


def measure(broker, log=None):
    """Measure a start on a log, or on empty topics."""
    with place_of(broker, QUERIES) as place:
        if log is not None:
            asyncio.run(fill(place.kafka, place.queries["page"], log))
        return Start(start(place), bare(place.kafka))


def main() -> None:
    with Cluster(1) as broker:
        empty = measure(broker)
        show(f"{'CPU seconds':22}{'worker':>10}{'reader':>10}{'ratio':>10}   (worker - empty topics) / reader")
        show(f"{'empty topics':22}{empty.worker:10.2f}{empty.bare:10.2f}")
        for name, log in LOGS.items():
            result = measure(broker, log)
            ratio = (result.worker - empty.worker) / result.bare
            show(f"{name:22}{result.worker:10.2f}{result.bare:10.2f}{ratio:10.2f}")


if __name__ == "__main__":
    main()
