"""Checkpoints. Each phase waits for the acknowledgement of the one before, and stops after a rebalance."""

import asyncio
from itertools import count
from random import Random
from types import SimpleNamespace

from aggregator.counting.checkpoint import Checkpoints
from aggregator.counting.checkpoint_plan import WriteBudget
from aggregator.counting.clock_log import ClockLog
from aggregator.process.metrics import Metrics
from aggregator.tallies.clock_book import ClockBook
from aggregator.tallies.progress import TopicIds
from hubbub.kafka.settings import Kafka
from tests.logs import random_log
from tests.owners import Owner, Topics, settle

PHASES = ({"ids", "reject"}, {"tally", "closed"}, {"clock"}, {"progress"})


def kind_of(key):
    return key.split(b"|")[0].decode()


class Broker:
    """A broker that acknowledges writes on demand, and keeps the writes between two acknowledgements."""

    def __init__(self):
        self.rounds, self.sent, self.waiting, self.deleted = [], [], [], []
        self.offsets = count(1)

    def take(self, kind):
        self.sent.append(kind)
        self.waiting.append(asyncio.get_running_loop().create_future())
        return self.waiting[-1]

    async def write(self, topic, partition, writes, on_written=None):
        removals = {kind_of(key) for key, value in writes if value is None}
        self.deleted += [(len(self.rounds), kind) for kind in removals]
        acks = [self.take(kind_of(key)) for key, value in writes if value is not None]
        if on_written is not None and acks:
            acks[-1].add_done_callback(lambda ack: ack.result().offset < 0 or on_written(ack.result().offset))
        return acks

    async def send(self, topic, key, value, partition):
        return self.take(kind_of(key))

    async def partitions(self, topic):
        return 1

    async def append(self, topic, partition, records):
        return [self.take("reject") for _ in records]

    def acknowledge(self):
        self.rounds.append(self.sent)
        for ack in self.waiting:
            ack.set_result(SimpleNamespace(offset=next(self.offsets)))
        self.sent, self.waiting = [], []


class Prompt(Broker):
    """A broker that acknowledges at once."""

    def take(self, kind):
        ack = super().take(kind)
        ack.set_result(SimpleNamespace(offset=next(self.offsets)))
        return ack


def recovered_sources(partitions=2):
    """Return sources with a previous owner, and their log."""
    log = random_log(Random(0), partitions, 60)
    topics = Topics(partitions)
    for number in range(partitions):
        earlier_owner = Owner(topics, log, number, "before")
        earlier_owner.read(10)
        settle(earlier_owner)
    return {partition: Owner(topics, log, partition, "w").source for partition in range(partitions)}, log


def checkpoints_of(sources, broker, pace):
    counting = SimpleNamespace(
        current=True, generation=1, topic="reports", sources=sources, events={}, partitions=len(sources)
    )
    counting.write = lambda source, writes: broker.write("", source.partition, writes)
    clocks = ClockLog(Kafka("nowhere:1", "p."), broker, ClockBook(len(sources)))
    clocks.assign(TopicIds())
    clocks._has_read = True
    return Checkpoints(counting, broker, Metrics(), None, pace, clocks)


async def last_rounds(*, taken_away=None):
    """Return the rounds of a last checkpoint. A rebalance takes the partitions away after this many of them."""
    sources, log = recovered_sources()
    for partition, source in sources.items():
        source.take(log[partition][:30])
    broker = Broker()
    checkpoints = checkpoints_of(sources, broker, WriteBudget(10**6))
    work = asyncio.create_task(checkpoints.stop())
    while not work.done():
        await asyncio.sleep(0)
        if broker.sent:
            for _ in range(5):  # nothing more goes out before the acknowledgements
                await asyncio.sleep(0)
            broker.acknowledge()
            if len(broker.rounds) == taken_away:
                checkpoints.counting.generation += 1
    await work
    return broker.rounds, broker.deleted, sources


def test_each_phase_waits_for_all_acknowledgements_of_the_one_before():
    rounds, deletions, sources = asyncio.run(last_rounds())
    assert [set(outgoing) <= phase for outgoing, phase in zip(rounds, PHASES, strict=True)] == [True] * 4
    assert set().union(*rounds) == set().union(*PHASES)
    assert {kind for _, kind in deletions} >= {"progress"}
    assert {after for after, _ in deletions} == {4}, "what they supersede stands until all is acknowledged"
    assert not any(source.behind for source in sources.values())


def test_a_checkpoint_writes_nothing_after_it_loses_its_partitions():
    for round_number in (1, 2, 3):
        rounds, deletions, sources = asyncio.run(last_rounds(taken_away=round_number))
        assert len(rounds) == round_number
        assert deletions == []
        assert not any(source.at_rest for source in sources.values())


def test_the_deletions_after_a_checkpoint_go_with_the_next_one():
    async def run():
        sources, log = recovered_sources()
        broker = Prompt()
        checkpoints = checkpoints_of(sources, broker, WriteBudget(10**9))
        kinds = []
        for end in (30, 60):
            for partition, source in sources.items():
                source.take(log[partition][:end])
            checkpoints._whole_at = 0.0
            await checkpoints._round()
            kinds.append({kind for _, kind in broker.deleted})
        return kinds

    first_records, second = asyncio.run(run())
    assert "progress" not in first_records
    assert "progress" in second, "otherwise the changelog grows until the worker stops"


def test_a_checkpoint_waits_while_a_partition_has_not_closed_what_another_has():
    async def looks():
        sources, log = recovered_sources()
        checkpoints = checkpoints_of(sources, Prompt(), WriteBudget(10**6))
        # The last record of each partition has the same late time.
        for partition, part in ((0, slice(60)), (1, slice(60)), (0, slice(60, None)), (1, slice(60, None))):
            sources[partition].take(log[partition][part])
            yield checkpoints._lacks_closes()

    async def answers():
        return [look async for look in looks()]

    assert asyncio.run(answers()) == [False, True, True, False]


def test_after_many_writes_the_next_records_wait():
    async def run():
        sources, log = recovered_sources()
        broker = Prompt()
        checkpoints = checkpoints_of(sources, broker, WriteBudget(10**9, records_per_s=1e-3))
        rounds = []
        for end in (30, 60):
            for partition, source in sources.items():
                source.take(log[partition][:end])
            await checkpoints._round()
            rounds.append(set(broker.sent))
            broker.sent.clear()
        assert not sources[0].closing, "closed panes do not wait"
        assert sources[0].behind
        return rounds, checkpoints.interval

    (first_records, second), interval = asyncio.run(run())
    assert first_records >= {"tally", "progress"}
    assert "closed" in second
    assert not second & {"tally", "ids"}
    assert interval > 1000
