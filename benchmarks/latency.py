"""Measure the time from the close of a pane to its readable final record, at half of a worker's maximum rate.

python -m benchmarks.latency [case ...]     needs Java and Maven; a few minutes

The broker has one core and the worker the other. The last case has records of a million values.
"""

import argparse
import asyncio
import tempfile
import time
from pathlib import Path

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from aggregator.counting import faust_patches
from benchmarks.end_to_end import CASES, measure
from benchmarks.worker import BROKER, OURS, PARTITIONS, QUERY, RNG, THEIRS, Metrics, pin, worker
from hubbub.kafka.clients import client_arguments
from oracles.frame import encode
from oracles.query import load as load_queries
from tests.brokers import Cluster, create_topics

RATE_CASES = ("grr, frames of 1,000", "oue, frames of 1,000 with ids")
LARGE = "a million values"


async def load(kafka, query, rate, seconds, per_frame):
    """Send frames of the present pane at a steady rate, and return the start and the end."""
    producer = AIOKafkaProducer(**client_arguments(kafka), acks="all", max_batch_size=1 << 20, max_request_size=2 << 20)
    await producer.start()
    # A pool of a whole pane, because repeated noise would look like thousands of heavy hitters.
    pool = min(int(rate * query.pane), 200_000_000 // query.oracle.width) // per_frame * per_frame
    reports = query.oracle.perturb(RNG.integers(0, query.oracle.size, pool), RNG)
    began, count = time.monotonic(), 0
    while (now := time.monotonic() - began) < seconds:
        pane = int(time.time()) // query.pane * query.pane
        for partition in range(PARTITIONS):
            batch = producer.create_batch()
            until = count + min((now * rate / per_frame - count) / (PARTITIONS - partition), 500)
            while count < until:
                start = count * per_frame % pool
                data = encode(query.digest, pane, reports[start : start + per_frame])
                if batch.append(key=None, value=data, timestamp=None) is None:
                    break
                count += 1
            if batch.record_count():
                await producer.send_batch(batch, kafka.topic("reports"), partition=partition)
        await asyncio.sleep(0.01)
    await producer.stop()
    return time.time() - (time.monotonic() - began), time.time()


async def closings(kafka, query):
    """Return for each pane's end the log time, in ms, of the record that closed its last partition."""
    times = {}
    tps = [TopicPartition(kafka.topic("reports"), p) for p in range(PARTITIONS)]
    consumer = AIOKafkaConsumer(**client_arguments(kafka), group_id=None, max_partition_fetch_bytes=4 << 20)
    await consumer.start()
    consumer.assign(tps)
    await consumer.seek_to_beginning()
    ends = await consumer.end_offsets(tps)
    clocks = dict.fromkeys(tps, 0)
    while any([await consumer.position(tp) < ends[tp] for tp in tps]):
        for tp, records in (await consumer.getmany(timeout_ms=500)).items():
            for record in records:
                before, clocks[tp] = clocks[tp], max(clocks[tp], record.timestamp)
                first, last = [(ms // 1000 - query.lateness) // query.pane for ms in (before - 1, clocks[tp] - 1)]
                for pane in range(first + 1, last + 1) if before else ():
                    times.setdefault(pane * query.pane, {})[tp.partition] = record.timestamp
    await consumer.stop()
    return {end: max(at.values()) for end, at in times.items() if len(at) == PARTITIONS}


async def finals(kafka, times):
    """Write the arrival time of each final, in ms, because a final's own time is its window's end."""
    consumer = AIOKafkaConsumer(**client_arguments(kafka), group_id=None, max_partition_fetch_bytes=64 << 20)
    await consumer.start()
    consumer.assign([TopicPartition(kafka.topic("estimates"), p) for p in range(PARTITIONS)])
    await consumer.seek_to_beginning()
    try:
        async for record in consumer:
            if not record.key.endswith(b"|p"):
                times.setdefault(int(record.key.rpartition(b"|")[2]), round(1000 * time.time()))
    finally:
        await consumer.stop()


async def with_finals(kafka, work, settle):
    """Return the arrival times of finals during the work and `settle` seconds after it, and the result of the work."""
    times = {}
    watching = asyncio.create_task(finals(kafka, times))
    result = await work
    await asyncio.sleep(settle)
    watching.cancel()
    await asyncio.wait([watching])
    return times, result


def latency(cluster, name, rate, seconds=60, burn_in=15):
    """Measure the time from the record that closes a pane on the last partition to the final record, at this rate.

    Returns the real rate, the median and the 99th percentile in ms.
    """
    oracle, size, per_frame, *_ = CASES[name]
    kafka = create_topics(cluster, PARTITIONS)
    with tempfile.TemporaryDirectory() as folder:
        queries = Path(folder, "hubbub.toml")
        queries.write_text(QUERY.format(oracle=oracle, size=size).replace('"1h"', '"1s"'))
        query = load_queries(queries)["measured"]
        process = worker(kafka, queries)
        try:
            metrics = Metrics(process)
            pin(THEIRS)
            arrivals, (start_time, end_time) = asyncio.run(
                with_finals(kafka, load(kafka, query, rate, seconds, per_frame), 5)
            )
            real_rate = metrics.read()["hubbub_reports_total"] / (end_time - start_time)
        finally:
            process.terminate()
            process.wait()
        close_times = asyncio.run(closings(kafka, query))
    selection = {end: at for end, at in close_times.items() if start_time + burn_in < at / 1000 < end_time}
    late = sorted(arrivals[end] - at for end, at in selection.items() if end in arrivals)
    p50, p99 = late[len(late) // 2], late[min(len(late) - 1, len(late) * 99 // 100)]
    print(
        f"{name:28} at {real_rate:12,.0f} reports/s: from the close to the final record {p50} ms (median), "
        f"{p99} ms (p99 of {len(late)}, target 250)",
        flush=True,
    )
    return real_rate, p50, p99


def large(cluster):
    """Measure records of a million values while the worker counts."""
    kafka = create_topics(cluster, PARTITIONS)
    with tempfile.TemporaryDirectory() as folder:
        queries = Path(folder, "hubbub.toml")
        text = QUERY.format(oracle="olh", size=1_000_000).replace('"1h"', '"5s"')
        queries.write_text(text + 'methods = ["norm_sub", "calibrate"]\n')
        query = load_queries(queries)["measured"]
        process = worker(kafka, queries)
        try:
            metrics = Metrics(process)
            pin(THEIRS)
            arrivals, _ = asyncio.run(with_finals(kafka, load(kafka, query, 500_000, 30, 1000), 15))
            values = metrics.read()
        finally:
            process.terminate()
            process.wait()
        close_times = asyncio.run(closings(kafka, query))
    late = sorted(arrivals[end] - at for end, at in close_times.items() if end in arrivals)
    print(
        f"olh, size 1,000,000, 500,000 reports/s: {len(late)} finals, the slowest {late[-1] / 1000:.1f} s after "
        f"its close (target 5); {values['hubbub_reports_total']:,.0f} reports counted in that time",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="case", help=f"{'; '.join((*RATE_CASES, LARGE))} (default: all)")
    cases = parser.parse_args().cases or (*RATE_CASES, LARGE)
    faust_patches.tune()
    pin(THEIRS)
    with Cluster(1, flags=BROKER) as cluster:
        pin(OURS)
        for name in RATE_CASES:
            if any(case in name for case in cases):
                latency(cluster, name, measure(cluster, name) / 2)
        if any(case in LARGE for case in cases):
            large(cluster)


if __name__ == "__main__":
    main()
