"""A publisher on real brokers. Every report arrives once and on its partition, or an error reports it."""

import asyncio
import signal
import subprocess
import sys
import uuid
from collections import Counter
from dataclasses import replace
from itertools import chain

import numpy as np
import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.consumer import fetcher

from aggregator.demo.broker import free_port
from hubbub.kafka.clients import client_arguments, started
from hubbub.kafka.errors import KafkaUnreachable
from hubbub.kafka.patches.bounded_batches import FetchedBatches
from hubbub.kafka.settings import Kafka
from oracles.errors import ReportError
from oracles.frame import decode, partition_of
from producers import Client, DeliveryError, Publisher, StoreError
from producers.publishers import kafka_publisher as module
from producers.publishers.frames import COST
from tests.brokers import create_topics, frozen
from tests.queries import make_query
from tests.slowness import patience

PARTITIONS = 4
PANE = 1_700_000_000


def query(name="q", domain=1 << 16):
    return make_query(domain=domain, oracle="grr", budget=1e9, name=name)


Q = query()


def numbers(count, first=0):
    """Return the reports first, first + 1, ... in two bytes each."""
    return np.arange(first, first + count, dtype="<u2").view(np.uint8).reshape(-1, 2)


async def create(where, **settings):
    """Create only the topic of reports, with settings that keep records of the past."""
    # The reports have a pane of 2023, and Kafka would delete records of that age.
    settings = {"retention.ms": "-1"} | settings
    async with started(AIOKafkaAdminClient(**client_arguments(where)), where) as admin:
        await admin.create_topics([NewTopic(where.topic("reports"), PARTITIONS, 1, topic_configs=settings)])


def fresh(broker):
    return broker.kafka(f"t{uuid.uuid4().hex}.")


async def receive(target, reports):
    """Return all records of the topic, once they have that many reports in frames of different ids."""
    topic = target.topic("reports")
    records = []
    ids = {}
    async with started(AIOKafkaConsumer(**client_arguments(target)), target) as consumer:
        consumer.assign([TopicPartition(topic, partition) for partition in range(PARTITIONS)])
        await consumer.seek_to_beginning()
        async with asyncio.timeout(patience(60)):
            while sum(ids.values()) < reports:
                records.append(await consumer.getone())
                frame = decode(records[-1].value)
                ids[frame.id] = frame.n
    return records


def contents(records):
    """Return the numbers in frames of different ids. A frame may arrive several times, but always unchanged."""
    frames = {}
    for record in records:
        frame = decode(record.value)
        # Workers drop a second frame of an id, so another content would be lost.
        assert frames.setdefault(frame.id, record.value) == record.value
        assert record.partition == partition_of(frame.id, PARTITIONS)
    lists = [decode(value).reports.copy().view("<u2").ravel().tolist() for value in frames.values()]
    return Counter(number for number in chain.from_iterable(lists))


async def until(holds):
    async with asyncio.timeout(patience(60)):
        while not holds():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.01)


def size_of(publisher):
    return publisher._in_flight.bytes + publisher._batches.weight


def test_frames_arrive_unchanged_on_the_partition_of_their_id(broker):
    target = create_topics(broker, PARTITIONS)

    async def run():
        other_query = replace(query("other", 1 << 20), answers="once")
        async with Publisher(target, reports=10) as publisher:
            await publisher.put(Q, numbers(95), at=PANE)
            await publisher.put(Q, numbers(8, 95), at=PANE + 10)
            for value in range(20):
                report = Client(other_query, ":memory:").answer(value)
                await publisher.put(other_query, report, at=PANE)
        records = await receive(target, 123)
        frames = [decode(record.value) for record in records]
        assert len(frames) == len({frame.id for frame in frames}) == 13
        assert contents(r for r, f in zip(records, frames, strict=True) if f.digest == Q.digest) == Counter(range(103))
        panes = Counter()
        for frame in frames:
            panes[frame.digest, frame.pane] += frame.n
        assert panes == {(Q.digest, PANE): 95, (Q.digest, PANE + 10): 8, (other_query.digest, PANE): 20}

    asyncio.run(run())


def test_a_frame_has_no_time_but_its_pane(broker):
    async def run():
        target = fresh(broker)
        await create(target)  # a topic that keeps the timestamps of those who send
        async with Publisher(target, clock=lambda: PANE + 7.123) as publisher:
            await publisher.put(Q, numbers(1))
        [record] = await receive(target, 1)
        assert record.timestamp == PANE * 1000
        assert decode(record.value).pane == PANE
        assert record.key is None
        assert record.headers == ()

    asyncio.run(run())


def test_a_single_report_is_sent_after_its_linger(broker):
    async def run():
        target = fresh(broker)
        await create(target)
        async with Publisher(target, linger=0.05) as publisher:
            await publisher.put(Q, numbers(1))
            await publisher.put(Q, numbers(1, 1), at=PANE)
            await receive(target, 2)  # before anybody flushed

    asyncio.run(run())


def test_no_batch_names_its_producer(kafka, monkeypatch):
    """Kafka's producer id, or a time of sending, would link the reports of a device in a session."""
    headers = []

    class Seen(FetchedBatches):
        def next_batch(self):
            batch = super().next_batch()
            headers.append((batch.producer_id, batch.first_timestamp))
            return batch

    async def run():
        target = fresh(kafka)
        await create(target)
        async with Publisher(target, reports=1, clock=lambda: PANE + 3.21) as publisher:
            await publisher.put(Q, numbers(30))
        monkeypatch.setattr(fetcher, "MemoryRecords", Seen)
        await receive(target, 30)

    asyncio.run(run())
    assert headers
    assert set(headers) == {(-1, 1000 * PANE)}


def test_a_publisher_waits_for_a_silent_broker_in_bounded_memory(broker, monkeypatch):
    memory = 20 * COST
    monkeypatch.setattr(module, "_REQUEST", 1000)

    async def run():
        target = fresh(broker)
        await create(target)
        most = 0
        async with Publisher(target, reports=100, size=1000, memory=memory, linger=0.05) as publisher:

            async def put_all():
                nonlocal most
                for number in range(0, 20_000, 50):
                    await publisher.put(Q, numbers(50, number), at=PANE)
                    most = max(most, size_of(publisher))

            with frozen(broker):
                putting = asyncio.create_task(put_all())
                # Only a full buffer makes the next `put` wait.
                await until(lambda: size_of(publisher) > memory - 2 * COST)
                await asyncio.sleep(3)  # longer than a request may take, and a batch live
                assert not putting.done()
            await putting
        assert memory / 2 < most <= memory
        assert contents(await receive(target, 20_000)) == Counter(range(20_000))

    asyncio.run(run())


def test_a_timeout_is_an_error_and_drops_nothing(broker):
    async def run():
        target = fresh(broker)
        await create(target)
        async with Publisher(target, reports=1, memory=10 * COST, size=41, patience=0.3) as publisher:
            with frozen(broker):
                with pytest.raises(DeliveryError, match=r"40960 bytes are not acknowledged after 0\.3 s"):
                    await publisher.put(Q, numbers(100))
                with pytest.raises(DeliveryError, match=r"9 reports are not acknowledged after 0\.3 s") as late:
                    await publisher.flush()
                assert late.value.reports == 9
            await until(lambda: not publisher._in_flight.bytes)
        assert contents(await receive(target, 9)) == Counter(range(9))

    asyncio.run(run())


def test_unacknowledged_frames_at_the_end_are_an_error_and_stay_in_the_spool(broker, tmp_path):
    async def run():
        target = fresh(broker)
        await create(target)
        publisher = Publisher(target, reports=1, patience=0.3, spool=tmp_path / "spool")
        await publisher.start()
        await publisher.put(Q, numbers(1, 6))
        await publisher.flush()
        with frozen(broker):
            await publisher.put(Q, numbers(5))
            with pytest.raises(DeliveryError, match="5 reports are not acknowledged"):
                await publisher.close()
        assert len(list((tmp_path / "spool").iterdir())) == 5
        async with Publisher(target, spool=tmp_path / "spool") as publisher:
            await publisher.put(Q, numbers(1, 5))
        assert list((tmp_path / "spool").iterdir()) == []
        assert contents(await receive(target, 7)) == Counter(range(7))

    asyncio.run(run())


DYING_PUBLISHER = """
import asyncio, os, signal, sys
from pathlib import Path
import numpy as np
from hubbub.kafka import Kafka
from oracles.query import parse
from producers import Publisher

table = {"domain": 1 << 16, "oracle": "grr", "epsilon": 1.0, "budget": 1e9, "pane": "10s"}
query = parse({"queries": {"q": table}}, "test", ".")["q"]
servers, prefix, embedded, spool = sys.argv[1:]

async def main():
    publisher = Publisher(Kafka(servers, prefix, bool(embedded)), reports=10, spool=spool)
    await publisher.start()
    print("started", flush=True)
    sys.stdin.readline()
    rows = np.arange(200, dtype="<u2").view(np.uint8).reshape(-1, 2)
    await publisher.put(query, rows, at=1_700_000_000)
    while len(list(Path(spool).iterdir())) < 20:
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.2)  # some are under way
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


def test_frames_of_a_killed_publisher_are_sent_by_the_next_under_the_same_ids(broker, tmp_path):
    spool = tmp_path / "spool"
    target = fresh(broker)
    asyncio.run(create(target))
    command = [sys.executable, "-c", DYING_PUBLISHER, target.servers, target.prefix, "1" * target.embedded, spool]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout.readline() == "started\n"
        with frozen(broker):
            child.stdin.write("\n")
            child.stdin.flush()
            child.wait(patience(60))
    assert child.returncode == -signal.SIGKILL
    ids = {path.stem for path in spool.iterdir()}
    assert len(ids) == 20

    async def run():
        async with Publisher(target, spool=spool):
            pass
        records = await receive(target, 200)
        assert {decode(record.value).id.hex() for record in records} == ids
        assert contents(records) == Counter(range(200))

    asyncio.run(run())
    assert list(spool.iterdir()) == []


def test_the_spool_is_private_and_truncated_files_are_removed(broker, tmp_path, caplog):
    spool = tmp_path / "spool"

    async def run():
        target = fresh(broker)
        await create(target)
        modes = set()
        publisher = Publisher(target, reports=1, spool=spool)
        write = publisher._spool.write

        def watched(frame):
            write(frame)
            modes.update(path.stat().st_mode & 0o777 for path in (spool, *spool.iterdir()))
            write(frame)  # again changes nothing

        publisher._spool.write = watched
        async with publisher:
            await publisher.put(Q, numbers(1))
        assert modes == {0o700, 0o600}
        [record] = await receive(target, 1)
        (spool / "0102030405060708.frame").write_bytes(record.value[:20])
        (spool / "0102030405060709.frame").write_bytes(record.value)
        async with Publisher(target, spool=spool):
            pass

    asyncio.run(run())
    assert list(spool.iterdir()) == []
    assert sum("was cut off" in record.message for record in caplog.records) == 2


def test_a_refusal_of_kafka_raises_once_at_the_next_put_or_at_the_end(kafka):
    async def run():
        target = fresh(kafka)
        await create(target, **{"max.message.bytes": "1000"})
        async with Publisher(target) as publisher:
            await publisher.put(Q, numbers(1000))
            await until(lambda: not publisher._in_flight.bytes)
            with pytest.raises(DeliveryError, match="1000 reports could not be sent: MessageSizeTooLarge") as error:
                await publisher.put(Q, numbers(1))
            assert error.value.reports == 1000
            await publisher.put(Q, numbers(1))
            await publisher.flush()
            await publisher.put(Q, numbers(1000))
            with pytest.raises(DeliveryError):
                await publisher.flush()
        publisher = Publisher(target)
        await publisher.start()
        await publisher.put(Q, numbers(1000))
        with pytest.raises(DeliveryError):
            await publisher.close()
        await publisher.close()
        assert contents(await receive(target, 1)) == Counter([0])

    asyncio.run(run())


def test_an_error_in_the_block_is_raised_before_those_of_sending(kafka, caplog):
    async def run():
        target = fresh(kafka)
        await create(target, **{"max.message.bytes": "1000"})
        async with Publisher(target) as publisher:
            await publisher.put(Q, numbers(1000))
            raise FileNotFoundError("mine")

    with pytest.raises(FileNotFoundError, match="mine"):
        asyncio.run(run())
    assert any("1000 reports could not be sent" in record.message for record in caplog.records)


def test_a_frame_that_cannot_be_stored_is_not_sent_and_is_an_error(tansu, tmp_path):
    async def run():
        target = fresh(tansu)
        await create(target)
        publisher = Publisher(target, spool=tmp_path / "spool")
        (tmp_path / "spool").rmdir()
        await publisher.start()
        await publisher.put(Q, numbers(3))
        with pytest.raises(DeliveryError, match=r"3 reports could not be sent: .* to store frames") as error:
            await publisher.close()
        assert isinstance(error.value.__cause__, StoreError)

    asyncio.run(run())


def test_a_missing_topic_or_broker_is_an_error_at_the_start(broker):
    async def run(target):
        async with Publisher(target):
            pass

    with pytest.raises(DeliveryError, match=r"no topic t.*reports; create it with `hubbub topics`"):
        asyncio.run(run(fresh(broker)))
    with pytest.raises(KafkaUnreachable):
        asyncio.run(run(Kafka(f"127.0.0.1:{free_port()}")))


def test_only_an_open_publisher_takes_reports_and_only_well_formed_ones(tansu):
    async def run():
        target = fresh(tansu)
        await create(target)
        publisher = Publisher(target)
        with pytest.raises(DeliveryError, match="not started"):
            await publisher.put(Q, numbers(1))
        async with publisher:
            with pytest.raises(ReportError, match="report 1 is malformed"):
                await publisher.put(query(domain=60_000), numbers(2, 59_999))
            with pytest.raises(ReportError, match="shape"):
                await publisher.put(query(domain=3), numbers(2))
        with pytest.raises(DeliveryError, match="closed"):
            await publisher.put(Q, numbers(1))

    asyncio.run(run())
