"""The outbox. Records go to a partition in order and in few batches, and wait for a broker while they are needed."""

import asyncio
from functools import partial
from types import SimpleNamespace

import pytest
from aiokafka.errors import KafkaTimeoutError, MessageSizeTooLargeError, UnknownTopicOrPartitionError
from aiokafka.producer.message_accumulator import BatchBuilder
from aiokafka.record.default_records import DefaultRecordBatch

from aggregator.counting.checkpoint import Checkpoints
from aggregator.counting.checkpoint_plan import Reject
from hubbub.in_flight import InFlight
from hubbub.kafka.errors import TopicMissing
from hubbub.kafka.outbox import SMALL, Outbox, Oversized, count_refused
from hubbub.kafka.settings import LARGEST, REJECTS, REPORTS, SNAPSHOTS, Kafka

BATCH = 1 << 10


class Producer:
    """A producer whose first attempts time out, as those of aiokafka do during an outage."""

    def __init__(self, away=0, unheard=0, answers=False):
        self.away, self.sent, self.acks = away, [], []
        self.unheard = unheard
        self.answers = answers

    def create_batch(self):
        return BatchBuilder(BATCH, 0)

    async def partitions_for(self, topic):
        self._look()
        return {0, 1, 2}

    def _look(self):
        """Raise what aiokafka raises if it has heard of no such topic for as long as a request may take."""
        if self.unheard:
            self.unheard -= 1
            raise UnknownTopicOrPartitionError

    @property
    def client(self):
        async def force_metadata_update():
            return self.answers

        cluster = SimpleNamespace(partitions_for_topic=lambda _: None if self.unheard else {0, 1, 2})
        return SimpleNamespace(force_metadata_update=force_metadata_update, cluster=cluster)

    async def send_batch(self, batch, topic, *, partition):
        assert batch.closed(), "nobody else's records are added"
        await asyncio.sleep(0)
        self._look()
        if self.away:
            self.away -= 1
            raise KafkaTimeoutError
        records = [(record.key, record.value, record.headers) for record in DefaultRecordBatch(bytes(batch._build()))]
        self.sent.append((topic, partition, records))
        self.acks.append(asyncio.get_running_loop().create_future())
        return self.acks[-1]

    @property
    def writes(self):
        return [(key, value) for _, _, records in self.sent for key, value, _ in records]


def with_outbox(use, producer):
    """Return the result of the coroutine function `use` with an outbox of this producer."""

    async def run():
        outbox = Outbox(Kafka(prefix="p."))
        outbox._producer = producer
        return await asyncio.wait_for(use(outbox), 5)

    return asyncio.run(run())


def test_records_and_deletions_of_any_size_arrive_in_order_and_in_few_batches():
    sizes = [10, 300, 5000, 0, 700, 700, 20]
    writes = [(b"%d" % i, bytes([i]) * size) for i, size in enumerate(sizes)] + [(b"gone", None)]
    producer = Producer()
    acks = with_outbox(lambda outbox: outbox.write(SNAPSHOTS, 1, writes), producer)
    assert producer.writes == writes
    assert {(topic, partition) for topic, partition, _ in producer.sent} == {("p.snapshots", 1)}
    assert [len(records) for _, _, records in producer.sent] == [2, 1, 2, 3]
    assert len(acks) == 4


def test_the_offset_of_the_last_record_of_each_acknowledged_batch_is_reported():
    offsets = []

    async def use(outbox):
        writes = [(b"k", bytes(400))] * 5
        acks = await outbox.write(SNAPSHOTS, 0, writes, on_written=offsets.append)
        acks[0].set_result(SimpleNamespace(offset=7))
        acks[1].set_exception(OSError())
        acks[2].set_result(SimpleNamespace(offset=-1))  # a retry of what the broker had already
        await asyncio.sleep(0)
        acks[1].exception()

    with_outbox(use, Producer())
    assert offsets == [8]


def test_it_waits_during_an_outage_and_drops_records_that_nobody_needs():
    writes = [(b"%d" % i, bytes(600)) for i in range(4)]
    away = Producer(away=3)
    with_outbox(lambda outbox: outbox.write(SNAPSHOTS, 0, writes), away)
    assert away.writes == writes
    producer = Producer()
    needs = iter([True, True, False])
    acks = with_outbox(lambda outbox: outbox.write(SNAPSHOTS, 0, writes, is_current=lambda: next(needs)), producer)
    assert producer.writes == writes[:2]
    assert len(acks) == 2
    absent = Producer(away=9)
    needs = iter([True, True, False])
    with_outbox(lambda outbox: outbox.write(SNAPSHOTS, 0, writes, is_current=lambda: next(needs)), absent)
    assert absent.writes == []


def test_a_topic_that_no_broker_names_is_asked_for_again_while_none_answers(caplog):
    producer = Producer(unheard=2)
    writes = [(b"k", b"v")]
    with_outbox(lambda outbox: outbox.write(SNAPSHOTS, 0, writes), producer)
    assert producer.writes == writes
    assert with_outbox(lambda outbox: outbox.partitions(SNAPSHOTS), Producer(unheard=2)) == 3
    assert {record.getMessage() for record in caplog.records} == {
        "topic p.snapshots: no broker at 127.0.0.1:9092 answers, trying again"
    }


def test_a_topic_that_a_broker_names_meanwhile_is_used():
    assert with_outbox(lambda outbox: outbox.partitions(SNAPSHOTS), Producer(unheard=1, answers=True)) == 3


def test_a_topic_that_does_not_exist_is_an_error_of_ours():
    for use in (lambda outbox: outbox.partitions(SNAPSHOTS), lambda outbox: outbox.write(SNAPSHOTS, 0, [(b"k", b"v")])):
        with pytest.raises(TopicMissing, match=r"p\.snapshots: there is no such topic"):
            with_outbox(use, Producer(unheard=9, answers=True))


def test_the_age_of_a_write_lasts_from_its_begin_to_its_acknowledgement(monkeypatch):
    clock = iter(range(100))
    monkeypatch.setattr("hubbub.outside.monotonic", lambda: float(next(clock)))

    async def use(outbox):
        ticks = await outbox.append(REPORTS, 0, [(b"k", b"tick", [], None)])
        assert outbox.write_age == 0.0, "no state depends on a tick"
        [first_write] = await outbox.write(SNAPSHOTS, 0, [(b"k", b"v")])
        [second] = await outbox.write(SNAPSHOTS, 1, [(b"k", b"v")])
        assert outbox.write_age == 2.0
        first_write.set_result(SimpleNamespace(offset=1))
        await asyncio.sleep(0)
        assert outbox.write_age == 2.0, "of the second write"
        second.set_exception(OSError())
        await asyncio.sleep(0)
        assert outbox.write_age == 0.0
        second.exception()
        ticks[0].cancel()

    with_outbox(use, Producer())


def test_a_write_that_no_broker_takes_is_unacknowledged_until_it_is_dropped():
    async def use(outbox):
        is_wanted = True
        writing = asyncio.create_task(outbox.write(SNAPSHOTS, 0, [(b"k", b"v")], is_current=lambda: is_wanted))
        await asyncio.sleep(0.01)
        assert outbox.write_age > 0.0
        is_wanted = False
        await writing
        assert outbox.write_age == 0.0

    with_outbox(use, Producer(away=1 << 30))


def test_a_record_that_is_not_sent_uses_no_room():
    async def use(outbox):
        in_flight = outbox._in_flight = InFlight(2 * SMALL, least=SMALL)
        for _ in range(5):
            assert not await outbox.write(SNAPSHOTS, 0, [(b"k", bytes(SMALL))], is_current=lambda: False)
        with pytest.raises(Oversized):
            await outbox.write(SNAPSHOTS, 0, [(b"k", bytes(LARGEST + 1))])
        return in_flight.bytes

    assert with_outbox(use, Producer()) == 0


def test_rejects_keep_their_headers():
    producer = Producer()
    reject = Reject(5, b"start", "late", "by 3 s")
    checkpoints = partial(Checkpoints, SimpleNamespace(topic="p.reports"))
    with_outbox(lambda outbox: checkpoints(outbox, None, None, None, None)._set_aside(4, [reject]), producer)
    [(topic, partition, [(key, value, headers)])] = producer.sent
    assert topic == f"p.{REJECTS}"
    assert partition == 1
    assert key == b"p.reports|4|5"
    assert value == b"start"
    assert ("reason", b"late") in headers


def test_batches_that_are_too_large_for_their_topic_are_counted_and_other_failures_raised():
    async def refused(*results):
        acks = []
        for result in results:
            acks.append(asyncio.get_running_loop().create_future())
            if isinstance(result, Exception):
                acks[-1].set_exception(result)
            else:
                acks[-1].set_result(result)
        return await count_refused(acks)

    assert asyncio.run(refused()) == 0
    assert asyncio.run(refused(1, MessageSizeTooLargeError(), 2, MessageSizeTooLargeError())) == 2
    with pytest.raises(KafkaTimeoutError):
        asyncio.run(refused(MessageSizeTooLargeError(), KafkaTimeoutError()))
