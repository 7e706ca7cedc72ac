"""Measure a worker on a filled topic, relative to the costs of its parts, in one run.

python -m benchmarks.end_to_end [case ...]     needs Java and Maven; a few minutes

The broker has one core, and the measured process has the other. `raw` is a tuned getmany over the same topic (bare
records, the worker's garbage collector settings) that ignores the content. `kernel` is the oracle's own add over the
same reports. Ratios are ratios of CPU time, which a busy machine disturbs less than wall time. The worker's time is
that of its whole process, including metrics and checkpoints.
"""

import argparse
import asyncio
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.consumer import fetcher

from aggregator.counting import faust_patches
from benchmarks.worker import BROKER, OURS, PARTITIONS, QUERY, RNG, THEIRS, Metrics, pin, worker
from hubbub.kafka.clients import client_arguments
from oracles.frame import encode, with_id
from oracles.query import load as load_queries
from tests.brokers import Cluster, create_topics

CASES = {
    # name: oracle, size, reports a frame, frames, whether they have ids, frames a batch
    "grr, one report a message": ("grr", 1024, 1, 2_000_000, False, None),
    "olh, one report a message": ("olh", 1024, 1, 2_000_000, False, None),
    "olh, one report a message with id": ("olh", 1024, 1, 2_000_000, True, None),
    "olh, one with id, 20 a batch": ("olh", 1024, 1, 400_000, True, 20),
    "olh, one with id, 5 a batch": ("olh", 1024, 1, 100_000, True, 5),
    "olh, frames of 20 with ids": ("olh", 1024, 20, 1_000_000, True, None),
    "grr, frames of 1,000": ("grr", 1024, 1000, 200_000, False, None),
    "olh, frames of 1,000 with ids": ("olh", 1024, 1000, 100_000, True, None),
    "oue, frames of 1,000 with ids": ("oue", 1024, 1000, 12_000, True, None),
}
"""Cases by name. A batch without a number of frames is as large as possible (1 MiB)."""


async def fill(kafka, query, reports, per_frame, frames, ids=False, per_batch=None):
    """Write batches and return their bytes in the log. It builds them itself, because a producer is too slow."""
    producer = AIOKafkaProducer(**client_arguments(kafka), acks="all", max_batch_size=1 << 20, max_request_size=2 << 20)
    await producer.start()
    pane = int(time.time()) // query.pane * query.pane
    values = [
        encode(query.digest, pane, reports[i : i + per_frame])
        for i in range(0, len(reports) - per_frame + 1, per_frame)
    ]
    count, size, acks = 0, 0, []
    while count < frames:
        batch, partition, first = producer.create_batch(), len(acks) % PARTITIONS, count
        while count < frames and (per_batch is None or count < first + per_batch):
            value = values[count % len(values)]
            if ids:  # an id of this partition that is never zero
                value = with_id(value, ((count + 1) * PARTITIONS + partition).to_bytes(8, "little"))
            if batch.append(key=None, value=value, timestamp=None) is None:
                break
            size += len(value)
            count += 1
        acks.append(await producer.send_batch(batch, kafka.topic("reports"), partition=partition))
        if per_batch is not None and len(acks) % 500 == 0:
            await asyncio.gather(*acks[-500:])
    await asyncio.gather(*acks)
    await producer.stop()
    return size


async def raw(kafka, frames):
    """Return the CPU seconds of getmany for the whole topic."""
    tps = [TopicPartition(kafka.topic("reports"), p) for p in range(PARTITIONS)]
    consumer = AIOKafkaConsumer(
        **client_arguments(kafka), group_id=None, auto_offset_reset="earliest", max_partition_fetch_bytes=4 << 20
    )
    await consumer.start()
    with bare():
        consumer.assign(tps)
        await consumer.seek_to_beginning()
        count, began = 0, time.process_time()
        while count < frames:
            count += sum(map(len, (await consumer.getmany(timeout_ms=1000)).values()))
    took = time.process_time() - began
    await consumer.stop()
    return took


class Bare(fetcher.PartitionRecords):
    """The fastest records of getmany: aiokafka's own parser without its named tuples."""

    def _consumer_record(self, tp, record):
        del tp
        return record.offset, record.timestamp, record.value


@contextmanager
def bare():
    """Use the records of `Bare` inside this context."""
    before, fetcher.PartitionRecords = fetcher.PartitionRecords, Bare
    try:
        yield
    finally:
        fetcher.PartitionRecords = before


def kernel(query, reports, per_frame, frames):
    """Return the CPU seconds of the oracle for adding all reports, one fetch at a time."""
    at_once = max(1, (4 << 20) // reports.shape[1])
    state, some = query.oracle.zeros(), reports[:at_once]
    began = time.process_time()
    rounds = max(3, 10_000_000 // len(some) // 10)
    for _ in range(rounds):
        query.oracle.add(state, some)
    return (time.process_time() - began) / (rounds * len(some)) * frames * per_frame


def two_workers(cluster, name):
    """Print the rates of one worker and of two workers on the same log, while all of them count."""
    oracle, size, per_frame, *_ = CASES[name]
    frames, rates = 5_000_000, []
    for cores in ((OURS,), (OURS, THEIRS)):
        kafka = create_topics(cluster, PARTITIONS)
        with tempfile.TemporaryDirectory() as folder:
            queries = Path(folder, "hubbub.toml")
            queries.write_text(QUERY.format(oracle=oracle, size=size))
            query = load_queries(queries)["measured"]
            reports = query.oracle.perturb(RNG.integers(0, size, 200_000), RNG)
            asyncio.run(fill(kafka, query, reports, per_frame, frames))
            processes = [worker(kafka, queries, core) for core in cores]
            each, marks = [Metrics(process) for process in processes], []
            while not marks or sum(marks[-1][1]) < 0.9 * frames * per_frame:
                time.sleep(0.1)
                marks.append((time.perf_counter(), [of.read().get("hubbub_reports_total", 0.0) for of in each]))
            for process in processes:
                process.terminate()
                process.wait()
        working = [
            now
            for before, now in zip(marks, marks[10:], strict=False)
            if all(earlier < later for earlier, later in zip(before[1], now[1], strict=True))
        ]
        together = [(at, sum(counts)) for at, counts in working if min(counts) > 50_000]
        (start, first), (end, last) = together[0], together[-1]
        rates.append((last - first) / (end - start))
    print(
        f"{name:28} one worker {rates[0]:,.0f} reports/s, two {rates[1]:,.0f}: {rates[1] / rates[0]:.2f} times one "
        "(there are two cores, and the broker shares the second)",
        flush=True,
    )


def count_by_worker(kafka, queries, total):
    """Return a worker's wall and CPU seconds for counting the log, and the bytes that it wrote.

    The measurement covers the first tenth to the end, without the start of the process.
    """
    process = worker(kafka, queries)
    try:
        metrics, marks = Metrics(process), []
        while not marks or marks[-1][1] < total:
            values = metrics.read()
            reports = values.get("hubbub_reports_total", 0.0)
            marks.append((time.perf_counter(), reports, values["process_cpu_seconds_total"]))
            time.sleep(0.25)  # each read costs the worker 3 ms
        # If one fetch is most of the log, measure from before the first report.
        some = [mark for mark in marks if 0.1 * total <= mark[1] < total] or marks[:1]
        start, end = max(mark for mark in marks if mark[1] <= some[0][1]), marks[-1]
        time.sleep(1.0)
        checkpoint_bytes = metrics.read().get("hubbub_checkpoint_bytes_total", 0.0)
        share = (end[1] - start[1]) / total
        return (end[0] - start[0]) / share, (end[2] - start[2]) / share, checkpoint_bytes
    finally:
        process.terminate()
        process.wait()


def measure(cluster, name):
    oracle, size, per_frame, frames, ids, per_batch = CASES[name]
    kafka = create_topics(cluster, PARTITIONS)
    with tempfile.TemporaryDirectory() as folder:
        queries = Path(folder, "hubbub.toml")
        queries.write_text(QUERY.format(oracle=oracle, size=size))
        query = load_queries(queries)["measured"]
        reports = query.oracle.perturb(RNG.integers(0, size, min(frames * per_frame, 200_000)), RNG)
        bytes_in = asyncio.run(fill(kafka, query, reports, per_frame, frames, ids, per_batch))
        total = frames * per_frame
        pin(OURS)
        before, add = asyncio.run(raw(kafka, frames)), kernel(query, reports, per_frame, frames)
        wall, cpu, checkpoint_bytes = count_by_worker(kafka, queries, total)
        alone = (before + asyncio.run(raw(kafka, frames))) / 2
    print(
        f"{name:33} {total / cpu:12,.0f} reports/s of CPU ({total / wall:12,.0f} in wall time),"
        f" {1e6 * cpu / frames:7.2f} us a message | getmany {1e6 * alone / frames:7.2f} us:"
        f" {alone / cpu:5.2f} times as fast | time over getmany and kernel {cpu / (alone + add):5.2f}"
        f" | checkpoints {checkpoint_bytes / bytes_in:.2%} of the input",
        flush=True,
    )
    return total / wall


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="case", help=f"{'; '.join(CASES)}; two (default: all)")
    options = parser.parse_args()
    faust_patches.tune()

    def is_selected(name):
        return not options.cases or any(case in name for case in options.cases)

    pin(THEIRS)
    with Cluster(1, flags=BROKER) as cluster:
        pin(OURS)
        for name in CASES:
            if is_selected(name):
                measure(cluster, name)
        if is_selected("two"):
            two_workers(cluster, "olh, one report a message")


if __name__ == "__main__":
    main()
