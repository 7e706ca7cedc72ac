"""Measure the time from the close of a pane to its readable final record, at half of a worker's maximum rate.

python -m benchmarks.latency [case ...]     needs Java and Maven; a few minutes

The broker has one core and the worker the other. The last case has records of a million values.
"""

import asyncio
import time

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from aggregator.counting import faust_patches
from benchmarks.end_to_end import CASES, RNG, measure
from benchmarks.harness import (
    OURS,
    PARTITIONS,
    QUERY,
    THEIRS,
    arguments,
    broker_on_other_core,
    pin,
    place_of,
    selection,
    show,
    worker_on,
)
from hubbub.kafka.clients import client_arguments
from oracles.frame import encode

RATE_CASES = ("grr, frames of 1,000", "oue, frames of 1,000 with ids")
LARGE = "a million values"


async def load(kafka, query, rate, seconds, per_frame):
    """Send frames of the present pane at a steady rate, and return the start and the end."""
    producer = AIOKafkaProducer(**client_arguments(kafka), acks="all", max_batch_size=1 << 20, max_request_size=2 << 20)
    await producer.start()
    # A pool of a whole pane, because repeated noise would look like thousands of heavy hitters.
    pool = min(int(rate * query.pane), 200_000_000 // query.oracle.width) // per_frame * per_frame
    reports = query.oracle.perturb(RNG.integers(0, query.oracle.size, pool), RNG)
    count = 0
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        due = (time.monotonic() - began) * rate / per_frame
        pane = int(time.time()) // query.pane * query.pane
        for partition in range(PARTITIONS):
            batch = producer.create_batch()
            batch_end = count + min((due - count) / (PARTITIONS - partition), 500)
            while count < batch_end:
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
                earlier_clock = clocks[tp]
                clocks[tp] = max(earlier_clock, record.timestamp)
                if not earlier_clock:
                    continue
                closed, closed_by_record = [
                    ((ms - 1) // 1000 - query.lateness) // query.pane for ms in (earlier_clock, clocks[tp])
                ]
                for pane in range(closed + 1, closed_by_record + 1):
                    times.setdefault(pane * query.pane, {})[tp.partition] = record.timestamp

    await consumer.stop()
    return {end: max(closings.values()) for end, closings in times.items() if len(closings) == PARTITIONS}


async def finals(kafka, times):
    """Write the arrival time of each final, in ms, because a final's own time is its window's end."""
    consumer = AIOKafkaConsumer(**client_arguments(kafka), group_id=None, max_partition_fetch_bytes=64 << 20)
    await consumer.start()
    # A record of a million values exceeds the default size of a fetch.
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
    with place_of(cluster, QUERY.format(oracle=oracle, size=size).replace('"1h"', '"1s"')) as place:
        query = place.queries["measured"]
        worker = worker_on(place, OURS)
        pin(THEIRS)
        arrivals, (start_time, end_time) = asyncio.run(
            with_finals(place.kafka, load(place.kafka, query, rate, seconds, per_frame), 5)
        )
        real_rate = worker.total("hubbub_reports_total") / (end_time - start_time)
        worker.end()
        close_times = asyncio.run(closings(place.kafka, query))

    late = sorted(
        arrivals[end] - closing
        for end, closing in close_times.items()
        if end in arrivals and start_time + burn_in < closing / 1000 < end_time
    )
    p50 = late[len(late) // 2]
    p99 = late[min(len(late) - 1, len(late) * 99 // 100)]
    show(
        f"{name:28} at {real_rate:12,.0f} reports/s: from the close to the final record {p50} ms (median), "
        f"{p99} ms (p99 of {len(late)}, target 250)"
    )
    return real_rate, p50, p99


def large(cluster):
    """Measure records of a million values while the worker counts."""
    text = QUERY.format(oracle="olh", size=1_000_000).replace('"1h"', '"5s"')
    with place_of(cluster, text + 'methods = ["norm_sub", "calibrate"]\n') as place:
        query = place.queries["measured"]
        worker = worker_on(place, OURS)
        pin(THEIRS)
        arrivals, _ = asyncio.run(with_finals(place.kafka, load(place.kafka, query, 500_000, 30, 1000), 15))
        reports = worker.total("hubbub_reports_total")
        worker.end()
        close_times = asyncio.run(closings(place.kafka, query))

    slowest = max(arrivals[end] - closing for end, closing in close_times.items() if end in arrivals)
    show(
        f"olh, size 1,000,000, 500,000 reports/s: {len(close_times.keys() & arrivals)} finals, the slowest "
        f"{slowest / 1000:.1f} s after its close (target 5); {reports:,.0f} reports counted in that time"
    )


def main():
    options = arguments(__doc__, [*RATE_CASES, LARGE])
    faust_patches.tune()
    with broker_on_other_core() as cluster:
        for name in selection(dict.fromkeys(RATE_CASES), options.cases):
            latency(cluster, name, measure(cluster, name) / 2)
        if selection({LARGE: None}, options.cases):
            large(cluster)


if __name__ == "__main__":
    main()
