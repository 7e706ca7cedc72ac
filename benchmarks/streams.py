"""Compare the CPU time per message of hubbub and of other stream processors, on the same topic of reports.

python -m benchmarks.streams [case ...]     needs the extra `bench`, Java and Maven; a few minutes

Each peer does the minimum. It takes the reports out of the frames, several thousand at a time, and adds them
with hubbub's own kernel. The broker has one core, and the measured process has the other. The measurement covers the
first tenth to the end. A slow peer reads only the beginning of the topic.
"""

import asyncio
import os
import subprocess
import sys
import time
from importlib.metadata import PackageNotFoundError, version

import numpy as np

from benchmarks.end_to_end import RNG, count_by_worker, fill
from benchmarks.harness import OURS, PARTITIONS, QUERY, arguments, broker_on_other_core, pin, place_of, selection, show
from oracles import oracle
from oracles.frame import HEADER_SIZE

SIZE = 1024
CASES = {
    # name: reports a frame, frames
    "one report a message, with id": (1, 1_000_000),
    "frames of 1,000, with ids": (1000, 50_000),
}
AT_ONCE = 1 << 16
"""Number of bytes of frames in one call of the kernel."""


class Tally:
    """The tally of a peer, with the start and the end of its measurement."""

    def __init__(self, frames):
        self.frames = frames
        self.oracle = oracle("olh", epsilon=1.0, size=SIZE)
        self.state = self.oracle.zeros()
        self.waiting = []
        self.count = 0
        self.size = 0
        self.start = None

    def put(self, value):
        self.waiting.append(value[HEADER_SIZE:])
        # A call of the kernel for each message would mostly measure the call.
        self.size += len(value)
        self.count += 1
        if self.size >= AT_ONCE or self.count >= self.frames:
            self.add()

    def add(self):
        reports = np.frombuffer(b"".join(self.waiting), np.uint8).reshape(-1, self.oracle.width)
        self.oracle.add(self.state, reports)
        self.waiting = []
        self.size = 0
        marks = self.count, time.process_time(), time.perf_counter()
        if self.start is None and self.count >= self.frames // 10:
            self.start = marks
        if self.count >= self.frames:
            count, cpu, wall = np.subtract(marks, self.start)
            os.write(1, f"\n{cpu / count} {wall / count}\n".encode())  # some peers replace sys.stdout
            os._exit(0)  # some peers do not return


def by_aiokafka(broker, topic, tally):
    from aiokafka import AIOKafkaConsumer, TopicPartition

    async def work():
        consumer = AIOKafkaConsumer(bootstrap_servers=broker, group_id=None, max_partition_fetch_bytes=4 << 20)
        await consumer.start()
        consumer.assign([TopicPartition(topic, p) for p in range(PARTITIONS)])
        await consumer.seek_to_beginning()
        while True:
            for records in (await consumer.getmany(timeout_ms=1000)).values():
                for record in records:
                    tally.put(record.value)

    asyncio.run(work())


def by_confluent(broker, topic, tally):
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": broker, "group.id": "confluent", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, p, 0) for p in range(PARTITIONS)])
    while True:
        for message in consumer.consume(10_000, timeout=1.0):
            tally.put(message.value())


def by_faust(broker, topic, tally):
    import faust

    app = faust.App("faust-agent", broker=f"kafka://{broker}", web_enabled=False, topic_disable_leader=True)
    source = app.topic(topic, value_type=bytes, value_serializer="raw")

    @app.agent(source)
    async def count(values):
        async for value in values:
            tally.put(value)

    faust.Worker(app, loglevel="error").execute_from_commandline()


def by_quixstreams(broker, topic, tally):
    from quixstreams import Application

    app = Application(
        broker_address=broker, consumer_group="quixstreams", auto_offset_reset="earliest", loglevel="ERROR"
    )
    frames = app.dataframe(app.topic(topic, value_deserializer="bytes"))
    frames.update(tally.put)
    app.run()


def by_bytewax(broker, topic, tally):
    import bytewax.operators as op
    from bytewax.connectors.kafka import KafkaSource
    from bytewax.dataflow import Dataflow
    from bytewax.outputs import DynamicSink, StatelessSinkPartition
    from bytewax.testing import run_main

    class Nothing(StatelessSinkPartition):
        def write_batch(self, items):
            pass

    class Nowhere(DynamicSink):
        def build(self, step_id, worker_index, worker_count):
            del step_id, worker_index, worker_count
            return Nothing()

    def put(messages):
        for message in messages:
            tally.put(message.value)
        return []

    flow = Dataflow("plain")
    messages = op.input("in", flow, KafkaSource([broker], [topic], tail=True, batch_size=10_000))
    op.output("out", op.flat_map_batch("count", messages, put), Nowhere())
    run_main(flow)


PEERS = {
    # name: package, function that counts, largest number of frames
    "aiokafka + NumPy": ("aiokafka", by_aiokafka, 10**9),
    "confluent-kafka + NumPy": ("confluent-kafka", by_confluent, 10**9),
    "bytewax": ("bytewax", by_bytewax, 10**9),
    "quixstreams": ("quixstreams", by_quixstreams, 100_000),
    "a plain Faust agent": ("faust-streaming", by_faust, 100_000),
}
DIFFERENCE = """\
Only hubbub finds duplicate frames, checks query and pane of each frame, keeps its tallies in a crash without
losing or repeating a report, and closes panes by the log's clock.
"""


def measure(cluster, name):
    per_frame, frames = CASES[name]
    with place_of(cluster, QUERY.format(oracle="olh", size=SIZE)) as place:
        query = place.queries["measured"]
        reports = query.oracle.perturb(RNG.integers(0, SIZE, min(frames * per_frame, 200_000)), RNG)
        asyncio.run(fill(place.kafka, query, reports, per_frame, frames, ids=True))
        wall, cpu, _ = count_by_worker(place, frames * per_frame)
        print_row(name, "hubbub", cpu / frames, wall / frames, per_frame)
        for peer, (package, _, most) in PEERS.items():
            try:
                version(package)
            except PackageNotFoundError:
                show(f"{name:30} {peer:24} left out: {package} is not installed")
            else:
                measure_peer(name, peer, place.kafka, min(frames, most))


def measure_peer(name, peer, kafka, frames):
    """Let a peer count the topic in a process of its own, on the core of the worker."""
    command = [sys.executable, "-m", "benchmarks.streams", "--peer", peer, kafka.servers, kafka.topic("reports")]
    process = subprocess.run(  # noqa: S603 - this very module
        ["timeout", "300", *command, str(frames)],  # noqa: S607 - coreutils'
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        preexec_fn=lambda: pin(OURS),
    )
    if process.returncode:
        show(f"{name:30} {peer:24} left out: exit code {process.returncode}")
        return
    *_, cpu, wall = process.stdout.split()
    print_row(name, peer, float(cpu), float(wall), CASES[name][0])


def print_row(name, program, cpu, wall, per_frame):
    show(
        f"{name:30} {program:24} {1e6 * cpu:8.2f} us of CPU per message, {1e6 * wall:8.2f} of wall time,"
        f" {per_frame / cpu:12,.0f} reports/s of CPU"
    )


def main():
    options = arguments(__doc__, CASES, peer=([""], "internal: a peer, its broker and topic, and the frames"))
    if options.peer != [""]:
        peer, broker, topic, frames = options.peer
        # Some peers read the arguments of the process themselves.
        sys.argv[1:] = []
        PEERS[peer][1](broker, topic, Tally(int(frames)))
    with broker_on_other_core() as cluster:
        for name in selection(CASES, options.cases):
            measure(cluster, name)
    print(DIFFERENCE)


if __name__ == "__main__":
    main()
