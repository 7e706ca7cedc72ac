"""Simulated clients of Kafka. They have the methods that hubbub calls, and no others."""

import asyncio
from collections import defaultdict, deque
from functools import partial
from types import SimpleNamespace

from aiokafka import TopicPartition
from aiokafka.errors import KafkaConnectionError, ProducerClosed, UnknownTopicOrPartitionError
from aiokafka.partitioner import DefaultPartitioner

RETRY = 0.1
"""Seconds between two tries of a batch."""


class Client:
    """The parts that all clients share: the world, the process that owns the client, and the network between."""

    world = None
    """The present world. It is set while a world runs."""

    def __init__(self, **settings):
        self.settings = settings
        self.process = self.world.running
        self.log = self.world.log
        self.closed = False

    async def start(self):
        """Connect. Real clients give up soon if no broker of their list answers."""
        await asyncio.sleep(self.world.latency())
        if self.world.network_is_down(self.process):
            await asyncio.sleep(1.0)
            raise KafkaConnectionError("no broker answers")

    async def stop(self):
        self.closed = True

    close = stop

    async def round_trip(self):
        """Wait for one answer of a broker. Real clients ask again for 40 s, longer than a network is down here."""
        await asyncio.sleep(self.world.latency())
        while self.world.network_is_down(self.process):  # noqa: ASYNC110 - the end of a fault has no event
            await asyncio.sleep(RETRY)


class Batch:
    """A batch that a caller fills."""

    def __init__(self, limit):
        self._limit = limit
        self._size = 0
        self.records = []

    def append(self, *, key, value, timestamp, headers=()):
        size = len(key or b"") + len(value or b"") + 70
        if self.records and self._size + size > self._limit:
            return None
        self.records.append((key, value, timestamp, headers))
        self._size += size
        return object()

    def close(self):
        pass

    def size(self):
        return self._size

    def record_count(self):
        return len(self.records)


class Waiting:
    """Batches of one producer for one partition, in their order. One at a time is on its way."""

    def __init__(self):
        self.batches = deque()
        self.is_sending = False
        self.next_sequence = 0


class Producer(Client):
    def __init__(self, **settings):
        super().__init__(**settings)
        self.id = self.world.next_number()
        self._queues = defaultdict(Waiting)
        self._is_idempotent = settings.get("enable_idempotence", False)
        self._message_accumulator = SimpleNamespace(_batch_ttl=0)
        self.client = SimpleNamespace(
            force_metadata_update=self._update, cluster=SimpleNamespace(partitions_for_topic=self._numbers)
        )

    async def _update(self):
        await self.round_trip()
        return True

    def _numbers(self, topic):
        partitions = self.log.partitions.get(topic)
        return set(range(len(partitions))) if partitions else None

    async def partitions_for(self, topic):
        numbers = self._numbers(topic)
        if numbers is None:
            raise UnknownTopicOrPartitionError
        return numbers

    def create_batch(self):
        return Batch(self.settings.get("max_batch_size", 16384))

    async def send(self, topic, value=None, key=None, partition=None, timestamp_ms=None, headers=None):
        numbers = sorted(await self.partitions_for(topic))
        if partition is None:
            partition = DefaultPartitioner()(key, numbers, numbers)
        return self._enqueue(TopicPartition(topic, partition), [(key, value, timestamp_ms, headers or ())])

    async def send_and_wait(self, topic, value=None, key=None, partition=None):
        return await (await self.send(topic, value, key, partition))

    async def send_batch(self, batch, topic, *, partition):
        if partition not in await self.partitions_for(topic):
            raise UnknownTopicOrPartitionError
        return self._enqueue(TopicPartition(topic, partition), batch.records)

    def _enqueue(self, tp, records):
        if self.closed:
            raise ProducerClosed
        self.world.note_write(self.process, tp, records)
        future = asyncio.get_running_loop().create_future()
        queue = self._queues[tp]
        sequence = None
        if self._is_idempotent:
            sequence = self.id, queue.next_sequence
            queue.next_sequence += 1
        queue.batches.append((records, future, sequence))
        self._pump(tp)
        return future

    def _pump(self, tp):
        """Send the first batch. It lands later, even if this process dies meanwhile."""
        queue = self._queues[tp]
        if queue.is_sending or not queue.batches:
            return
        queue.is_sending = True
        self.world.later(self.world.latency(), self._arrive, tp)

    def _arrive(self, tp):
        world = self.world
        queue = self._queues[tp]
        records, _, sequence = queue.batches[0]
        part = self.log.at(tp)
        if not self.process.alive and world.chance("lost batch", world.mix.lost_batches):
            world.mark("lost batch")
            return
        if part.blocked_until > world.now or world.network_is_down(self.process):
            self._in_process(RETRY, self._retry, tp)
            return

        offset = self.log.append(tp, records, writer=self.process.name, sequence=sequence)
        if world.loses_ack():
            self._in_process(world.random.uniform(0.2, 3.0), self._retry, tp)
            return
        self._in_process(world.latency(), self._acknowledge, tp, offset)

    def _in_process(self, delay, work, *arguments):
        """Do something in the process of this producer, if it lives by then."""
        self.process.later(delay, work, *arguments)

    def _retry(self, tp):
        self.world.later(self.world.latency(), self._arrive, tp)

    def _acknowledge(self, tp, offset):
        queue = self._queues[tp]
        records, future, _ = queue.batches.popleft()
        queue.is_sending = False
        self._pump(tp)
        if not future.done():
            stamps = self.log.settings[tp.topic].get("message.timestamp.type") == "LogAppendTime"
            log_time = int(1000 * self.world.wall())
            future.set_result(SimpleNamespace(offset=offset, timestamp=log_time, timestamp_type=int(stamps)))
            self.world.note_ack(self.process, tp, records)


class Consumer(Client):
    def __init__(self, **settings):
        super().__init__(**settings)
        self._positions = {}
        self._highwaters = {}
        self._paused = set()
        self._client = self

    def assign(self, tps):
        self._positions = dict.fromkeys(tps)
        self._highwaters = {}
        self._paused = set()

    def seek(self, tp, offset):
        self._positions[tp] = offset

    async def seek_to_beginning(self, *tps):
        for tp in tps or self._positions:
            self._positions[tp] = self.log.at(tp).beginning
        await asyncio.sleep(0)

    def pause(self, *tps):
        self._paused |= set(tps)

    def resume(self, *tps):
        self._paused -= set(tps)

    async def position(self, tp):
        return self._positions[tp]

    def highwater(self, tp):
        return self._highwaters.get(tp)

    async def beginning_offsets(self, tps):
        await self.round_trip()
        return {tp: self.log.at(tp).beginning for tp in tps}

    async def end_offsets(self, tps):
        await self.round_trip()
        return {tp: self.log.at(tp).shown_end(self.world.now) for tp in tps}

    async def getone(self, tp):
        while True:
            records = (await self.getmany(tp, timeout_ms=1000, max_records=1)).get(tp)
            if records:
                return records[0]

    async def getmany(self, *tps, timeout_ms=0, max_records=None):
        """Return what one poll brings: any prefix of the records, or nothing after the timeout."""
        tps = [tp for tp in tps or self._positions if tp not in self._paused]
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        while True:
            if self.world.network_is_down(self.process):
                await asyncio.sleep(max(0.0, deadline - loop.time()))
                return {}
            if not self._has_news(tps) and loop.time() < deadline:
                await self._wait(tps, deadline)
            await asyncio.sleep(self.world.latency())
            batches = self._fetch(tps, max_records)
            if batches or loop.time() >= deadline:
                return batches

    def _has_news(self, tps):
        """Whether a fetch may bring something. A broker answers at once then, and otherwise when something comes."""
        now = self.world.now
        for tp in tps:
            position = self._positions.get(tp)
            if position is not None and self.log.at(tp).shown_end(now) > position:
                return True
        return False

    def _fetch(self, tps, max_records):
        batches = {}
        most = max_records or 1000
        for tp in tps:
            # Each broker answers for its own partitions, so an answer may be older than one for other partitions.
            if self._positions.get(tp) is None or (len(tps) > 1 and self.world.omits_partition()):
                continue
            part = self.log.at(tp)
            end = part.shown_end(self.world.now)
            self._highwaters[tp] = end
            self._positions[tp] = max(self._positions[tp], part.beginning)  # auto_offset_reset is "earliest"
            if self._positions[tp] >= end or most < 1:
                continue
            records = part.read(self._positions[tp], end, self.world.fetch_size(most))
            most -= len(records)
            # After the last record of a fetch the log may have only markers and deleted records.
            self._positions[tp] = records[-1].offset + 1 if records else end
            if records:
                batches[tp] = records
        return batches

    async def _wait(self, tps, deadline):
        """Wait until the deadline, or until one of the partitions grows."""
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        handle = loop.call_at(deadline, wake, future)
        now = self.world.now
        for tp in tps:
            part = self.log.at(tp)
            if now < part.hidden_until < deadline:
                loop.call_at(part.hidden_until, wake, future)
            self.log.waiting.setdefault(tp, {})[self] = partial(self.process.soon, wake, future)
        try:
            await future
        finally:
            handle.cancel()


def wake(future):
    if not future.done():
        future.set_result(None)
