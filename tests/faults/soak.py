"""A soak: days of panes of one second on a real broker, hurried through, and what they leave in memory and on disk.

python tests/faults/soak.py --days 7     needs Java and Maven; 80 to 200 simulated seconds a second

The topics have the clients' time (CreateTime), and the worker is told that the broker is an embedded one: so only
ticks move its clocks, and this program appends them, as far ahead as it likes. A line a simulated hour says what
worker and board hold, and what stands in the topics. It ends with 1 where the second half of the run needed more
than a tenth above the first half.
"""

import argparse
import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from hubbub.kafka import started  # noqa: E402
from hubbub.names import ALERTS, CHANGELOG, ESTIMATES, REJECTS, REPORTS, SNAPSHOTS, TRUTH  # noqa: E402
from oracles.frame import TICK, encode  # noqa: E402
from tests.brokers import Cluster  # noqa: E402
from tests.integration.workers import HUBBUB, Place, environment, until  # noqa: E402

PARTITIONS = 2
QUERIES = """
[queries.page]
domain = 32
oracle = "grr"
epsilon = 2.0
answers = "fresh"
budget = 1e9
pane = "1s"
lateness = "2s"
crowd = 1
windows = ["1s", "1h/1m", "all"]
emit_every = "never"
"""
HOUR, DAY = 3600, 86_400
STEP = 120
"""Simulated seconds that are appended at once."""
BEHIND = 2 * STEP * PARTITIONS
"""Records that may be unread when more are appended."""
TOPICS = (REPORTS, REJECTS, SNAPSHOTS, CHANGELOG, ESTIMATES, ALERTS, TRUTH)
HURRIED = {
    REPORTS: {"message.timestamp.type": "CreateTime", "retention.bytes": str(8 << 20), "segment.bytes": str(1 << 20)},
    ESTIMATES: {"cleanup.policy": "delete", "retention.bytes": str(32 << 20), "segment.bytes": str(4 << 20)},
    SNAPSHOTS: {"segment.bytes": str(1 << 20)},
    CHANGELOG: {"segment.bytes": str(1 << 20)},
}
"""Days pass within minutes, so what retention would take in days, size takes; and nothing is refused as too new."""
TO_COME = {"message.timestamp.after.max.ms": str(1 << 53)}


async def hurry(kafka):
    """Settings of the topics for time that runs fast."""
    async with started(AIOKafkaAdminClient(**kafka.client()), kafka) as admin:
        for name in TOPICS:
            settings = {**HURRIED.get(name, {}), **TO_COME}
            if name in (SNAPSHOTS, CHANGELOG):
                settings |= {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.1"}
                settings |= {"delete.retention.ms": "10000", "segment.ms": "10000", "min.compaction.lag.ms": "10000"}
            await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, kafka.topic(name), settings)])


def resident(process):
    """MiB."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def on_disk(cluster, kafka):
    """MiB of each topic."""
    data = cluster.nodes[0].keeper.folder / "data"
    return {
        name: sum(part.stat().st_blocks * 512 for part in data.glob(f"{kafka.topic(name)}-*/*")) / (1 << 20)
        for name in TOPICS
    }


class Soak:
    """The run: frames and ticks, second by second, as fast as the worker follows."""

    def __init__(self, cluster, folder):
        self.cluster, self.place = cluster, Place(cluster, folder, QUERIES, PARTITIONS)
        self.query = self.place.queries["page"]
        asyncio.run(hurry(self.place.kafka))
        self.worker = self.place.start(HUBBUB_EMBEDDED="1").ready()
        env = {**environment(self.place.kafka, self.place.file), "HUBBUB_EMBEDDED": "0"}
        with (folder / "board.log").open("wb") as log:
            self.board = subprocess.Popen([HUBBUB, "board", "--port", "0"], env=env, stdout=log, stderr=log)
        self.begin = int(time.time()) // HOUR * HOUR + HOUR
        self.lines = []

    def close(self):
        self.board.send_signal(signal.SIGTERM)
        self.board.wait(20)
        self.place.__exit__()

    async def run(self, seconds):
        rng, oracle = np.random.default_rng(1), self.query.oracle
        producer = AIOKafkaProducer(**self.place.kafka.client(), acks="all", linger_ms=20)
        async with started(producer, self.place.kafka):
            for second in range(self.begin, self.begin + seconds, STEP):
                sent = []
                for at in range(second, second + STEP):
                    for partition in range(PARTITIONS):
                        frame = encode(self.query.digest, at, oracle.perturb(rng.integers(0, 32, 20) ** 2 // 32, rng))
                        for value, ms in (frame, 1000 * at), (TICK, 1000 * at + 900):
                            sent.append(
                                await producer.send(
                                    self.place.kafka.topic(REPORTS), value, partition=partition, timestamp_ms=ms
                                )
                            )
                await asyncio.gather(*sent)
                await asyncio.to_thread(until, self.follows, 120)
                if (second + STEP - self.begin) % HOUR == 0:
                    self.note((second + STEP - self.begin) // HOUR)

    def follows(self):
        """Whether the worker has read almost all, and published what is due of it."""
        metrics = self.worker.metrics()
        unread = sum(value for _, value in metrics["hubbub_lag_records"])
        return unread < BEHIND and metrics["hubbub_publish_lag_seconds"][0][1] < 5

    def note(self, hour):
        disk = on_disk(self.cluster, self.place.kafka)
        found = {"worker": resident(self.worker.process), "board": resident(self.board), **disk}
        self.lines.append(found)
        head = "".join(f"{name.rpartition('-')[2]:>11}" for name in found)
        if hour == 1:
            print(f"{'hour':>6}{head}   MiB", flush=True)
        print(f"{hour:6d}" + "".join(f"{value:11.1f}" for value in found.values()), flush=True)


def bounded(lines):
    """What the second half needed above the first, by name, where that is more than a tenth (and 8 MiB)."""
    half = len(lines) // 2
    most = {name: [max(line[name] for line in part) for part in (lines[:half], lines[half:])] for name in lines[0]}
    return {name: after - before for name, (before, after) in most.items() if after > 1.1 * before + 8}


def main() -> int:
    parser = argparse.ArgumentParser(description="Days of panes of one second, hurried through on a real broker.")
    parser.add_argument("--days", type=float, default=7.0)
    days = parser.parse_args().days
    with Cluster(1) as cluster, tempfile.TemporaryDirectory() as folder:
        soak, began = Soak(cluster, Path(folder)), time.monotonic()
        try:
            asyncio.run(soak.run(int(days * DAY) // HOUR * HOUR))
        finally:
            soak.close()
        grown = bounded(soak.lines)
        print(f"{days:g} days in {time.monotonic() - began:.0f} s; {grown or 'nothing grows'}")
    return 1 if grown else 0


if __name__ == "__main__":
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    sys.exit(main())
