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

import asyncio
import time
import tomllib
from collections import Counter, defaultdict
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
from benchmarks.harness import (
    OURS,
    THEIRS,
    arguments,
    broker_on_other_core,
    cpu,
    pin,
    place_of,
    selection,
    show,
    worker_on,
)
from hubbub.definitions.versions import Versions
from hubbub.kafka.clients import client_arguments, started
from hubbub.kafka.settings import CHANGELOG, REPORTS, SNAPSHOTS
from oracles.frame import encode
from oracles.query import parse

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
    queries = list(parse(tomllib.loads(text_of(case)), "benchmark", ".").values())
    definitions = {query.digest: Versions.of(query) for query in queries}
    sources = [SourcePartition(Gate(number, case.partitions, definitions), "w") for number in range(case.partitions)]
    partitions = [SnapshotPartition(number, case.partitions, definitions) for number in range(case.partitions)]
    for snapshots in partitions:
        snapshots.load()
    faust_patches.tune()

    took = Counter()
    pane = int(time.time()) // 3600 * 3600
    for turn in range(rounds):
        for source in sources:
            source.take(
                [
                    (turn * len(queries) + index, 1000 * pane, encode(query.digest, pane, reports(query, case)))
                    for index, query in enumerate(queries)
                ]
            )

        start = time.process_time()
        for source in sources:
            plan = source.plan(whole=True)
            batch(plan.tallies)
            source.settle(plan)
        written = time.process_time()

        writes = defaultdict(list)
        for source in sources:
            for (digest, begin), tally in source.tallies.items():
                name = PaneKey("closed", digest, begin + 3600 * turn, source.partition).encode()
                writes[home(digest, case.partitions)].append((name, encode_snapshot(tally.snapshot())))
        batches = {target: batch(records) for target, records in writes.items()}
        sent = time.process_time()

        for target, data in batches.items():
            for record in MemoryRecords(data).next_batch():
                partitions[target].put(record.key, record.value)
        took["changelog"] += written - start
        took["snapshot"] += sent - written
        took["snapshot read back"] += time.process_time() - sent

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


async def run_under_load(place, case, worker):
    """Return the idle CPU and the rates of a worker under the load, after a burn-in."""
    kafka = place.kafka
    pane = int(time.time()) // 3600 * 3600
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

        began = time.monotonic()
        rates_at_start = None
        for number in range(int((BURN_IN + SECONDS) / EVERY)):
            for partition in range(case.partitions):
                batch = producer.create_batch()
                for frame in frames:
                    batch.append(key=None, value=frame, timestamp=None)
                await producer.send_batch(batch, kafka.topic(REPORTS), partition=partition)
            if rates_at_start is None and time.monotonic() > began + BURN_IN:
                rates_at_start = await look()
                measured_from = time.monotonic()
            await asyncio.sleep(max(0.0, began + (number + 1) * EVERY - time.monotonic()))

        rates_at_end = await look()
        took = time.monotonic() - measured_from
    return idle, Rates(*((np.array(rates_at_end) - rates_at_start) / took))


def measure(broker, case, patch):
    """Measure a new worker with this patch."""
    with place_of(broker, text_of(case), case.partitions) as place:
        worker = worker_on(place, OURS, patch=patch).ready()
        pin(THEIRS)
        return asyncio.run(run_under_load(place, case, worker))


def report(name, variant, rates, baseline, frame):
    """Print the rates of a worker, and its CPU in addition to the counting."""
    records = rates.changelog + rates.snapshots
    more = rates.cpu - baseline - frame * rates.frames
    cost = f"{1e6 * more / records:6.1f} us each" if records else f"{1e6 * frame:6.1f} us per frame"
    show(
        f"{name:24}{variant:35}{rates.cpu:6.2f} cores, of them {more:5.2f} in addition to the counting"
        f" | {rates.frames:8,.0f} frames/s, {rates.changelog:8,.0f} records/s in the changelog,"
        f" {rates.snapshots:8,.0f} snapshots/s | {rates.checkpoints:5.2f} checkpoints/s | {cost}"
    )


def main():
    cases = selection(CASES, arguments(__doc__, CASES).cases)
    for name, case in cases.items():
        costs = ", ".join(f"{step} {1e6 * seconds:.1f}" for step, seconds in steps(case).items())
        show(f"{name:24}us per record: {costs}")

    with broker_on_other_core() as cluster:
        pin(THEIRS)
        for name, case in cases.items():
            # The first variant counts only. Its costs are those of a frame in the others.
            frame = None
            for variant, patch in VARIANTS.items():
                idle, rates = measure(cluster, case, patch)
                if frame is None:
                    baseline = idle
                    frame = (rates.cpu - idle) / rates.frames
                report(name, variant, rates, baseline, frame)


if __name__ == "__main__":
    main()
