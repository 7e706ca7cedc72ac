"""A soak test of memory and disk. It passes through days of panes of one second on a real broker.

    $ python tests/faults/soak.py --days 7     needs Java and Maven; 80 to 130 simulated seconds a second
    $ python tests/faults/soak.py --live 60    60 minutes of the clock, by the time of the log

The topics have the clients' time (CreateTime), and the worker takes the broker for an embedded one. So only ticks move
its clocks, and this program appends ticks ahead of the real time. After each simulated hour, or
after six minutes of a live run, it prints the memory of the processes and the size of the topics. It exits with 1 if
the second half of the run needed over a tenth more than the first half.
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

from hubbub.kafka.clients import client_arguments

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from hubbub.kafka.clients import started  # noqa: E402
from hubbub.kafka.settings import ALERTS, CHANGELOG, CLOCKS, ESTIMATES, REJECTS, REPORTS, SNAPSHOTS, TRUTH  # noqa: E402
from oracles.frame import TICK, encode  # noqa: E402
from tests.brokers import Cluster  # noqa: E402
from tests.integration.workers import HUBBUB, Place, environment, until  # noqa: E402
from tests.queries import LIVE, make_text  # noqa: E402

PARTITIONS = 2
PAGE = LIVE | {
    "domain": 32,
    "oracle": "grr",
    "epsilon": 2.0,
    "answers": "fresh",
    "lateness": "2s",
    "emit_every": "never",
}
QUERIES = make_text("page", PAGE, windows=["1s", "1h/1m"]) + make_text("site", PAGE, pane="1m", windows=["all"])
HOUR, DAY = 3600, 86_400
EACH = HOUR // 10
"""Seconds between two lines of a live run."""
STEP = 240
"""Simulated seconds of one batch of frames."""
BEHIND = 2 * STEP * PARTITIONS
"""The most records that the worker may have to read before the next batch."""
TOPICS = (REPORTS, REJECTS, SNAPSHOTS, CLOCKS, CHANGELOG, ESTIMATES, ALERTS, TRUTH)
FAST_SETTINGS = {
    REPORTS: {"message.timestamp.type": "CreateTime", "retention.bytes": str(8 << 20), "segment.bytes": str(1 << 20)},
    ESTIMATES: {"cleanup.policy": "delete", "retention.bytes": str(32 << 20), "segment.bytes": str(4 << 20)},
    SNAPSHOTS: {"segment.bytes": str(1 << 20)},
    CHANGELOG: {"segment.bytes": str(1 << 20)},
}
"""Settings that delete records by size, because days pass within minutes."""
FUTURE = {"message.timestamp.after.max.ms": str(1 << 53)}


async def hurry(kafka):
    """Change the settings of the topics for simulated time."""
    async with started(AIOKafkaAdminClient(**client_arguments(kafka)), kafka) as admin:
        for name in TOPICS:
            settings = {**FAST_SETTINGS.get(name, {}), **FUTURE}
            if name in (SNAPSHOTS, CLOCKS, CHANGELOG):
                settings |= {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.1"}
                settings |= {"delete.retention.ms": "10000", "segment.ms": "10000", "min.compaction.lag.ms": "10000"}
            await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, kafka.topic(name), settings)])


def resident(pid):
    """Return the resident memory of a process in MiB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def children(pid):
    """Return the child processes of a process and all its threads."""
    return [int(child) for file in Path(f"/proc/{pid}/task").glob("*/children") for child in file.read_text().split()]


def on_disk(cluster, kafka):
    """Return the size of each topic in MiB."""
    data = cluster.nodes[0].keeper.folder / "data"
    return {
        name: sum(part.stat().st_blocks * 512 for part in data.glob(f"{kafka.topic(name)}-*/*")) / (1 << 20)
        for name in TOPICS
    }


class Soak:
    """A run that appends frames and ticks for each second, as fast as the worker reads or as the clock goes."""

    def __init__(self, cluster, folder, *, live):
        self.cluster = cluster
        self.place = Place(cluster, folder, QUERIES, PARTITIONS)
        self.queries = self.place.queries
        if not live:
            asyncio.run(hurry(self.place.kafka))
        self.worker = self.place.start(**({} if live else {"HUBBUB_EMBEDDED": "1"})).ready()
        env = {**environment(self.place.kafka, self.place.file), "HUBBUB_EMBEDDED": "0"}
        with (folder / "board.log").open("wb") as log:
            self.board = subprocess.Popen([HUBBUB, "board", "--port", "0"], env=env, stdout=log, stderr=log)
        self.rng = np.random.default_rng(1)
        self.lines = []

    def close(self):
        self.board.send_signal(signal.SIGTERM)
        self.board.wait(20)
        self.place.__exit__()

    async def simulated(self, seconds):
        """Pass through this many future seconds."""
        begin = int(time.time()) // HOUR * HOUR + HOUR
        async with self._producer() as producer:
            for second in range(begin, begin + seconds, STEP):
                sendings = []
                for number in range(second, second + STEP):
                    sendings += await self._send(producer, self._frames(number), 1000 * number)
                    sendings += await self._send(producer, [TICK] * PARTITIONS, 1000 * number + 900)
                await asyncio.gather(*sendings)
                await asyncio.sleep(1)
                await asyncio.to_thread(until, self.follows, 120)
                if (second + STEP - begin) % HOUR == 0:
                    self.note()

    async def live(self, seconds):
        """Run for this many seconds of the clock."""
        async with self._producer() as producer:
            begin = time.time()
            for turn in range(seconds):
                await asyncio.sleep(max(0.0, begin + turn - time.time()))
                await asyncio.gather(*await self._send(producer, self._frames(int(time.time())), None))
                if (turn + 1) % EACH == 0:
                    await asyncio.to_thread(until, self.follows, 120)
                    self.note()

    def _producer(self):
        kafka = self.place.kafka
        return started(AIOKafkaProducer(**client_arguments(kafka), acks="all", linger_ms=20), kafka)

    def _frames(self, second):
        """Yield the frame of a second for each partition."""
        query = self.queries["page" if second % 60 else "site"]
        for _ in range(PARTITIONS):
            reports = query.oracle.perturb(self.rng.integers(0, 32, 20) ** 2 // 32, self.rng)
            yield encode(query.digest, second // query.pane * query.pane, reports)

    async def _send(self, producer, values, ms):
        topic = self.place.kafka.topic(REPORTS)
        return [
            await producer.send(topic, value, partition=partition, timestamp_ms=ms)
            for partition, value in enumerate(values)
        ]

    def follows(self):
        """Whether the worker has read almost all records and has no finals to publish."""
        metrics = self.worker.metrics()
        unread = sum(value for _, value in metrics["hubbub_lag_records"])
        return unread < BEHIND and metrics["hubbub_publish_lag_seconds"][0][1] < 5

    def note(self):
        worker = self.worker.process.pid
        child_memory = sum(map(resident, children(worker)))
        sizes = {"worker": resident(worker), "children": child_memory, "board": resident(self.board.pid)}
        sizes |= on_disk(self.cluster, self.place.kafka)
        self.lines.append(sizes)
        if len(self.lines) == 1:
            head = "".join(f"{name.rpartition('-')[2]:>11}" for name in sizes)
            print(f"{'line':>6}{head}   MiB", flush=True)
        print(f"{len(self.lines):6d}" + "".join(f"{value:11.1f}" for value in sizes.values()), flush=True)


def growth(lines):
    """Return by how much the second half exceeds the first, if by over a tenth and 8 MiB."""
    half = len(lines) // 2
    most = {name: [max(line[name] for line in part) for part in (lines[:half], lines[half:])] for name in lines[0]}
    return {name: later - earlier for name, (earlier, later) in most.items() if later > 1.1 * earlier + 8}


def main() -> int:
    parser = argparse.ArgumentParser(description="Days of panes of one second, hurried through on a real broker.")
    parser.add_argument("--days", type=float, default=7.0, help="number of simulated days (default 7)")
    parser.add_argument("--live", type=float, metavar="MINUTES", help="minutes of a live run, in place of days")
    options = parser.parse_args()
    live = options.live is not None
    with Cluster(1) as cluster, tempfile.TemporaryDirectory() as folder:
        soak = Soak(cluster, Path(folder), live=live)
        began = time.monotonic()
        try:
            asyncio.run(
                soak.live(int(60 * options.live)) if live else soak.simulated(int(options.days * DAY) // HOUR * HOUR)
            )
        finally:
            soak.close()
        excess = growth(soak.lines)
        ran = f"{options.live:g} minutes" if live else f"{options.days:g} days"
        print(f"{ran} in {time.monotonic() - began:.0f} s; {excess or 'nothing grows'}")
    return 1 if excess else 0


if __name__ == "__main__":
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    sys.exit(main())
