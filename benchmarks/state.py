"""What state costs, by queries and partitions: CPU for each record of it, in one run.

python benchmarks/state.py [case ...]     needs Java and Maven; some minutes

First the steps of a record in this process, without sockets: a tally is encoded and put into a batch, for the
changelog and for the snapshots; and what the merger does with the latter, from the batch to its shelf.

Then whole workers. The broker has one core and the worker the other. Frames of every query come to every partition
three times a second, so that every tally changes between two checkpoints; panes are long, so that no final is
computed. The same load is counted four times: without any checkpoint, which is the counting itself; with the changelog
alone; with open snapshots alone, which the worker's own merger reads back; and as a worker is. CPU beyond that of an
idle worker and of counting so many frames is divided by the records that came to stand in the topics meanwhile: where
a worker gets less than the core that it wants, fewer records come in a batch, and each costs more.
"""

import argparse
import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.producer.message_accumulator import BatchBuilder
from aiokafka.record.memory_records import MemoryRecords

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from aggregator.counting import quirks  # noqa: E402
from aggregator.counting.admission import Gate  # noqa: E402
from aggregator.counting.partition import SourcePartition  # noqa: E402
from aggregator.merging.snapshots import Shelf  # noqa: E402
from aggregator.topics.keys import home  # noqa: E402
from hubbub.definitions.versions import Versions  # noqa: E402
from hubbub.kafka import started  # noqa: E402
from hubbub.names import CHANGELOG, REPORTS, SNAPSHOTS  # noqa: E402
from oracles.frame import encode  # noqa: E402
from oracles.query import load  # noqa: E402
from tests.brokers import Cluster  # noqa: E402
from tests.integration.workers import Place  # noqa: E402

OURS, THEIRS = (sorted(os.sched_getaffinity(0)) * 2)[:2]
BROKER = ("-XX:TieredStopAtLevel=4", "-Xmx1g")
"""Java as in production; tests prefer a quick start."""
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
    """A load."""

    queries: int
    partitions: int
    size: int
    per_frame: int


CASES = {
    "200 x 64, 64 values": Case(200, 64, 64, 1),
    "60 x 16, frames of 20": Case(60, 16, 1024, 20),
}
EVERY = 1 / 3
"""Seconds from one frame of each query and partition to the next."""
IDLE, BURN_IN, SECONDS = 3.0, 5.0, 13.0
"""The watchdog ends a worker that writes no checkpoint for 25 seconds."""
NEVER = "from aggregator.counting import checkpoint\n"
NO_CHANGELOG, NO_SNAPSHOTS = "checkpoint.INTERVAL = 1e6\n", "checkpoint.OPEN_INTERVAL = 1e6\n"
VARIANTS = {
    "counting itself": NEVER + NO_CHANGELOG + NO_SNAPSHOTS,
    "changelog alone": NEVER + NO_SNAPSHOTS,
    "snapshots alone, written and read": NEVER + NO_CHANGELOG,
    "both": NEVER,
}


class Found(NamedTuple):
    """What a worker did in a second."""

    cpu: float
    frames: float
    checkpoints: float
    changelog: float
    snapshots: float


def steps(case, rounds=6):
    """CPU seconds of each step a record, when every tally has changed."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "hubbub.toml")
        file.write_text(text_of(case))
        definitions = {query.digest: Versions.of(query) for query in load(file).values()}
    sources = [SourcePartition(Gate(at, case.partitions, definitions), "w") for at in range(case.partitions)]
    shelves = [Shelf(at, case.partitions, definitions) for at in range(case.partitions)]
    for shelf in shelves:
        shelf.load()
    quirks.tune()
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
            draft = source.draft(whole=True)
            batch(draft.tallies)
            source.settled(draft)
        marks.append(time.process_time())
        snapshots = {}
        for source in sources:
            for key, _, value in source.open_snapshots({}):
                snapshots.setdefault(home(key.digest, case.partitions), []).append((key.encode(), value))
        made = {target: batch(writes) for target, writes in snapshots.items()}
        marks.append(time.process_time())
        for target, data in made.items():
            for record in MemoryRecords(data).next_batch():
                shelves[target].put(record.key, record.value, record.timestamp)
        marks.append(time.process_time())
        for step, start, end in zip(took, marks, marks[1:], strict=False):
            took[step] += end - start
    return {step: seconds / rounds / case.queries / case.partitions for step, seconds in took.items()}


def batch(writes):
    """One batch, however large."""
    builder = BatchBuilder(1 << 30, 0)
    for key, value in writes:
        builder.append(timestamp=None, key=key, value=value)
    return bytes(builder._build())  # noqa: SLF001 - as the producer does it


def reports(query, case):
    return query.oracle.perturb(RNG.integers(0, case.size, case.per_frame), RNG)


def text_of(case):
    return "".join(QUERY.format(number=number, size=case.size) for number in range(case.queries))


def pin(core):
    os.sched_setaffinity(0, {core})


def cpu(pid):
    """Seconds that a process has computed."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def loaded(place, case, worker):
    """A worker under the load, after a burn-in."""
    kafka, pane = place.kafka, int(time.time()) // 3600 * 3600
    frames = [encode(query.digest, pane, reports(query, case)) for query in place.queries.values()]
    producer = AIOKafkaProducer(**kafka.client(), acks="all", max_batch_size=1 << 20)
    reader = AIOKafkaConsumer(**kafka.client(), group_id=None)
    async with started(producer, kafka), started(reader, kafka):

        async def ends(name):
            tps = [TopicPartition(kafka.topic(name), partition) for partition in range(case.partitions)]
            return sum((await reader.end_offsets(tps)).values())

        async def look():
            told = worker.metrics()
            checkpoints = sum(value for _, value in told["hubbub_checkpoint_seconds_count"])
            counted = sum(value for _, value in told["hubbub_frames_total"])
            return [cpu(worker.process.pid), counted, checkpoints, await ends(CHANGELOG), await ends(SNAPSHOTS)]

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
    return idle, Found(*[(end - start) / took for start, end in zip(before, after, strict=True)])


def measured(broker, case, patch):
    """A worker that is started for this alone."""
    with tempfile.TemporaryDirectory() as folder, Place(broker, Path(folder), text_of(case), case.partitions) as place:
        pin(OURS)
        worker = place.start(patch=patch, HUBBUB_LOG_LEVEL="warning").ready()
        pin(THEIRS)
        return asyncio.run(loaded(place, case, worker))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="case", help=f"of: {'; '.join(CASES)}")
    options = parser.parse_args()
    wanted = {
        name: case for name, case in CASES.items() if not options.cases or any(part in name for part in options.cases)
    }
    for name, case in wanted.items():
        found = steps(case)
        each = ", ".join(f"{step} {1e6 * seconds:.1f}" for step, seconds in found.items())
        print(f"{name:24}us a record: {each}", flush=True)
    pin(THEIRS)
    with Cluster(1, flags=BROKER) as cluster:
        for name, case in wanted.items():
            rest = frame = None
            for variant, patch in VARIANTS.items():
                idle, found = measured(cluster, case, patch)
                if rest is None:
                    rest, frame = idle, (found.cpu - idle) / found.frames
                records, more = found.changelog + found.snapshots, found.cpu - rest - frame * found.frames
                each = f"{1e6 * more / records:6.1f} us each" if records else f"{1e6 * frame:6.1f} us a frame"
                print(
                    f"{name:24}{variant:35}{found.cpu:6.2f} cores, of them {more:5.2f} beside the counting"
                    f" | {found.frames:8,.0f} frames/s, {found.changelog:8,.0f} records/s in the changelog,"
                    f" {found.snapshots:8,.0f} snapshots/s | {found.checkpoints:5.2f} checkpoints/s | {each}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
