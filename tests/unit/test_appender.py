"""The appender of a gateway. Frames share a batch until aiokafka takes it, and each request waits for its own."""

import asyncio
from types import SimpleNamespace

import pytest
from aiokafka.errors import MessageSizeTooLargeError
from aiokafka.producer.message_accumulator import MessageAccumulator
from aiokafka.producer.transaction_manager import TransactionManager
from aiokafka.record.default_records import DefaultRecordBatch
from aiokafka.structs import TopicPartition

from hubbub.kafka.settings import Kafka
from producers.gateway.intake import appender as module
from producers.gateway.intake.appender import Appender, Unacknowledged
from producers.publishers.frames import OutgoingFrame

PANE = 1_700_000_000
NOW = 1000 * PANE + 3000
LOGGED = 1000 * PANE + 5000
PARTITIONS = 2
FOREVER = 3600.0
"""Seconds that no test takes, for limits that a busy machine must not reach."""


@pytest.fixture(autouse=True)
def no_limit(monkeypatch):
    """Let each request wait for as long as its test takes."""
    monkeypatch.setattr(module, "PATIENCE", FOREVER)


class Queue:
    """An appender on the queue of aiokafka's producer. A test takes and answers the batches instead of its sender."""

    def __init__(self, limit=1 << 20, embedded=False):
        self._manager = None if embedded else TransactionManager(None, 0)
        if self._manager is not None:
            self._manager.set_pid_and_epoch(5, 0)
        cluster = SimpleNamespace(leader_for_partition=lambda _: 0)
        self._batches = MessageAccumulator(cluster, limit, 0, FOREVER, txn_manager=self._manager)
        self.appender = Appender(Kafka(embedded=embedded), limit, clock=lambda: NOW / 1000)
        self.appender.partitions = PARTITIONS
        self.appender._producer = self

    async def send_batch(self, batch, topic, *, partition):
        return await self._batches.add_batch(batch, TopicPartition(topic, partition), FOREVER)

    async def append(self, *frames):
        """Start a request with these frames."""
        task = asyncio.create_task(self.appender.append(frames))
        await turns()
        return task

    def take(self):
        """Return the next batch of each partition. aiokafka has counted its records, and has not built it yet."""
        nodes, _ = self._batches.drain_by_nodes(())
        return {tp.partition: batch for tp, batch in nodes.get(0, {}).items()}


async def turns():
    for _ in range(10):
        await asyncio.sleep(0)


def frame(number, partition=0, size=0):
    """Return a frame that starts with its number."""
    name = (PARTITIONS * (number + 1) + partition).to_bytes(8, "little")
    return OutgoingFrame(name, PANE, 1, b"%d" % number + bytes(size))


def numbers(batch):
    """Return the numbers of the frames in a batch, in their order."""
    return [int(record.value.rstrip(b"\0")) for record in contents(batch)]


def contents(batch):
    return DefaultRecordBatch(bytes(batch.get_data_buffer()))


def test_frames_share_a_batch_until_it_is_taken_and_no_number_of_a_record_is_given_twice():
    async def run():
        queue = Queue()
        early = [await queue.append(frame(0)), await queue.append(frame(1), frame(2, partition=1))]
        first_batch = queue.take()
        late = [await queue.append(frame(3)), await queue.append(frame(4))]  # before the first batch is built
        second = queue.take()
        assert [numbers(first_batch[0]), numbers(first_batch[1]), numbers(second[0])] == [[0, 1], [2], [3, 4]]
        assert [contents(batch).base_sequence for batch in (first_batch[0], first_batch[1], second[0])] == [0, 0, 2]
        assert {record.timestamp for record in contents(second[0])} == {1000 * PANE}  # no finer time than the pane's
        second[0].done(2, LOGGED + 1)
        assert [await task for task in late] == [[LOGGED + 1]] * 2
        assert not any(task.done() for task in early)
        first_batch[0].done(0, LOGGED)
        assert await early[0] == [LOGGED]
        assert not early[1].done(), "a request waits for all its partitions"
        first_batch[1].done(0, LOGGED + 2)
        assert await early[1] == [LOGGED, LOGGED + 2]
        assert queue.appender.weight == 0
        assert not queue.appender._newest

    asyncio.run(run())


def test_the_embedded_broker_gets_each_frame_once_too():
    async def run():
        queue = Queue(embedded=True)
        tasks = [await queue.append(frame(0))]
        first_batch = queue.take()[0]
        tasks.append(await queue.append(frame(1)))
        assert numbers(first_batch) == [0, 1]
        tasks.append(await queue.append(frame(2)))
        second = queue.take()[0]
        assert numbers(second) == [2]
        for batch in (first_batch, second):
            batch.done(0, -1)
        assert [await task for task in tasks] == [[NOW]] * 3

    asyncio.run(run())


def test_frames_that_find_no_room_share_the_next_batch():
    async def run():
        queue = Queue(limit=1000)
        tasks = [await queue.append(frame(number, size=400)) for number in range(8)]
        batches = []
        while len(batches) < 4:
            await turns()
            for batch in queue.take().values():
                batches.append(numbers(batch))
                batch.done(0, LOGGED)
        assert batches == [[0, 1], [2, 3], [4, 5], [6, 7]]
        assert [await task for task in tasks] == [[LOGGED]] * 8

    asyncio.run(run())


def test_all_frames_of_a_duplicate_batch_are_accepted():
    """A broker that has the batch already, and has forgotten its offset, returns neither offset nor time."""

    async def run():
        queue = Queue()
        task = await queue.append(frame(0), frame(1), frame(2))
        queue.take()[0].done(-1, -1)
        assert await task == [NOW] * 3
        assert not queue.appender.broken.done()

    asyncio.run(run())


def test_a_refused_batch_fails_its_own_requests_only():
    async def run():
        queue = Queue()
        tasks = [await queue.append(frame(0)), await queue.append(frame(1)), await queue.append(frame(2, partition=1))]
        batches = queue.take()
        batches[0].failure(MessageSizeTooLargeError())
        batches[1].done(0, LOGGED)
        assert await tasks[2] == [LOGGED]
        for task in tasks[:2]:
            with pytest.raises(Unacknowledged, match="MessageSizeTooLargeError"):
                await task

    asyncio.run(run())


def test_a_request_that_ends_early_leaves_the_batch_to_the_others(monkeypatch):
    async def run():
        queue = Queue()
        leaver = await queue.append(frame(0))
        other_future = await queue.append(frame(1))
        leaver.cancel()
        monkeypatch.setattr(module, "PATIENCE", 0.01)
        with pytest.raises(Unacknowledged, match="did not acknowledge"):
            await (await queue.append(frame(2)))
        assert queue.appender.weight == 3, "Kafka may still write them"
        batch = queue.take()[0]
        assert numbers(batch) == [0, 1, 2]
        batch.done(0, LOGGED)
        assert await other_future == [LOGGED]
        assert leaver.cancelled()
        assert queue.appender.weight == 0

    asyncio.run(run())


def test_the_check_of_kafka_notices_a_silence_and_its_end(monkeypatch):
    async def run():
        appender = Queue().appender
        faults = [OSError("the broker is gone")]

        async def count_partitions():
            if faults:
                raise faults[0]

        async def wait_for(missing):
            # A check that never gets there must not hang the test.
            for _ in range(100):
                if appender.missing == missing or check.done():
                    break
                await turns()
            assert appender.missing == missing
            assert not check.done()

        monkeypatch.setattr(module, "LOOK", 0.0)
        monkeypatch.setattr(appender, "_count_partitions", count_partitions)
        check = asyncio.create_task(appender._check_kafka())
        await wait_for("Kafka does not answer: the broker is gone. Try again.")
        faults.clear()
        await wait_for(None)
        faults.append(OSError("it is gone again"))
        await wait_for("Kafka does not answer: it is gone again. Try again.")
        check.cancel()

    asyncio.run(run())
