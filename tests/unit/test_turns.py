"""Queries that owe finals take turns, and what has come is read between them."""

import asyncio
from unittest.mock import AsyncMock, MagicMock

import numpy as np

from aggregator.merging.snapshot_partition import SnapshotPartition
from aggregator.process.metrics import Metrics
from aggregator.publishing import service
from aggregator.publishing.finals.estimator_pool import EstimatorPool
from aggregator.publishing.service import PublishingService
from aggregator.tallies.keys import PaneKey, PartitionKey
from aggregator.tallies.progress import Progress, encode
from aggregator.tallies.snapshot import Snapshot, encode_snapshot
from hubbub.definitions.follower import Follower
from hubbub.definitions.versions import Versions
from hubbub.kafka.settings import Kafka
from oracles.query import parse

TABLE = {"domain": 3, "oracle": "grr", "epsilon": 1.0, "budget": 1e9, "pane": "1s", "windows": ["1s", "3s/1s"]}
TABLE |= {"crowd": 1, "emit_every": "never"}
QUERIES = parse({"queries": {"behind": TABLE, "prompt": TABLE | {"domain": 4}}}, "test", ".")
BEHIND, PROMPT = QUERIES["behind"], QUERIES["prompt"]
OWED = 100
UNTRUE = MagicMock(measures=lambda *_: False)
"""Nothing is simulated."""


class Sent:
    """An outbox that notes the finals that it is given, by query and window."""

    def __init__(self):
        self.finals = []

    async def send(self, topic, key, value, **_):
        if topic == "estimates" and value is not None:
            self.finals.append(tuple(key.decode().split("|")[i] for i in (0, 2, 5)))
        done = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done

    async def write(self, topic, partition, writes):
        return [await self.send(topic, *write) for write in writes]

    async def partitions(self, _):
        return 1


def snapshots(query, panes):
    """Closed panes of a query, and the watermark behind them."""
    for pane in panes:
        cells = np.ones(query.oracle.state_size, np.int64)
        yield PaneKey("closed", query.digest, pane, 0).encode(), encode_snapshot(Snapshot(9, 0, 0, 0, cells))
    yield PartitionKey("watermark", 0, query.name).encode(), encode(Progress(closed={query.digest: max(panes) + 1}))


def partition_of(*records):
    made = SnapshotPartition(0, 1, {query.digest: Versions.of(query) for query in QUERIES.values()})
    made.load()
    for name, value in records:
        made.put(name, value, 0)
    return made


def published(turn, monkeypatch, between=()):
    """The finals in their order, where each turn takes so many seconds, and more comes after the first."""
    monkeypatch.setattr(service, "TURN", turn)
    partition, outbox = partition_of(*snapshots(BEHIND, range(OWED)), *snapshots(PROMPT, range(3))), Sent()
    coming = list(between)

    async def run():
        where = Kafka("nowhere:1", "p.")
        merging = PublishingService(where, 1, Follower(where), outbox, Metrics(), None, UNTRUE)
        merging.reader.partitions = {0: partition}
        while any(state.has_due_finals for state in partition.queries.values()) or coming:
            for state in partition.queries.values():
                state.collect()
                await merging._publish(partition, state, at_end=True)
            while coming:
                partition.put(*coming.pop(0), 0)
        merging.estimators.close()

    asyncio.run(run())
    return outbox.finals


def test_a_query_that_owes_many_finals_does_not_hold_up_another(monkeypatch):
    finals = published(0.0, monkeypatch)
    assert len(finals) == len(set(finals)), "none twice"
    last = max(at for at, (name, *_) in enumerate(finals) if name == "prompt")
    assert last < 2 * sum(name == "prompt" for name, *_ in finals), "they take turns"


def test_turns_change_no_final_nor_their_order_within_a_query(monkeypatch):
    more = list(snapshots(BEHIND, range(OWED, OWED + 5)))
    short, long = (published(turn, monkeypatch, more) for turn in (0.0, 60.0))
    assert sorted(short) == sorted(long)
    assert len(short) == 2 * (OWED + 5) + 2 * 3
    for name in QUERIES:
        for kind in ("tumbling", "hopping"):
            ends = [int(end) for query, window, end in short if (query, window) == (name, kind)]
            assert ends == sorted(ends)


class Reading:
    """A reader that is always at the end."""

    def __init__(self, partition):
        self.partitions, self.loaded = {0: partition}, True

    async def start(self):
        pass

    async def stop(self):
        pass

    async def take(self, *_):
        await asyncio.sleep(0)

    async def has_read_all(self, _):
        return True


class Waiting(EstimatorPool):
    """A pool in which a large query waits until all other finals are published."""

    def __init__(self, outbox):
        super().__init__()
        self.outbox = outbox

    @staticmethod
    def is_large(query):
        return query == BEHIND

    async def final(self, query, *asked, **options):
        while query == BEHIND and sum(name == "prompt" for name, *_ in self.outbox.finals) < 6:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        return await super().final(query, *asked, **options)


def test_nothing_waits_for_the_finals_of_a_large_query():
    partition, outbox = partition_of(*snapshots(BEHIND, range(3)), *snapshots(PROMPT, range(3))), Sent()

    async def run():
        where = Kafka("nowhere:1", "p.")
        merging = PublishingService(where, 1, Follower(where), outbox, Metrics(), MagicMock(), UNTRUE)
        merging.reader, merging.estimators = Reading(partition), Waiting(outbox)
        running = asyncio.create_task(merging.run())
        while any(state.has_due_finals for state in partition.queries.values()):
            await asyncio.sleep(0.01)
            assert not running.done()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(run())
    assert [name for name, *_ in outbox.finals] == ["prompt"] * 6 + ["behind"] * 6


def test_what_fails_beside_ends_the_worker():
    partition, ending = partition_of(*snapshots(BEHIND, range(3))), MagicMock()
    error = RuntimeError("no")

    async def run():
        where = Kafka("nowhere:1", "p.")
        merging = PublishingService(where, 1, Follower(where), Sent(), Metrics(), ending, UNTRUE)
        merging.reader, merging.estimators = Reading(partition), Waiting(None)
        merging.estimators.final = AsyncMock(side_effect=error)
        await merging.run()

    asyncio.run(run())
    ending.fail.assert_called_once_with(error)
