"""The parts of Faust and aiokafka that aggregator/counting/faust_patches.py relies on.

A new version that changes them fails here.
"""

import asyncio
import gc
import inspect
import logging
from contextlib import nullcontext
from unittest.mock import AsyncMock, Mock

import pytest
from aiokafka import ConsumerRecord, conn
from aiokafka.consumer import consumer as consumers
from aiokafka.consumer import fetcher
from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.consumer.subscription_state import TopicPartitionState
from aiokafka.errors import GroupLoadInProgressError, KafkaError, UnknownMemberIdError
from aiokafka.protocol.group import JoinGroupRequest, LeaveGroupRequest
from aiokafka.record.memory_records import MemoryRecords
from faust.tables.manager import TableManager
from faust.transport import by_url, consumer
from faust.transport.drivers import aiokafka as driver
from faust.types import TP
from prometheus_client import generate_latest
from yarl import URL

from aggregator.counting import faust_patches
from aggregator.counting.faust_app import Instance, Tables, build_app
from hubbub import fast_paths
from hubbub.command.metrics import registry
from hubbub.kafka.columns import RecordColumns, UnreadableBatch
from hubbub.kafka.patches import answer_reader, group_member
from hubbub.kafka.patches.paced_fetches import PacedFetcher
from hubbub.kafka.settings import CHANGELOG, TALLIES, Kafka
from tests.strangers import batch, bomb, record

pytestmark = pytest.mark.usefixtures("unpatched_libraries")
MIB = 1 << 20
REPORT = TP("hubbub.reports", 0)


def with_app(use, folder, kafka=None):
    """Return the result of the coroutine function `use` on an app that does not run."""

    async def run():
        app = build_app(kafka or Kafka(), 4, MIB)
        app.finalize()
        try:
            return await use(app)
        finally:
            app.consumer._thread.thread_loop.close()

    return asyncio.run(run())


def record_of(offset):
    return offset, 1000 * offset, b"%d" % offset


def test_the_changelog_has_the_name_that_topics_creates(tmp_path):
    async def name(app):
        return app.Table(TALLIES, partitions=4, key_type=bytes, value_type=bytes)._changelog_topic_name()

    kafka = Kafka(prefix="some.")
    assert with_app(name, tmp_path, kafka) == kafka.topic(CHANGELOG)


def test_faust_uses_our_transport_and_all_addresses(tmp_path):
    async def parts(app):
        servers = app.producer._settings_default()["bootstrap_servers"]
        return type(app.transport), type(app.producer), type(app.consumer), servers

    *kinds, servers = with_app(parts, tmp_path, Kafka("one:9092,two:9093"))
    assert kinds == [faust_patches.Transport, faust_patches.Producer, faust_patches.Consumer]
    assert servers == ["one:9092", "two:9093"]
    assert by_url(URL("hubbub://one:9092")) is faust_patches.Transport


def test_all_connections_of_a_worker_receive_in_place(tmp_path):
    async def kinds(app):
        return conn.AIOKafkaProtocol, conn.AIOKafkaConnection

    assert with_app(kinds, tmp_path) == (answer_reader.ReceivingProtocol, answer_reader.ReceivingConnection)


def test_columns_are_off_if_aiokafka_keeps_fetched_records_in_another_form(monkeypatch, caplog):
    class Changed:
        def __init__(self, tp, batches):
            self.tp, self.batches = tp, batches

    def state():
        faust_patches._has_layout.cache_clear()
        with caplog.at_level(logging.WARNING):
            faust_patches.install("reports")
        return fast_paths.states()["columns"]

    for name in ("MemoryRecords", "PartitionRecords"):
        monkeypatch.setattr(fetcher, name, getattr(fetcher, name))
    monkeypatch.setattr(fast_paths, "_states", {})
    monkeypatch.setattr(faust_patches, "can_walk", lambda: True)
    assert state()
    assert not caplog.records
    monkeypatch.setattr(faust_patches, "_RECORDS", Changed)
    assert [state(), state()] == [False, False]
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "fast path columns is off" in caplog.text
    lines = generate_latest(registry()).decode().splitlines()
    assert 'hubbub_fast_path{name="columns"} 0.0' in lines
    faust_patches._has_layout.cache_clear()


def test_the_fetches_of_reports_are_paced(tmp_path):
    async def kind(app):
        return consumers.Fetcher

    assert with_app(kind, tmp_path) is PacedFetcher
    assert not inspect.signature(fetcher.Fetcher._proc_fetch_request).parameters.keys() ^ {
        "self",
        "assignment",
        "node_id",
        "request",
    }
    assert hasattr(fetcher.FetchResult(None, assignment=None, partition_records=None, backoff=0), "_partition_records")


def test_only_members_of_a_group_of_the_embedded_broker_stay(tmp_path):
    async def kind(app):
        return consumers.GroupCoordinator

    assert with_app(kind, tmp_path, Kafka()) is group_member.ClassicMember
    assert with_app(kind, tmp_path, Kafka(embedded=True)) is group_member.StayingMember


def test_a_worker_with_a_name_is_a_static_member(tmp_path):
    async def run():
        app = build_app(Kafka(), 4, MIB, Instance("one", leaves=True, on_fence=Mock()))
        app.finalize()
        app.consumer._thread.thread_loop.close()
        return app.conf.consumer_group_instance_id, consumers.GroupCoordinator, group_member.StaticMember.leaves

    assert asyncio.run(run()) == ("one", group_member.StaticMember, True)


class Coordinator:
    """A broker that answers each request with the next of some error codes, and keeps the requests."""

    def __init__(self, monkeypatch, *codes):
        self.requests, codes = [], list(codes)

        async def answer(member, request):
            self.requests.append(request)
            return Mock(error_code=codes.pop(0))

        monkeypatch.setattr(GroupCoordinator, "_send_req", answer)
        monkeypatch.setattr(group_member.asyncio, "sleep", AsyncMock())
        self.member = group_member.StaticMember.__new__(group_member.StaticMember)
        self.member.member_id = ""
        self.member._rejoin_needed_fut = Mock()
        self.member.on_fence = Mock()

    def send(self, request):
        return asyncio.run(self.member._send_req(request)).error_code

    def lose_membership(self, member_id="former"):
        self.member.member_id = member_id
        self.member.reset_generation()


def join(member_id=""):
    return JoinGroupRequest("group", 6000, 5000, member_id, "one", "consumer", [])


def test_a_static_member_whose_name_another_process_has_stops(monkeypatch):
    broker = Coordinator(monkeypatch, 82)
    broker.lose_membership()
    with pytest.raises(KafkaError, match="another process"):
        broker.send(join())
    assert [request._member_id for request in broker.requests] == ["former"]
    broker.member.on_fence.assert_called_once()


def test_a_static_member_joins_as_a_new_process_if_its_name_is_free(monkeypatch):
    broker = Coordinator(monkeypatch, UnknownMemberIdError.errno, 0, 0)
    broker.lose_membership()
    assert broker.send(join()) == 0
    assert broker.send(join()) == 0
    assert [request._member_id for request in broker.requests] == ["former", "", ""]
    broker.member.on_fence.assert_not_called()


def test_a_static_member_asks_with_its_former_id_until_the_coordinator_knows(monkeypatch):
    broker = Coordinator(monkeypatch, GroupLoadInProgressError.errno, 0)
    broker.lose_membership()
    broker.lose_membership("")
    assert broker.send(join()) == GroupLoadInProgressError.errno
    assert broker.send(join()) == 0
    assert [request._member_id for request in broker.requests] == ["former", "former"]


@pytest.mark.parametrize("leaves", [True, False])
def test_a_static_member_leaves_only_if_it_is_told_to(monkeypatch, leaves):
    broker = Coordinator(monkeypatch, 0)
    monkeypatch.setattr(group_member.StaticMember, "leaves", leaves)
    member = broker.member
    member.generation, member.member_id, member.group_id, member._group_instance_id = 3, "id", "group", "one"
    asyncio.run(member._maybe_leave_group())
    assert [type(request) for request in broker.requests] == [LeaveGroupRequest] * leaves
    assert member._group_instance_id == "one"


def feed(consumer, batches):
    """Give the app these batches one by one, like a broker. Return its messages."""
    came = []
    rest = iter(batches)

    async def fetch(_):
        return next(rest, None), None

    async def take(message):
        came.append(message)

    consumer._wait_next_records = fetch
    consumer.callback = take
    consumer.highwater = lambda tp: 0
    consumer.flow_active = True
    return came


def test_the_scheduler_is_given_whole_fetches_and_a_run_of_them_is_one_message(tmp_path):
    other = TP("hubbub.other", 0)
    plain = ConsumerRecord("hubbub.other", 0, 7, 0, 0, None, b"whole", None, 0, 5, ())
    fetches = {REPORT: [record_of(i) for i in range(5, 50)], other: [plain]}

    async def messages(app):
        feed(app.consumer, [fetches])
        return {tp: message async for tp, message in app.consumer.getmany(1.0)}

    result = with_app(messages, tmp_path)
    assert result.keys() == fetches.keys()
    assert result[REPORT].offset == 49
    assert result[REPORT].value.first == 5
    assert result[REPORT].value.records == fetches[REPORT]
    assert result[other].value == b"whole"


def test_no_run_is_too_long(monkeypatch):
    monkeypatch.setattr(faust_patches, "LONGEST_RUN", 10)
    spans = [(run.first, run.offset) for run in faust_patches._runs(REPORT, [record_of(i) for i in range(25)])]
    assert spans == [(0, 9), (10, 19), (20, 24)]
    assert [run.first for run in faust_patches._runs(REPORT, [record_of(4), record_of(9)])] == [4]


def test_columns_are_runs_of_their_own():
    columns = RecordColumns.of([record_of(i) for i in (7, 8, 11)])
    records = [record_of(3), record_of(4), columns, record_of(12)]
    spans = [(run.first, run.offset, len(run.records)) for run in faust_patches._runs(REPORT, records)]
    assert spans == [(3, 4, 2), (7, 11, 3), (12, 12, 1)]


def commits(folder, acks, topic=REPORT):
    """Return the offset that Faust commits after messages 3, 9 and 20 with these acknowledgements, and its gaps."""

    async def drained(app):
        app.topics.acks_enabled_for = lambda topic: True
        consumer = app.consumer
        consumer._read_offset[topic] = consumer._committed_offset[topic] = None
        offsets, messages = [3, 9, 20], []
        came = feed(consumer, [{topic: [record_of(offset)]} for offset in offsets])
        fetcher = Mock()
        fetcher._stopped.is_set = lambda: len(came) == len(offsets)
        await consumer._drain_messages(fetcher)
        gaps = len(consumer._gap[topic])
        for message in came:
            if message.offset in acks:
                consumer.ack(message)
                messages.append(consumer._filter_committable_offsets([topic]).get(topic))
        return messages, gaps

    return with_app(drained, folder)


def test_a_consumer_looks_often_whether_a_partition_may_be_read_again(tmp_path, monkeypatch):
    """Faust sleeps for a whole second while all partitions are paused, and for other times otherwise."""
    assert inspect.getsource(consumer).count("self.sleep(1)") == 1
    pauses = []

    async def sleep(_, seconds):
        pauses.append(seconds)

    monkeypatch.setattr(driver.Consumer, "sleep", sleep)

    async def pause(app):
        for seconds in (1, 0.2, 0):
            await app.consumer.sleep(seconds)

    with_app(pause, tmp_path)
    assert pauses == [faust_patches.LOOK_WHILE_PAUSED, 0.2, 0]


def test_the_tables_start_as_faust_starts_them_but_for_its_pause(tmp_path):
    steps = inspect.getsource(TableManager.on_start).partition("await self.sleep(1.0)\n")
    assert steps[1], "Faust has changed its start of tables"
    assert inspect.getsource(Tables.on_start).partition("-> None:\n")[2] == steps[2]

    async def tables(app):
        return app.tables

    assert isinstance(with_app(tables, tmp_path), Tables)


def test_an_acknowledged_run_is_committed_at_once_and_its_offsets_are_not_listed(tmp_path):
    assert commits(tmp_path, {9}) == ([10], 0)
    assert commits(tmp_path, {3, 20}) == ([4, 21], 0)


@pytest.mark.parametrize(("embedded", "idempotent"), [(True, False), (False, True)])
def test_the_producer_is_idempotent_if_the_broker_supports_it(tmp_path, embedded, idempotent):
    async def made(app):
        assert driver.Producer._settings_extra(app.producer) == {}, "Faust says something for at_least_once now"
        producer = app.producer._new_producer()
        try:
            return producer._txn_manager is not None, producer._sender._acks
        finally:
            await producer.stop()

    assert with_app(made, tmp_path, Kafka(embedded=embedded)) == (idempotent, -1)


STOCK = fetcher.PartitionRecords.__mro__[-2]


@pytest.mark.parametrize(
    "data", [bomb("zstd", 1, 65 * MIB), batch("", record(0, b"x", b"\xff"), 1)], ids=["too large", "not UTF-8"]
)
def test_a_batch_that_aiokafka_cannot_read_or_inflates_without_a_bound_is_one_record(data, monkeypatch):
    monkeypatch.setattr(fetcher, "PartitionRecords", STOCK)
    stock = STOCK(REPORT, MemoryRecords(data), [], 0, None, None, True, fetcher.READ_UNCOMMITTED)
    with pytest.raises(ValueError, match="utf-8") if len(data) < 100 else nullcontext():
        # A failure here means that aiokafka has its own bound now, and the patch can go.
        assert len(next(stock).value) > 64 * MIB, "mended: it has a bound of its own"
    faust_patches.install(REPORT.topic)
    records = fetcher.PartitionRecords(
        REPORT, fetcher.MemoryRecords(data), [], 0, None, None, True, fetcher.READ_UNCOMMITTED
    )
    [run] = faust_patches._runs(REPORT, list(records))
    assert run.first == 0
    assert run.offset == 0
    assert records.next_fetch_offset == 1
    assert isinstance(run.records[0][2], UnreadableBatch)


def test_a_run_starts_at_the_batch_that_is_not_read():
    unread = UnreadableBatch(7, 3, "too_large", "")
    [run] = faust_patches._runs(REPORT, [(9, 0, unread), record_of(10)])
    assert run.first == 7
    assert run.offset == 10


def test_the_garbage_collector_skips_long_lived_objects():
    earlier_threshold = gc.get_threshold()
    try:
        faust_patches.tune()
        assert gc.get_freeze_count() > 0
        assert gc.get_threshold()[0] == 200_000
    finally:
        # All later tests of this process would keep the frozen objects.
        gc.unfreeze()
        gc.set_threshold(*earlier_threshold)


def test_a_partition_without_a_position_crashes_faust_but_not_our_patch():
    """This happens after a reset, while aiokafka asks for the start of the log."""

    async def look():
        thread = Mock(time_started=0.0, _verify_aiokafka_event_path=lambda *_: False)
        assignment = thread._ensure_consumer()._fetcher._subscriptions.subscription.assignment
        assignment.state_value.return_value = TopicPartitionState(Mock())
        with pytest.raises(AssertionError):
            driver.AIOKafkaConsumerThread.verify_event_path(thread, 0.0, TP("reports", 0))
        await faust_patches.Consumer.verify_all_partitions_active(Mock())

    asyncio.run(look())
