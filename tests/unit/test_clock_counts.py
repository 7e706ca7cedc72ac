"""The records of a pane without reports. Neither their number nor their size grows with the number of queries."""

import asyncio
from itertools import count
from types import SimpleNamespace

import pytest

from aggregator.counting.admission.gate import Gate
from aggregator.counting.checkpoint import Checkpoints
from aggregator.counting.checkpoint_plan import WriteBudget
from aggregator.counting.clock_log import ClockLog
from aggregator.counting.partition import SourcePartition
from aggregator.process.metrics import Metrics
from aggregator.tallies.clock_book import ClockBook
from aggregator.tallies.progress import TopicIds
from hubbub.definitions.versions import Versions
from hubbub.kafka.settings import Kafka
from oracles.frame import TICK
from tests.queries import make_query

START = 1_700_000_000
PANE = 10
IDS = TopicIds(b"r" * 16, b"s" * 16)
QUERY = make_query(domain=3, pane=f"{PANE}s", lateness="5s", skew="5s")


class Outbox:
    """All records of a worker, by topic. Each is acknowledged at once."""

    def __init__(self):
        self.records = []
        self._offsets = count()

    async def send(self, topic, key, value, partition):
        self.records.append((topic, key, value))
        ack = asyncio.get_running_loop().create_future()
        ack.set_result(SimpleNamespace(offset=next(self._offsets)))
        return ack

    async def write(self, topic, partition, writes, **_):
        return [await self.send(topic, *write, partition) for write in writes]


def worker_of(partitions, own, queries):
    """Return the checkpoints of a worker with its own partitions, and its outbox."""
    versions = Versions.of(QUERY)
    definitions = {number.to_bytes(8, "little"): versions for number in range(queries)}
    sources = {number: SourcePartition(Gate(number, partitions, definitions), "0123456789abcdef") for number in own}
    outbox = Outbox()
    counting = SimpleNamespace(
        current=True, generation=1, topic="reports", sources=sources, events={}, partitions=partitions
    )
    counting.write = lambda source, writes: outbox.write("changelog", source.partition, writes)
    book = ClockBook(partitions)
    clocks = ClockLog(Kafka("nowhere:1", "p."), outbox, book)
    clocks.assign(IDS)
    clocks._has_read = True
    # Each home that has a query has had snapshots, so each record names its offset.
    for digest in definitions:
        book.note_offset(int.from_bytes(digest, "little") * 2_654_435_761 % partitions, 1 << 40)
    for source in sources.values():
        source.topic_ids = IDS
    return Checkpoints(counting, outbox, Metrics(), None, WriteBudget(10**9), clocks), outbox


def records_of_a_pane(partitions, own, queries):
    """Return the records of a worker while one pane closes without a report. Its progress is refreshed once."""
    checkpoints, outbox = worker_of(partitions, own, queries)
    offset = count()

    async def tick(second, **whole):
        for source in checkpoints.counting.sources.values():
            source.take([(next(offset), 1000 * (START + second) + 1, TICK)])
        await checkpoints._once(**whole)

    async def run():
        await tick(0, whole=True)
        await tick(PANE, whole=True)
        outbox.records.clear()
        for second in range(PANE + 1, 2 * PANE + 1):
            checkpoints._refresh_at = -1e9 if second == 2 * PANE - 1 else 1e9
            await tick(second, whole=second % 2 == 1)

    asyncio.run(run())
    return outbox.records


@pytest.mark.parametrize("queries", [30, 3_000])
def test_a_pane_without_reports_is_one_clock_record_a_worker(queries):
    workers = 100
    own = range(10)
    records = records_of_a_pane(1_000, own, queries)
    clocks = [record for record in records if record[0] == "clocks"]
    assert len(clocks) * workers <= 200, "a record and the deletion of the former one"
    assert sum(value is not None for *_, value in clocks) == 1
    progress = [value for topic, _, value in records if topic == "changelog" and value is not None]
    assert [len(value) for value in progress] == [57] * len(own)
    assert not [record for record in records if record[0] == "snapshots"]
    size = sum(len(key) + len(value or b"") for _, key, value in records)
    assert size * workers <= 1_200_000


def test_a_partition_looks_at_one_query_for_each_law_of_closing(monkeypatch):
    """256 partitions with 3,000 queries would look at 768,000 definitions for each pane."""
    looks = []
    closed_through = Versions.closed_through

    def look(self, clock):
        looks.append(clock)
        return closed_through(self, clock)

    counts = []
    for queries in (30, 3_000):
        monkeypatch.setattr(Versions, "closed_through", look)
        looks.clear()
        records_of_a_pane(256, range(4), queries)
        counts.append(len(looks))
    assert counts[0] == counts[1]
