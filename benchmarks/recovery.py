"""What a worker's start costs on a long log, beside a bare reading of the same topics: CPU seconds, in one run.

python benchmarks/recovery.py     needs Java and Maven; a minute or two

Two logs on four partitions: what a day at full load leaves by the topics' own settings (deletions and segments
of the last minutes, two checkpoints a second), and 100,000 deletions a partition, as version 0.1 left them
within a day. The CPU is that of the worker's process from its start until it is ready; the yardstick is a
process that reads changelog and snapshots with getmany and does nothing else. A start on empty topics
stands beside them: it is Python and its imports.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
from aiokafka import AIOKafkaProducer

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from aggregator.counting import clock  # noqa: E402
from aggregator.counting.clock import Progress  # noqa: E402
from aggregator.counting.tally import Tally, encode_tally  # noqa: E402
from aggregator.topics.keys import PaneKey, PartitionKey, home  # noqa: E402
from aggregator.topics.settings import SHORT  # noqa: E402
from hubbub.kafka import started  # noqa: E402
from hubbub.names import CHANGELOG, REPORTS, SNAPSHOTS  # noqa: E402
from oracles.frame import TICK  # noqa: E402
from tests.brokers import Cluster  # noqa: E402
from tests.integration.workers import Place  # noqa: E402

PARTITIONS = 4
QUERIES = '[queries.page]\ndomain = 1024\noracle = "grr"\nepsilon = 1.0\nanswers = "fresh"\npane = "10s"\n'
CHECKPOINTS = 2
"""A second."""
TAIL = 2 * SHORT // 1000
"""Seconds of checkpoints that stand in a changelog: deletions stay so long, and the open segment is as old."""
DELETED = 100_000
BARE = """
import asyncio, sys
from aiokafka import TopicPartition
from hubbub.kafka import Kafka, consumer, started
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
    """CPU seconds."""

    worker: float
    bare: float


def a_day(query, partition):
    """The changelog's and the snapshots' records of one partition after a day at full load."""
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
            before = PaneKey("tally", query.digest, pane - query.pane, partition).encode()
            yield CHANGELOG, before, None
            yield SNAPSHOTS, PaneKey("closed", query.digest, pane - query.pane, partition).encode(), None


def deletions(_, partition):
    """Of one partition, as version 0.1 left them: each progress record is deleted by the next checkpoint."""
    for number in range(DELETED):
        yield CHANGELOG, progress(partition, number), None
        yield SNAPSHOTS, PartitionKey("watermark", partition, f"gone.{number}").encode(), None


LOGS = {"a day": a_day, "100,000 deletions": deletions}


def progress(partition, number):
    return PartitionKey("progress", partition, f"w.{number}").encode()


async def fill(kafka, query, log):
    """Append a log, in batches, behind as many reports as it says are counted."""
    target = home(query.digest, PARTITIONS)
    producer = AIOKafkaProducer(**kafka.client(), acks="all", max_batch_size=1 << 20, linger_ms=50)
    async with started(producer, kafka):
        for partition in range(PARTITIONS):
            ticks = [(REPORTS, None, TICK)] * (TAIL * CHECKPOINTS)
            sent = []
            for name, key, value in (*ticks, *log(query, partition)):
                where = target if name == SNAPSHOTS else partition
                sent.append(await producer.send(kafka.topic(name), value, key=key, partition=where))
            await asyncio.gather(*sent)


def cpu(pid):
    """Seconds that a process has computed."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def start(place):
    """A worker's CPU from its start until it is ready: it has read all, and counts."""
    worker = place.start().ready()
    used = cpu(worker.process.pid)
    worker.kill()
    return used


def bare(kafka):
    """The CPU of a process that only reads, imports and all."""
    topics = str(PARTITIONS), CHANGELOG, SNAPSHOTS
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    reading = [sys.executable, "-c", BARE, kafka.servers, kafka.prefix, *topics]
    before = os.times()
    subprocess.run(reading, check=True, env=env)  # noqa: S603 - our own
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def measured(broker, folder, log=None):
    """A start on a log, or on empty topics."""
    with Place(broker, folder, QUERIES, PARTITIONS) as place:
        if log is not None:
            asyncio.run(fill(place.kafka, place.queries["page"], log))
        return Start(start(place), bare(place.kafka))


def main() -> None:
    with Cluster(1) as broker, tempfile.TemporaryDirectory() as folder:
        empty = measured(broker, Path(folder))
        print(f"{'CPU seconds':22}{'worker':>10}{'bare':>10}{'ratio':>10}   beyond a start on empty topics, to bare")
        print(f"{'empty topics':22}{empty.worker:10.2f}{empty.bare:10.2f}")
        for name, log in LOGS.items():
            found = measured(broker, Path(folder), log)
            ratio = (found.worker - empty.worker) / found.bare
            print(f"{name:22}{found.worker:10.2f}{found.bare:10.2f}{ratio:10.2f}", flush=True)


if __name__ == "__main__":
    main()
