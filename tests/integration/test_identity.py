"""What a worker counts is bound to its topics: their ids, their partitions, the log's own time; else it ends with 4."""

import asyncio
import time

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic

from aggregator.counting.topicids import topic_ids
from aggregator.topics import command
from aggregator.topics.command import alter, describe, ensure
from aggregator.topics.settings import TIMESTAMP, layout
from hubbub.kafka import started
from hubbub.names import QUERIES, REPORTS, SNAPSHOTS
from oracles.frame import MAX_FRAME
from tests.integration.workers import Place, until

PAGE = """\
[queries.page]
crowd = 1
domain = ["a", "b", "c"]
oracle = "grr"
epsilon = 2.0
pane = "1s"
lateness = "20s"
skew = "3s"
windows = ["1s", "3s/1s", "all"]
"""
LONG = 300
"""Tenths of a second until brokers have heard of a change."""
SLOW = "import time\nwall = time.time\ntime.time = lambda: wall() - 600"


@pytest.fixture
def place(kafka, tmp_path):
    with Place(kafka, tmp_path, PAGE) as place:
        yield place


def administer(place, work):
    async def run():
        async with started(AIOKafkaAdminClient(**place.kafka.client()), place.kafka) as admin:
            return await work(admin)

    return asyncio.run(run())


async def deleted(admin, names):
    await admin.delete_topics([*names])
    for _ in range(LONG):
        if not names & {*await admin.list_topics()}:
            return
        await asyncio.sleep(0.1)


def make_again(place, *names):
    """Delete these topics and make them anew, as they were."""
    topics = {place.kafka.topic(name) for name in names}

    async def work(admin):
        await deleted(admin, topics)
        wanted = layout(place.kafka.prefix, place.partitions, 1, MAX_FRAME)
        for topic in wanted:
            if topic.name in topics:
                await admin.create_topics([NewTopic(topic.name, topic.partitions, 1, topic_configs=topic.settings)])
        for _ in range(LONG):
            if topics <= {*await describe(admin, [*topics])}:
                return
            await asyncio.sleep(0.1)

    administer(place, work)


def timestamps(place, kind):
    async def work(admin):
        name = place.kafka.topic(REPORTS)
        await alter(admin, await describe(admin, [name]), {name: {TIMESTAMP: kind}})
        for _ in range(LONG):
            if (await describe(admin, [name]))[name].settings[TIMESTAMP] == kind:
                return
            await asyncio.sleep(0.1)

    administer(place, work)


def test_brokers_give_topics_ids_by_a_request_that_aiokafka_does_not_know(place):
    """The contract of topic_ids."""
    names = [place.kafka.topic(name) for name in (REPORTS, QUERIES)]

    async def ids(admin):
        return await topic_ids(admin._client, [*names, place.kafka.topic("nothing")])

    before = administer(place, ids)
    assert {name: count for name, (_, count) in before.items()} == {names[0]: 2, names[1]: 1}
    assert all(len(number) == 16 and any(number) for number, _ in before.values())
    make_again(place, REPORTS)
    after = administer(place, ids)
    assert after[names[1]] == before[names[1]]
    assert after[names[0]] != before[names[0]]


@pytest.mark.parametrize("name", [REPORTS, SNAPSHOTS])
def test_a_topic_that_was_made_again_ends_it_however_long_it_is(place, name):
    one = place.start().ready()
    place.send((0, place.frame("page", [0, 1])))
    until(lambda: one.total("hubbub_reports_total"))
    assert one.stop() == 0
    make_again(place, name)
    place.send(*[(p, place.frame("page", [0])) for p in range(2) for _ in range(40)])  # longer than what was counted
    two = place.start()
    assert two.wait() == 4
    assert f"{place.kafka.topic(name)} is not the topic that was counted so far" in two.said
    assert "all is counted again" in two.said


def test_partitions_that_are_added_end_it(place):
    one = place.start().ready()

    async def raised(admin):
        await admin.create_partitions({place.kafka.topic(REPORTS): NewPartitions(3)})

    administer(place, raised)
    assert one.wait() == 4
    assert "another --prefix" in one.said


async def forged(place, partition, frame, ms):
    producer = AIOKafkaProducer(**place.kafka.client())
    async with started(producer, place.kafka):
        sent = await producer.send_and_wait(place.kafka.topic(REPORTS), frame, partition=partition, timestamp_ms=ms)
    return sent.offset


def test_a_time_that_is_not_the_logs_ends_it_and_a_correction_and_a_recount_keep_the_reports(place, capsys):
    one = place.start().ready()
    place.send((0, place.frame("page", [0, 1])))
    until(lambda: one.total("hubbub_reports_total"))
    timestamps(place, "CreateTime")
    offset = asyncio.run(forged(place, 0, place.frame("page", [2]), int(time.time() * 1000) + 600_000))
    assert one.wait() == 4
    assert "its timestamp is not the log's own" in one.said
    timestamps(place, "LogAppendTime")
    two = place.start()
    assert two.wait() == 4
    place.send((0, place.frame("page", [1])))
    where = ["--kafka", place.kafka.servers, "--prefix", place.kafka.prefix]
    wrong = [(record.partition, record.offset) for record in place.read(REPORTS) if not record.timestamp_type]
    assert (0, offset) in wrong
    for partition, at in wrong:
        assert command.main([*where, "--correct", f"{partition}:{at}:{at + 1}=none"]) == 0
    assert f"partition 0, offsets {offset} to {offset}" in capsys.readouterr().out
    count_again(place)
    three = place.start().ready()
    until(lambda: three.total("hubbub_reports_total") == 4)
    verdict = place.verdict()
    assert verdict.exact, verdict
    assert verdict.reports == 4
    late = place.start()  # one about what is counted now takes another recount
    place.send((0, place.frame("page", [0])))
    late.ready()
    assert command.main([*where, "--correct", "0:0:1=none"]) == 0
    assert three.wait() == 4 or late.wait() == 4


def count_again(place):
    async def work(admin):
        kept = {place.kafka.topic(name) for name in (REPORTS, QUERIES)}
        names = {name for name in await admin.list_topics() if name.startswith(place.kafka.prefix)} - kept
        await deleted(admin, names)

    administer(place, work)
    asyncio.run(ensure(place.kafka, place.partitions))


def test_a_clock_ahead_of_the_wall_is_told(place):
    one = place.start(patch=SLOW).ready()
    place.send((0, place.frame("page", [0])))
    until(lambda: any(ahead > 590 for _, ahead in one.metrics()["hubbub_clock_ahead_seconds"]))
    [event, *_] = [event for event in one.events() if event["level"] == "critical"]
    assert "ahead of this machine's" in event["message"]
