"""Measure a worker on a filled topic, relative to the costs of its parts, in one run.

python -m benchmarks.end_to_end [case ...]     needs Java and Maven; a few minutes

The broker has one core, and the measured process has the other. `raw` is a tuned getmany over the same topic (bare
records, the worker's garbage collector settings) that ignores the content. `kernel` is the oracle's own add over the
same reports. Ratios are ratios of CPU time, which a busy machine disturbs less than wall time. The worker's time is
that of its whole process, including metrics and checkpoints.
"""

import asyncio
import time
from contextlib import contextmanager

import numpy as np
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.consumer import fetcher

from aggregator.counting import faust_patches
from benchmarks.harness import (
    OURS,
    PARTITIONS,
    QUERY,
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
from hubbub.kafka.clients import client_arguments
from oracles.frame import encode, with_id

RNG = np.random.default_rng(20260101)
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
    count = size = 0
    acks = []
    while count < frames:
        batch = producer.create_batch()
        partition = len(acks) % PARTITIONS
        batch_end = frames if per_batch is None else min(frames, count + per_batch)
        while count < batch_end:
            value = values[count % len(values)]
            if ids:  # an id of this partition that is never zero
                value = with_id(value, ((count + 1) * PARTITIONS + partition).to_bytes(8, "little"))
            if batch.append(key=None, value=value, timestamp=None) is None:
                break
            size += len(value)
            count += 1

        acks.append(await producer.send_batch(batch, kafka.topic("reports"), partition=partition))
        # Without a wait, small batches would fill the memory of the producer.
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
        count = 0
        began = time.process_time()
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
    records_of_aiokafka = fetcher.PartitionRecords
    fetcher.PartitionRecords = Bare
    try:
        yield
    finally:
        fetcher.PartitionRecords = records_of_aiokafka


def kernel(query, reports, per_frame, frames):
    """Return the CPU seconds of the oracle for adding all reports, one fetch at a time."""
    at_once = max(1, (4 << 20) // reports.shape[1])
    state = query.oracle.zeros()
    fetch = reports[:at_once]
    rounds = max(3, 10_000_000 // len(fetch) // 10)

    began = time.process_time()
    for _ in range(rounds):
        query.oracle.add(state, fetch)
    return (time.process_time() - began) / (rounds * len(fetch)) * frames * per_frame


def two_workers(cluster, name):
    """Print the rates of one worker and of two workers on the same log, while all of them count."""
    oracle, size, per_frame, *_ = CASES[name]
    frames = 5_000_000
    rates = []
    for cores in ((OURS,), (OURS, THEIRS)):
        with place_of(cluster, QUERY.format(oracle=oracle, size=size)) as place:
            query = place.queries["measured"]
            reports = query.oracle.perturb(RNG.integers(0, size, 200_000), RNG)
            asyncio.run(fill(place.kafka, query, reports, per_frame, frames))
            workers = [worker_on(place, core) for core in cores]
            pin(OURS)
            marks = []
            while not marks or sum(marks[-1][1]) < 0.9 * frames * per_frame:
                time.sleep(0.1)
                counts = [worker.total("hubbub_reports_total") for worker in workers]
                marks.append((time.perf_counter(), counts))
        rates.append(rate_together(marks))

    show(
        f"{name:28} one worker {rates[0]:,.0f} reports/s, two {rates[1]:,.0f}: {rates[1] / rates[0]:.2f} times one "
        "(there are two cores, and the broker shares the second)"
    )


def rate_together(marks):
    """Return the reports a second while every worker counts. A mark has a time and the count of each worker."""
    active = []
    for (_, counts), (moment, later_counts) in zip(marks, marks[10:], strict=False):
        # The first fetches of a worker are slower.
        if min(later_counts) > 50_000 and all(np.greater(later_counts, counts)):
            active.append((moment, sum(later_counts)))
    (start, count_at_start), (end, count_at_end) = active[0], active[-1]
    return (count_at_end - count_at_start) / (end - start)


def count_by_worker(place, total):
    """Return a worker's wall and CPU seconds for counting the log, and the bytes that it wrote.

    The measurement covers the first tenth to the end, without the start of the process.
    """
    worker = worker_on(place, OURS)
    marks = []
    while not marks or marks[-1][1] < total:
        reports = worker.total("hubbub_reports_total")
        marks.append((time.perf_counter(), reports, cpu(worker.process.pid)))
        time.sleep(0.25)  # each read costs the worker 3 ms

    # If one fetch is most of the log, measure from before the first report.
    inner = [mark for mark in marks if 0.1 * total <= mark[1] < total] or marks[:1]
    start = max(mark for mark in marks if mark[1] <= inner[0][1])
    wall, counted, seconds = np.subtract(marks[-1], start)

    time.sleep(1.0)
    checkpoint_bytes = worker.total("hubbub_checkpoint_bytes_total")
    worker.end()
    share = counted / total
    return wall / share, seconds / share, checkpoint_bytes


def measure(cluster, name):
    oracle, size, per_frame, frames, ids, per_batch = CASES[name]
    total = frames * per_frame
    with place_of(cluster, QUERY.format(oracle=oracle, size=size)) as place:
        query = place.queries["measured"]
        reports = query.oracle.perturb(RNG.integers(0, size, min(total, 200_000)), RNG)
        bytes_in = asyncio.run(fill(place.kafka, query, reports, per_frame, frames, ids, per_batch))
        pin(OURS)

        # The reader runs before and after the worker, because the machine may be slower meanwhile.
        first_reading = asyncio.run(raw(place.kafka, frames))
        add = kernel(query, reports, per_frame, frames)
        wall, seconds, checkpoint_bytes = count_by_worker(place, total)
        alone = (first_reading + asyncio.run(raw(place.kafka, frames))) / 2

    show(
        f"{name:33} {total / seconds:12,.0f} reports/s of CPU ({total / wall:12,.0f} in wall time),"
        f" {1e6 * seconds / frames:7.2f} us a message | getmany {1e6 * alone / frames:7.2f} us:"
        f" {alone / seconds:5.2f} times as fast | time over getmany and kernel {seconds / (alone + add):5.2f}"
        f" | checkpoints {checkpoint_bytes / bytes_in:.2%} of the input"
    )
    return total / wall


def main():
    options = arguments(__doc__, [*CASES, "two"])
    faust_patches.tune()
    with broker_on_other_core() as cluster:
        for name in selection(CASES, options.cases):
            measure(cluster, name)
        if selection({"two": None}, options.cases):
            two_workers(cluster, "olh, one report a message")


if __name__ == "__main__":
    main()
