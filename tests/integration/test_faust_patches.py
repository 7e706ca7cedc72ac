"""The behaviour of real brokers, Faust and aiokafka on which the patches rely."""

import asyncio
import uuid
from collections import Counter
from itertools import pairwise

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition, conn
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.consumer import consumer as consumers
from aiokafka.consumer import fetcher

from aggregator.counting import faust_patches
from aggregator.counting.faust_app import build_app
from hubbub.kafka.clients import client_arguments, started
from hubbub.kafka.settings import REPORTS
from tests.brokers import create_topics
from tests.integration.workers import Place, until
from tests.queries import LIVE, make_text
from tests.slowness import patience


@pytest.fixture(autouse=True)
def as_before(monkeypatch):
    """Undo the patches of libraries after each test."""
    for module, names in {
        fetcher: ("PartitionRecords", "MemoryRecords"),
        conn: ("AIOKafkaProtocol", "AIOKafkaConnection"),
        consumers: ("GroupCoordinator",),
    }.items():
        for name in names:
            monkeypatch.setattr(module, name, getattr(module, name))
    monkeypatch.setattr(faust_patches, "_sources", set())


def test_the_fetcher_returns_three_values_of_a_source_and_whole_records_of_other_topics(broker):
    async def run():
        target = broker.kafka(f"t{uuid.uuid4().hex}.")
        topics = [target.topic(REPORTS), target.topic("other")]
        faust_patches.install(topics[0])
        async with started(AIOKafkaAdminClient(**client_arguments(target)), target) as admin:
            await admin.create_topics([NewTopic(topic, 1, 1) for topic in topics])
        async with started(AIOKafkaProducer(**client_arguments(target)), target) as producer:
            for topic in topics:
                await producer.send_and_wait(topic, b"hello", timestamp_ms=1_700_000_000_000)
        async with started(AIOKafkaConsumer(**client_arguments(target)), target) as consumer:
            consumer.assign([TopicPartition(topic, 0) for topic in topics])
            await consumer.seek_to_beginning()
            async with asyncio.timeout(patience(20)):
                return topics, [await consumer.getone() for _ in topics]

    (_, other), values = asyncio.run(run())
    [bare] = [record for record in values if isinstance(record, tuple)]
    [whole_record] = [record for record in values if not isinstance(record, tuple)]
    assert bare == (0, 1_700_000_000_000, b"hello")
    assert whole_record.topic == other
    assert whole_record.value == b"hello"


def test_a_consumer_without_a_committed_offset_does_not_seek(broker):
    """Otherwise reading would start at the offset of the group, not at the offset of the table."""

    async def run():
        target = broker.kafka(f"t{uuid.uuid4().hex}.")
        topic = target.topic("some")
        async with started(AIOKafkaAdminClient(**client_arguments(target)), target) as admin:
            await admin.create_topics([NewTopic(topic, 1, 1)])
        async with started(AIOKafkaProducer(**client_arguments(target)), target) as producer:
            for _ in range(3):
                await producer.send_and_wait(topic, b"hello")
        group = AIOKafkaConsumer(**client_arguments(target), group_id=target.prefix, enable_auto_commit=False)
        async with started(group, target) as consumer:
            tp = TopicPartition(topic, 0)
            consumer.assign([tp])
            consumer.seek(tp, 1)
            return await consumer.seek_to_committed(), await consumer.position(tp)

    offset, position = asyncio.run(run())
    assert list(offset.values()) == [None]
    assert position == 1


def test_a_new_member_gets_all_partitions_after_the_others_ended_together(tansu, tmp_path):
    """The leader ends before it knows that the other has left, so a rebalance is going on."""
    target = create_topics(tansu, 2)
    topic = target.topic(REPORTS)

    def member():
        patience = {"session_timeout_ms": 2000, "heartbeat_interval_ms": 1500}
        return AIOKafkaConsumer(topic, **client_arguments(target), group_id=target.prefix, **patience)

    async def run():
        build_app(target, 2, 1 << 20)  # it patches aiokafka
        leader = member()
        other_member = member()
        following = member()
        async with asyncio.timeout(patience(30)):
            await leader.start()
            await other_member.start()
            await other_member.stop()
            await leader.stop()
            try:
                await following.start()
                return following.assignment()
            finally:
                await following.stop()

    assert asyncio.run(run()) == {TopicPartition(topic, partition) for partition in range(2)}


QUERIES = make_text("page", LIVE, domain=3)


TELLS = """
import logging
from aggregator.counting.faust_patches import Consumer
seek = Consumer.seek_to_committed
async def told(self):
    offsets = await seek(self)
    said = {f"{tp.topic}-{tp.partition}": offset for tp, offset in offsets.items()}
    logging.getLogger("aggregator").info("sought", extra={"offsets": said})
    return offsets
Consumer.seek_to_committed = told
"""


def test_after_each_recovery_reading_starts_at_the_offset_of_the_table(broker, tmp_path):
    with Place(broker, tmp_path, QUERIES) as place:
        one = place.start(patch=TELLS).ready()
        until(lambda: one.events("sought"))
        place.start().ready()  # takes one of the two partitions
        until(lambda: len(one.events("recovered")) > 1)
        one.ready()
        events = [event for event in one.events() if event["message"] in ("recovered", "sought")]
        topic = place.kafka.topic(REPORTS)
        for recovery, seek in pairwise(events):
            if recovery["message"] == "recovered":
                assert seek["message"] == "sought"
                offsets = {f"{topic}-{partition}": offset for partition, offset in recovery["offsets"].items()}
                assert offsets.items() <= seek["offsets"].items()
        assert Counter(event["message"] for event in events)["sought"] >= 2
