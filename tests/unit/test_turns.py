"""Queries that owe finals take turns, and what has come is read between them."""

import asyncio
from unittest.mock import MagicMock

import numpy as np

from aggregator.counting.clock import Progress, encode
from aggregator.counting.tally import Snapshot, encode_snapshot
from aggregator.merging.snapshots import Shelf
from aggregator.process.metrics import Metrics
from aggregator.publishing import publisher
from aggregator.publishing.publisher import Merging
from aggregator.topics.keys import PaneKey, PartitionKey
from hubbub.definitions.follower import Follower
from hubbub.definitions.versions import Versions
from hubbub.kafka import Kafka
from oracles.query import parse

TABLE = {"domain": 3, "oracle": "grr", "epsilon": 1.0, "budget": 1e9, "pane": "1s", "windows": ["1s", "3s/1s"]}
TABLE |= {"crowd": 1, "emit_every": "never"}
QUERIES = parse({"queries": {"behind": TABLE, "prompt": TABLE | {"domain": 4}}}, "test", ".")
BEHIND, PROMPT = QUERIES["behind"], QUERIES["prompt"]
OWED = 100


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

    async def partitions(self, _):
        return 1


def snapshots(query, panes):
    """Closed panes of a query, and the watermark behind them."""
    for pane in panes:
        cells = np.ones(query.oracle.state_size, np.int64)
        yield PaneKey("closed", query.digest, pane, 0).encode(), encode_snapshot(Snapshot(9, 0, 0, 0, cells))
    yield PartitionKey("watermark", 0, query.name).encode(), encode(Progress(closed={query.digest: max(panes) + 1}))


def shelf_of(*records):
    made = Shelf(0, 1, {query.digest: Versions.of(query) for query in QUERIES.values()})
    made.load()
    for name, value in records:
        made.put(name, value, 0)
    return made


def published(turn, monkeypatch, between=()):
    """The finals in their order, where each turn takes so many seconds, and more comes after the first."""
    monkeypatch.setattr(publisher, "TURN", turn)
    shelf, outbox = shelf_of(*snapshots(BEHIND, range(OWED)), *snapshots(PROMPT, range(3))), Sent()
    coming = list(between)

    async def run():
        where = Kafka("nowhere:1", "p.")
        merging = Merging(where, 1, Follower(where), outbox, Metrics(), None, MagicMock())
        merging.reader.shelves = {0: shelf}
        while any(slot.owes for slot in shelf.slots.values()) or coming:
            for slot in shelf.slots.values():
                slot.collect()
                await merging._publish(shelf, slot, last=True)
            while coming:
                shelf.put(*coming.pop(0), 0)

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
