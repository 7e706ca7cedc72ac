"""A worker exits with code 4 if the ids or partitions of its topics change, or if a record has no log time."""

import asyncio
import time
from itertools import product

import pytest
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.admin import NewPartitions, RecordsToDelete

from aggregator.topics.layout import TIMESTAMP
from hubbub.kafka.clients import client_arguments, started
from hubbub.kafka.patches.metadata_request import topic_ids
from hubbub.kafka.settings import QUERIES, REPORTS, SNAPSHOTS
from tests.integration.admin import administer, change_settings, recreate
from tests.integration.workers import Place, until
from tests.queries import make_text

PAGE_TIMES = {"crowd": 1, "pane": "1s", "lateness": "20s", "skew": "3s", "windows": ["1s", "3s/1s", "all"]}
PAGE = make_text("page", PAGE_TIMES, domain=["a", "b", "c"], oracle="grr", epsilon=2.0)


@pytest.fixture
def place(kafka, tmp_path):
    with Place(kafka, tmp_path, PAGE) as place:
        yield place


def test_brokers_answer_a_request_for_topic_ids_that_aiokafka_lacks(place):
    """`topic_ids` relies on this answer."""
    names = [place.kafka.topic(name) for name in (REPORTS, QUERIES)]

    async def ids(admin):
        return await topic_ids(admin._client, [*names, place.kafka.topic("nothing")])

    before = administer(place.kafka, ids)
    assert {name: count for name, (_, count) in before.items()} == {names[0]: 2, names[1]: 2}
    assert all(len(number) == 16 and any(number) for number, _ in before.values())
    recreate(place.kafka, REPORTS, place.partitions)
    after = administer(place.kafka, ids)
    assert after[names[1]] == before[names[1]]
    assert after[names[0]] != before[names[0]]


@pytest.mark.parametrize("name", [REPORTS, SNAPSHOTS])
def test_a_topic_that_was_created_again_stops_the_worker_even_if_it_is_longer(place, name):
    worker = place.start().ready()
    place.send((0, place.frame("page", [0, 1])))
    until(lambda: worker.total("hubbub_reports_total"))
    assert worker.stop() == 0
    recreate(place.kafka, name, place.partitions)
    place.send(
        *[(p, place.frame("page", [0])) for p, _ in product(range(2), range(40))]
    )  # longer than what was counted
    two = place.start()
    assert two.wait() == 4
    assert f"{place.kafka.topic(name)} was deleted and created again since it was counted" in two.log_text
    assert "count again what the log still holds" in two.log_text


def test_more_partitions_stop_the_worker(place):
    worker = place.start().ready()

    async def add_partition(admin):
        await admin.create_partitions({place.kafka.topic(REPORTS): NewPartitions(3)})

    administer(place.kafka, add_partition)
    assert worker.wait() == 4
    assert "another --prefix" in worker.log_text


async def send_with_time(place, partition, frame, ms):
    """Send a frame with this time, and return where the broker put it."""
    producer = AIOKafkaProducer(**client_arguments(place.kafka))
    async with started(producer, place.kafka):
        return await producer.send_and_wait(place.kafka.topic(REPORTS), frame, partition=partition, timestamp_ms=ms)


def test_a_record_without_a_log_time_stops_workers_until_it_is_deleted(place):
    worker = place.start().ready()
    place.send((0, place.frame("page", [0, 1])))
    until(lambda: worker.total("hubbub_reports_total"))
    change_settings(place.kafka, REPORTS, {TIMESTAMP: "CreateTime"})

    def kept_a_time():
        """Send a report from the future, and return whether the broker kept its time."""
        record = asyncio.run(send_with_time(place, 0, place.frame("page", [2]), int(time.time() * 1000) + 600_000))
        return record.timestamp_type == 0

    # A busy broker applies a new setting later than it answers, so the first record of the log with a time of its own
    # may be an earlier one.
    until(kept_a_time)
    assert worker.wait() == 4
    wrong = [(record.partition, record.offset) for record in place.read(REPORTS) if not record.timestamp_type]
    partition, offset = min(wrong)
    assert f"partition {partition}, offset {offset}: the record has no log time" in worker.log_text
    change_settings(place.kafka, REPORTS, {TIMESTAMP: "LogAppendTime"})
    two = place.start()
    assert two.wait() == 4
    place.send((0, place.frame("page", [1])))
    ends = {TopicPartition(place.kafka.topic(REPORTS), p): RecordsToDelete(at + 1) for p, at in sorted(wrong)}
    administer(place.kafka, lambda admin: admin.delete_records(ends))
    three = place.start().ready()
    until(lambda: three.total("hubbub_reports_total") == 1)
