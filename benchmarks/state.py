"""Measure the CPU of each record of state, by queries and partitions, in one run.

python -m benchmarks.state [case ...]     needs Java and Maven; a few minutes

First it measures the steps of a record in this process, without sockets. It encodes a tally and puts it into a batch,
for the changelog and for the snapshots. Then the merger reads the snapshots from the batch into its partition.

Then it measures whole workers. The broker has one core and the worker the other. Every partition gets frames of every
query three times a second, so that every tally changes between two checkpoints. Panes are long, so that there are no
finals. A worker counts the same load twice, without checkpoints and with them. The CPU of an idle worker and of
counting is subtracted, and the rest is divided by the number of new records in the topic. If a worker gets less CPU
than it needs, a batch has fewer records, and each record costs more.
"""

import argparse
import asyncio
import os
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.producer.message_accumulator import BatchBuilder
from aiokafka.record.memory_records import MemoryRecords

from aggregator.counting import faust_patches
from aggregator.counting.admission.gate import Gate
from aggregator.counting.partition import SourcePartition
from aggregator.merging.snapshot_partition import SnapshotPartition
from aggregator.tallies.keys import PaneKey, home
from aggregator.tallies.snapshot import encode_snapshot
from hubbub.definitions.versions import Versions
from hubbub.kafka.clients import client_arguments, started
from hubbub.kafka.settings import CHANGELOG, REPORTS, SNAPSHOTS
from oracles.frame import encode
from oracles.query import load
from tests.brokers import Cluster
from tests.integration.workers import Place

OURS, THEIRS = (sorted(os.sched_getaffinity(0)) * 2)[:2]
BROKER = ("-XX:TieredStopAtLevel=4", "-Xmx1g")
"""Java options of production. Tests use options for a quick start."""
RNG = np.random.default_rng(20260101)
QUERY = """\
[queries.q{number}]
domain = {size}
oracle = "grr"
epsilon = 1.0
budget = 1e9
pane = "1h"
lateness = "1h"
windows = ["1h"]
emit_every = "1h"
"""


class Case(NamedTuple):
    """The size of a load."""

    queries: int
    partitions: int
    size: int
    per_frame: int


CASES = {
    "200 x 64, 64 values": Case(200, 64, 64, 1),
    "60 x 16, frames of 20": Case(60, 16, 1024, 20),
}
EVERY = 1 / 3
"""Seconds between two frames of each query and partition."""
IDLE, BURN_IN, SECONDS = 3.0, 5.0, 13.0
"""Seconds of each part of a run. The watchdog ends a worker without checkpoints for 25 seconds."""
NEVER = "from aggregator.counting import checkpoint\n"
VARIANTS = {"counting itself": NEVER + "checkpoint.INTERVAL = 1e6\n", "with checkpoints": NEVER}


class Rates(NamedTuple):
    """The work of a worker per second."""

    cpu: float
    frames: float
    checkpoints: float
    changelog: float
    snapshots: float


def steps(case, rounds=6):
    """Return the CPU seconds of each step per record, with a change in every tally."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "hubbub.toml")
        file.write_text(text_of(case))
        definitions = {query.digest: Versions.of(query) for query in load(file).values()}
    sources = [SourcePartition(Gate(at, case.partitions, definitions), "w") for at in range(case.partitions)]
    partitions = [SnapshotPartition(at, case.partitions, definitions) for at in range(case.partitions)]
    for snapshots in partitions:
        snapshots.load()
    faust_patches.tune()
    took, pane = dict.fromkeys(("changelog", "snapshot", "snapshot read back"), 0.0), int(time.time()) // 3600 * 3600
    for number in range(rounds):
        for source in sources:
            queries = [versions.query for versions in definitions.values()]
            source.take(
                [
                    (number * len(queries) + at, 1000 * pane, encode(query.digest, pane, reports(query, case)))
                    for at, query in enumerate(queries)
                ]
            )
        marks = [time.process_time()]
        for source in sources:
            plan = source.plan(whole=True)
            batch(plan.tallies)
            source.settle(plan)
        marks.append(time.process_time())
        snapshots = {}
        for source in sources:
            for (digest, start), tally in source.tallies.items():
                name = PaneKey("closed", digest, start + 3600 * number, source.partition).encode()
                snapshots.setdefault(home(digest, case.partitions), []).append(
                    (name, encode_snapshot(tally.snapshot()))
                )
        batches = {target: batch(writes) for target, writes in snapshots.items()}
        marks.append(time.process_time())
        for target, data in batches.items():
            for record in MemoryRecords(data).next_batch():
                partitions[target].put(record.key, record.value, record.timestamp)
        marks.append(time.process_time())
        for step, start, end in zip(took, marks, marks[1:], strict=False):
            took[step] += end - start
    return {step: seconds / rounds / case.queries / case.partitions for step, seconds in took.items()}


def batch(writes):
    """Return one batch of any size."""
    builder = BatchBuilder(1 << 30, 0)
    for key, value in writes:
        builder.append(timestamp=None, key=key, value=value)
    return bytes(builder._build())  # noqa: SLF001 - as the producer does


def reports(query, case):
    return query.oracle.perturb(RNG.integers(0, case.size, case.per_frame), RNG)


def text_of(case):
    return "".join(QUERY.format(number=number, size=case.size) for number in range(case.queries))


def pin(core):
    os.sched_setaffinity(0, {core})


def cpu(pid):
    """Return the CPU seconds of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def run_under_load(place, case, worker):
    """Return the idle CPU and the rates of a worker under the load, after a burn-in."""
    kafka, pane = place.kafka, int(time.time()) // 3600 * 3600
    frames = [encode(query.digest, pane, reports(query, case)) for query in place.queries.values()]
    producer = AIOKafkaProducer(**client_arguments(kafka), acks="all", max_batch_size=1 << 20)
    reader = AIOKafkaConsumer(**client_arguments(kafka), group_id=None)
    async with started(producer, kafka), started(reader, kafka):

        async def ends(name):
            tps = [TopicPartition(kafka.topic(name), partition) for partition in range(case.partitions)]
            return sum((await reader.end_offsets(tps)).values())

        async def look():
            metrics = worker.metrics()
            checkpoints = sum(value for _, value in metrics["hubbub_checkpoint_seconds_count"])
            frame_count = sum(value for _, value in metrics["hubbub_frames_total"])
            return [cpu(worker.process.pid), frame_count, checkpoints, await ends(CHANGELOG), await ends(SNAPSHOTS)]

        idle = cpu(worker.process.pid)
        await asyncio.sleep(IDLE)
        idle = (cpu(worker.process.pid) - idle) / IDLE
        began, before, at = time.monotonic(), None, 0.0
        for number in range(int((BURN_IN + SECONDS) / EVERY)):
            for partition in range(case.partitions):
                batch = producer.create_batch()
                for frame in frames:
                    batch.append(key=None, value=frame, timestamp=None)
                await producer.send_batch(batch, kafka.topic(REPORTS), partition=partition)
            if before is None and time.monotonic() > began + BURN_IN:
                before, at = await look(), time.monotonic()
            await asyncio.sleep(max(0.0, began + (number + 1) * EVERY - time.monotonic()))
        after, took = await look(), time.monotonic() - at
    return idle, Rates(*[(end - start) / took for start, end in zip(before, after, strict=True)])


def measure(broker, case, patch):
    """Measure a new worker with this patch."""
    with tempfile.TemporaryDirectory() as folder, Place(broker, Path(folder), text_of(case), case.partitions) as place:
        pin(OURS)
        worker = place.start(patch=patch, HUBBUB_LOG_LEVEL="warning").ready()
        pin(THEIRS)
        return asyncio.run(run_under_load(place, case, worker))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="case", help=f"{'; '.join(CASES)} (default: all)")
    options = parser.parse_args()
    cases = {
        name: case for name, case in CASES.items() if not options.cases or any(part in name for part in options.cases)
    }
    for name, case in cases.items():
        rates = steps(case)
        each = ", ".join(f"{step} {1e6 * seconds:.1f}" for step, seconds in rates.items())
        print(f"{name:24}us per record: {each}", flush=True)
    pin(THEIRS)
    with Cluster(1, flags=BROKER) as cluster:
        for name, case in cases.items():
            rest = frame = None
            for variant, patch in VARIANTS.items():
                idle, rates = measure(cluster, case, patch)
                if rest is None:
                    rest, frame = idle, (rates.cpu - idle) / rates.frames
                records, more = rates.changelog + rates.snapshots, rates.cpu - rest - frame * rates.frames
                each = f"{1e6 * more / records:6.1f} us each" if records else f"{1e6 * frame:6.1f} us per frame"
                print(
                    f"{name:24}{variant:35}{rates.cpu:6.2f} cores, of them {more:5.2f} in addition to the counting"
                    f" | {rates.frames:8,.0f} frames/s, {rates.changelog:8,.0f} records/s in the changelog,"
                    f" {rates.snapshots:8,.0f} snapshots/s | {rates.checkpoints:5.2f} checkpoints/s | {each}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
