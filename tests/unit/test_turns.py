"""Queries that owe finals take turns. New records are read between two turns."""

import asyncio
import time
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace
from unittest.mock import AsyncMock, MagicMock

import numpy as np
import pytest
from aiokafka.errors import MessageSizeTooLargeError

from aggregator.merging.snapshot_partition import SnapshotPartition
from aggregator.merging.snapshot_reader import SnapshotReader
from aggregator.process.metrics import Metrics
from aggregator.publishing.finals import round as finals_round
from aggregator.publishing.finals.estimator_pool import EstimatorPool
from aggregator.publishing.provisional import ProvisionalRecords
from aggregator.publishing.service import PublishingService
from aggregator.tallies import keys
from aggregator.tallies.clock_book import ClockBook
from aggregator.tallies.keys import BlockKey, PaneKey, PartitionKey, StateKey
from aggregator.tallies.progress import Progress, encode_ends
from aggregator.tallies.snapshot import Snapshot, encode_snapshot
from hubbub.definitions.follower import Follower
from hubbub.definitions.versions import Version, Versions
from hubbub.kafka.settings import Kafka
from tests.queries import make_queries, make_query, make_table

TABLE = make_table(domain=3, oracle="grr", budget=1e9, pane="1s", windows=["1s", "3s/1s"])
TABLE |= {"crowd": 1, "emit_every": "never"}
QUERIES = make_queries({"behind": TABLE, "prompt": TABLE | {"domain": 4}})
BEHIND, PROMPT = QUERIES["behind"], QUERIES["prompt"]
DUE_FINALS = 100
UNTRUE = MagicMock(measures=lambda *_: False)
"""Nothing is simulated."""


class Sent:
    """An outbox that notes its finals by query and window."""

    def __init__(self):
        self.finals, self.records = [], []
        self.silent = set()
        """The queries whose records nobody acknowledges."""

    async def send(self, topic, key, value, **_):
        self.records.append((topic, key, value))
        name, _, kind, *rest = (key.decode().split("|") + [""] * 3)[:6]
        future = asyncio.get_running_loop().create_future()
        if topic == "estimates" and value is not None:
            self.finals.append((name, kind, rest[2]))
        # A future without a result is a broker that never answers.
        if topic != "estimates" or name not in self.silent:
            future.set_result(None)
        return future

    async def append(self, topic, partition, records, **_):
        return [await self.send(topic, record.key, record.value) for record in records]

    async def append_by_key(self, topic, records):
        return await self.append(topic, 0, records)

    async def write(self, topic, partition, writes):
        return [await self.send(topic, *write) for write in writes]

    async def partitions(self, _):
        return 1


def snapshots(query, panes):
    """Return closed panes of a query, and the watermark after them."""
    for pane in panes:
        cells = np.ones(query.oracle.state_size, np.int64)
        yield PaneKey("closed", query.digest, pane, 0).encode(), encode_snapshot(Snapshot(9, 0, 0, 0, cells))
    yield (
        PartitionKey("watermark", 0, query.name).encode(),
        encode_ends(Progress(closed={query.digest: max(panes) + 1})),
    )


def partition_of(*records):
    partition = SnapshotPartition(0, 1, {query.digest: Versions.of(query) for query in QUERIES.values()})
    partition.load()
    for name, value in records:
        partition.put(name, value)
    return partition


class Reading:
    """A reader that is always at the end. Between two rounds it puts what comes."""

    partition_count = 1
    loaded_states = SnapshotReader.loaded_states
    has = SnapshotReader.has

    def __init__(self, partition, coming=()):
        self.partitions, self.loaded, self._coming = {0: partition}, True, list(coming)

    async def start(self):
        pass

    async def stop(self):
        pass

    async def assign(self, *_):
        pass

    async def take(self, *_):
        await asyncio.sleep(0)
        for record in self._coming:
            self.partitions[0].put(*record)
        new = {0} if self._coming else set()
        self._coming = []
        return new

    async def has_read_all(self, _):
        return True


def service_of(partition, outbox, coming=(), ending=None):
    target = Kafka("nowhere:1", "p.")
    merging = PublishingService(
        target, 1, Follower(target), outbox, Metrics(), ending or MagicMock(), UNTRUE, ClockBook(1), None
    )
    merging.reader = Reading(partition, coming)
    return merging


def published(records, coming=(), done=None, merging=None, outbox=None):
    """The finals in their order, once nothing is due, or `done` is true."""
    partition = partition_of(*records)
    outbox = outbox or Sent()

    async def run():
        service = service_of(partition, outbox, coming)
        if merging is not None:
            merging(service)
        running = asyncio.create_task(service.run())
        while any(state.has_due_finals for state in partition.queries.values()) and not (done and done(outbox)):
            await asyncio.sleep(0.01)
            service.ending.fail.assert_not_called()
        # The last task still notes how far it is published, after nothing is due any more.
        await asyncio.sleep(0.05)
        assert done or not service.owed_finals()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(run())
    return outbox.finals


def behind_and_prompt():
    return *snapshots(BEHIND, range(DUE_FINALS)), *snapshots(PROMPT, range(DUE_FINALS - 3, DUE_FINALS))


@pytest.mark.parametrize("maximum", [1, 7, 1000])
def test_rounds_of_any_size_change_no_final_nor_their_order_within_a_query(monkeypatch, maximum):
    # The defaults belong to the function, so other names for it have them too.
    monkeypatch.setattr(finals_round.choose, "__kwdefaults__", {"finals": maximum, "size": 1 << 20})
    finals = published(behind_and_prompt(), snapshots(BEHIND, range(DUE_FINALS, DUE_FINALS + 5)))
    assert len(finals) == len(set(finals)) == 2 * (DUE_FINALS + 5) + 2 * 3
    for name in QUERIES:
        ends = [(int(end), kind == "tumbling") for query, kind, end in finals if query == name]
        assert ends == sorted(ends), "by end, and at one end the larger window first"


def test_a_round_that_is_over_leaves_the_rest_to_the_next_one(monkeypatch):
    monkeypatch.setattr(finals_round, "SECONDS", 0.0)
    finals = published(behind_and_prompt())
    assert len(finals) == len(set(finals)) == 2 * DUE_FINALS + 2 * 3


def test_the_query_that_is_furthest_behind_comes_first():
    partition = partition_of(*behind_and_prompt())
    states = partition.queries.values()
    for state in states:
        state.collect()
    [behind] = finals_round.choose(states, finals=50)
    assert behind.state.versions.query == BEHIND
    assert len(behind.finals) == 50
    whole = {batch.state.versions.query: len(batch.finals) for batch in finals_round.choose(states)}
    assert whole == {BEHIND: 2 * DUE_FINALS, PROMPT: 2 * 3}
    assert len(finals_round.choose(states, size=1)) == 1, "the first final is always there"


def test_no_query_gets_ahead_of_one_whose_next_version_waits_for_the_next_round():
    """After an outage one query has finals of two versions, which are two requests to the estimator."""
    versions = Versions.of(BEHIND).with_version(Version(40, replace(BEHIND, emit_every=5)))
    partition = SnapshotPartition(0, 1, {BEHIND.digest: versions, PROMPT.digest: Versions.of(PROMPT)})
    partition.load()
    for record in (*snapshots(BEHIND, range(DUE_FINALS)), *snapshots(PROMPT, range(DUE_FINALS))):
        partition.put(*record)
    states, order = partition.queries.values(), []
    for state in states:
        state.collect()
    batches = finals_round.choose(states, finals=60)
    while batches:
        ends = [[due.final.span.end for due in batch.finals] for batch in batches]
        order.append((min(map(min, ends)), max(map(max, ends))))
        for batch in batches:
            assert len({due.query.emit_every for due in batch.finals}) == 1, "each request has one version"
            for _ in batch.finals:
                batch.state.answer([], {})
        batches = finals_round.choose(states, finals=60)
    assert order[0][0] == 1
    assert order[-1][1] == DUE_FINALS
    assert all(last <= first + 1 for (_, last), (first, _) in pairwise(order)), "a round begins where the last ended"


def test_what_is_owed_is_counted_before_it_is_made():
    partition = partition_of(*behind_and_prompt())
    for state in partition.queries.values():
        due = state.count_owed()
        state.collect()
        assert state.count_owed() == due
        state.owes(3)
        assert state.count_owed() == due == len(list(state.backlog)) + sum(1 for _ in state.due_finals())


def test_a_query_whose_records_nobody_acknowledges_holds_up_no_other():
    outbox = Sent()
    outbox.silent = {"behind"}

    def done(outbox):
        return sum(key.startswith(b"state|" + PROMPT.digest.hex().encode()) for _, key, _ in outbox.records) == 2

    finals = published(behind_and_prompt(), done=done, outbox=outbox)
    assert {name for name, *_ in finals} == {"behind", "prompt"}
    states = [key for topic, key, value in outbox.records if topic == "snapshots" and key.startswith(b"state|")]
    assert all(PROMPT.digest.hex().encode() in key for key in states)


def test_a_rebalance_leaves_a_round_at_the_next_final():
    """Here everything stays with this worker, which publishes the rest afterwards."""
    counts = []

    class Leaving(Sent):
        async def append(self, topic, partition, records, **_):
            if not self.finals:
                self.service.assign({0})
            return await super().append(topic, partition, records)

    async def assign(*_):
        counts.append(len(outbox.finals))

    outbox = Leaving()

    def merging(service):
        outbox.service, service._define, service.reader.assign = service, AsyncMock(), assign

    finals = published(behind_and_prompt(), merging=merging, outbox=outbox)
    assert len(finals) == len(set(finals)) == 2 * DUE_FINALS + 2 * 3
    assert counts[0] < DUE_FINALS


@pytest.mark.parametrize(("seconds", "progress"), [(10.0, True), (400.0, False)])
def test_a_query_that_waits_for_minutes_is_no_progress_for_the_watchdog(seconds, progress):
    partition = partition_of(*snapshots(BEHIND, range(3)))
    service = service_of(partition, Sent())
    service.tasks._starts[partition.queries[BEHIND.digest]] = time.monotonic() - seconds
    service._progress()
    assert bool(service.rounds) == progress


class Waiting(EstimatorPool):
    """A pool in which a large query waits until all other finals are published."""

    def __init__(self, outbox):
        super().__init__()
        self.outbox = outbox

    @staticmethod
    def is_large(query):
        return query == BEHIND

    def ask(self, *tasks):
        async def later(task):
            while sum(name == "prompt" for name, *_ in self.outbox.finals) < 6:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            super(Waiting, self).ask(task)

        for task in tasks:
            if task.query == BEHIND:
                self.waiting = asyncio.create_task(later(task))
            else:
                super().ask(task)


def test_nothing_waits_for_the_finals_of_a_large_query():
    outbox = Sent()

    def merging(service):
        service.estimators = Waiting(outbox)

    finals = published((*snapshots(BEHIND, range(3)), *snapshots(PROMPT, range(3))), merging=merging, outbox=outbox)
    assert [name for name, *_ in finals] == ["prompt"] * 6 + ["behind"] * 6


EMITTING = make_query(TABLE, name="calm", domain=5, emit_every="1s")


def test_blocks_are_in_the_topic_before_the_states_that_pass_them():
    outbox = Sent()
    published(snapshots(BEHIND, range(DUE_FINALS)), outbox=outbox)
    names = [keys.decode(name) for topic, name, value in outbox.records if topic == "snapshots" and value is not None]
    last_end = {}
    for name in names:
        if isinstance(name, StateKey):
            last_end[name.window] = name.end
        elif isinstance(name, BlockKey):
            assert name.end > last_end.get(name.window, 0)
    assert {type(name) for name in names} >= {StateKey, BlockKey}


class WithoutBlocks(Sent):
    """A topic that refuses every batch with a block."""

    async def write(self, topic, partition, writes):
        acks = await super().write(topic, partition, writes)
        if any(name.startswith(b"block|") and value is not None for name, value in writes):
            # The broker refuses the whole batch, since a record of it is too large.
            acks.append(asyncio.get_running_loop().create_future())
            acks[-1].set_exception(MessageSizeTooLargeError())
        return acks


def test_a_refused_block_leaves_the_states_that_pass_it():
    services = []
    published(snapshots(BEHIND, range(9)), outbox=WithoutBlocks(), merging=services.append)
    [state] = [query for query in services[0].reader.partitions[0].queries.values() if query.versions.query == BEHIND]
    assert {position.end for position in state.positions.values()} == {9}
    assert not state.too_large


def test_a_query_without_a_newly_closed_pane_is_not_looked_at_for_provisional_records():
    provisional = ProvisionalRecords()
    merger = MagicMock()
    state = SimpleNamespace(merger=merger, versions=Versions.of(EMITTING))
    for turn, collected in enumerate([None, None, 10, 10, 10, 20]):
        merger.collected_through = collected
        provisional.due(state, float(turn + 1))
    assert merger.provisional.call_count == 3
    provisional.clear()
    provisional.due(state, 9.0)
    assert merger.provisional.call_count == 4


@pytest.mark.parametrize("late", [0.0, 2.0])
def test_no_provisional_record_while_a_final_is_late(late):
    """An owed final of another query that is more than a second late holds them back."""
    definitions = {query.digest: Versions.of(query) for query in (BEHIND, EMITTING)}
    partition = SnapshotPartition(0, 1, definitions)
    partition.load()
    for name, value in snapshots(EMITTING, range(3)):
        partition.put(name, value)
    outbox = Sent()

    async def run():
        service = service_of(partition, outbox)
        states = {state.versions.query: state for state in partition.queries.values()}
        service._due_since[states[BEHIND]] = time.monotonic() - late
        # The query behind has a task already, so no round publishes its final, and it stays late.
        service.tasks._starts[states[BEHIND]] = time.monotonic()
        while states[EMITTING].has_due_finals or states[EMITTING] in service.tasks:
            await service.round([states[EMITTING]])
            await asyncio.sleep(0.01)
        service._due_since[states[BEHIND]] = time.monotonic() - late
        await service.round([states[EMITTING]])
        await asyncio.sleep(0.1)
        service.estimators.close()

    asyncio.run(run())
    provisional = [key for topic, key, value in outbox.records if key.endswith(b"|p") and value is not None]
    assert bool(provisional) == (not late)
    assert len(outbox.finals) - len(provisional) == 2 * 3


def test_between_two_looks_at_all_only_new_records_and_due_finals_are_looked_at():
    partition = partition_of(*snapshots(BEHIND, range(3)))
    service = service_of(partition, Sent())
    service.reader.partitions[1] = partition_of()
    assert service._partitions_to_look_at(set()) == [0, 1]
    assert service._partitions_to_look_at(set()) == []
    assert service._partitions_to_look_at({1, 7}) == [1]
    service._due_since[partition.queries[BEHIND.digest]] = 0.0
    assert service._partitions_to_look_at(set()) == [0]
    service._next_look = 0.0
    assert service._partitions_to_look_at(set()) == [0, 1]


def test_an_error_in_the_task_of_a_large_query_ends_the_worker():
    partition = partition_of(*snapshots(BEHIND, range(3)))
    ending = MagicMock()

    async def run():
        failure = asyncio.Event()
        ending.fail.side_effect = lambda _: failure.set()
        service = service_of(partition, Sent(), ending=ending)
        service.publisher.outbox = MagicMock(partitions=AsyncMock(side_effect=RuntimeError("no")))
        running = asyncio.create_task(service.run())
        await failure.wait()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(run())
    assert "no" in str(ending.fail.call_args)
