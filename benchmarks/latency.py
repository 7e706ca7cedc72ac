"""How long after its closing a pane's final record is there to be read, at half of the rate that a worker reaches.

python benchmarks/latency.py [case ...]     needs Java and Maven; some minutes

The broker has one core and the worker the other. The last case is of records of a million values.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from aggregator.counting import quirks  # noqa: E402
from benchmarks.end_to_end import CASES, measure  # noqa: E402
from benchmarks.worker import BROKER, OURS, PARTITIONS, QUERY, RNG, THEIRS, Metrics, pin, worker  # noqa: E402
from oracles.frame import encode  # noqa: E402
from oracles.query import load as load_queries  # noqa: E402
from tests.brokers import Cluster, prepared  # noqa: E402

RATED = ("grr, frames of 1,000", "oue, frames of 1,000 with ids")
LARGE = "a million values"


async def load(kafka, query, rate, seconds, per_frame):
    """Frames at a steady rate, of the present pane. When it began and ended."""
    producer = AIOKafkaProducer(**kafka.client(), acks="all", max_batch_size=1 << 20, max_request_size=2 << 20)
    await producer.start()
    # As many as a pane holds: the same noise again and again would look like thousands of heavy hitters.
    pool = min(int(rate * query.pane), 200_000_000 // query.oracle.width) // per_frame * per_frame
    reports = query.oracle.perturb(RNG.integers(0, query.oracle.size, pool), RNG)
    began, sent = time.monotonic(), 0
    while (now := time.monotonic() - began) < seconds:
        pane = int(time.time()) // query.pane * query.pane
        for partition in range(PARTITIONS):
            batch = producer.create_batch()
            until = sent + min((now * rate / per_frame - sent) / (PARTITIONS - partition), 500)
            while sent < until:
                start = sent * per_frame % pool
                data = encode(query.digest, pane, reports[start : start + per_frame])
                if batch.append(key=None, value=data, timestamp=None) is None:
                    break
                sent += 1
            if batch.record_count():
                await producer.send_batch(batch, kafka.topic("reports"), partition=partition)
        await asyncio.sleep(0.01)
    await producer.stop()
    return time.time() - (time.monotonic() - began), time.time()


async def closings(kafka, query):
    """For each pane's end, when the record that closed its last partition was logged, in ms."""
    found = {}
    tps = [TopicPartition(kafka.topic("reports"), p) for p in range(PARTITIONS)]
    consumer = AIOKafkaConsumer(**kafka.client(), group_id=None, max_partition_fetch_bytes=4 << 20)
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
                    found.setdefault(pane * query.pane, {})[tp.partition] = record.timestamp
    await consumer.stop()
    return {end: max(at.values()) for end, at in found.items() if len(at) == PARTITIONS}


async def finals(kafka, found):
    """For each final, when it was there to be read, in ms; their own times are those of their windows."""
    consumer = AIOKafkaConsumer(**kafka.client(), group_id=None, max_partition_fetch_bytes=64 << 20)
    await consumer.start()
    consumer.assign([TopicPartition(kafka.topic("estimates"), p) for p in range(PARTITIONS)])
    await consumer.seek_to_beginning()
    try:
        async for record in consumer:
            if not record.key.endswith(b"|p"):
                found.setdefault(int(record.key.rpartition(b"|")[2]), round(1000 * time.time()))
    finally:
        await consumer.stop()


async def watched(kafka, work, settle):
    """When each final was there, while this is done and for a while after; and what came of it."""
    found = {}
    watching = asyncio.create_task(finals(kafka, found))
    done = await work
    await asyncio.sleep(settle)
    watching.cancel()
    await asyncio.wait([watching])
    return found, done


def latency(cluster, name, rate, seconds=60, burn_in=15):
    """From the record that closes a pane on the last partition to the final record, at this many reports a second.

    The rate that was reached, the median and the 99th of 100, in ms.
    """
    oracle, size, per_frame, *_ = CASES[name]
    kafka = prepared(cluster, PARTITIONS)
    with tempfile.TemporaryDirectory() as folder:
        queries = Path(folder, "hubbub.toml")
        queries.write_text(QUERY.format(oracle=oracle, size=size).replace('"1h"', '"1s"'))
        query = load_queries(queries)["measured"]
        process = worker(kafka, queries)
        try:
            metrics = Metrics(process)
            pin(THEIRS)
            sent, (began, ended) = asyncio.run(watched(kafka, load(kafka, query, rate, seconds, per_frame), 5))
            reached = metrics.read()["hubbub_reports_total"] / (ended - began)
        finally:
            process.terminate()
            process.wait()
        closed = asyncio.run(closings(kafka, query))
    meant = {end: at for end, at in closed.items() if began + burn_in < at / 1000 < ended}
    late = sorted(sent[end] - at for end, at in meant.items() if end in sent)
    p50, p99 = late[len(late) // 2], late[min(len(late) - 1, len(late) * 99 // 100)]
    print(
        f"{name:28} at {reached:12,.0f} reports/s: from closing to the final record {p50} ms (median), "
        f"{p99} ms (p99 of {len(late)}, target 250)",
        flush=True,
    )
    return reached, p50, p99


def large(cluster):
    """Records of a million values while others are counted."""
    kafka = prepared(cluster, PARTITIONS)
    with tempfile.TemporaryDirectory() as folder:
        queries = Path(folder, "hubbub.toml")
        text = QUERY.format(oracle="olh", size=1_000_000).replace('"1h"', '"5s"')
        queries.write_text(text + 'methods = ["norm_sub", "calibrate"]\n')
        query = load_queries(queries)["measured"]
        process = worker(kafka, queries)
        try:
            metrics = Metrics(process)
            pin(THEIRS)
            sent, _ = asyncio.run(watched(kafka, load(kafka, query, 500_000, 30, 1000), 15))
            found = metrics.read()
        finally:
            process.terminate()
            process.wait()
        closed = asyncio.run(closings(kafka, query))
    late = sorted(sent[end] - at for end, at in closed.items() if end in sent)
    print(
        f"olh, size 1,000,000, 500,000 reports/s: {len(late)} finals, the slowest {late[-1] / 1000:.1f} s after "
        f"its closing (target 5); {found['hubbub_reports_total']:,.0f} reports counted meanwhile",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="case", help=f"of: {'; '.join((*RATED, LARGE))}")
    wanted = parser.parse_args().cases or (*RATED, LARGE)
    quirks.tune()
    pin(THEIRS)
    with Cluster(1, flags=BROKER) as cluster:
        pin(OURS)
        for name in RATED:
            if any(case in name for case in wanted):
                latency(cluster, name, measure(cluster, name) / 2)
        if any(case in LARGE for case in wanted):
            large(cluster)


if __name__ == "__main__":
    main()
