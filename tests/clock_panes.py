"""A worker in a pane without reports, without a broker: what it writes, and the work of counting and merging."""

import asyncio
from itertools import count
from types import SimpleNamespace

from aggregator.counting.admission.gate import Gate
from aggregator.counting.checkpoint import Checkpoints
from aggregator.counting.checkpoint_plan import WriteBudget
from aggregator.counting.clock_log import ClockLog
from aggregator.counting.partition import SourcePartition
from aggregator.merging.snapshot_partition import SnapshotPartition
from aggregator.process.metrics import Metrics
from aggregator.tallies.clock_book import ClockBook
from aggregator.tallies.keys import home
from aggregator.tallies.progress import TopicIds
from hubbub.definitions.versions import Versions
from hubbub.kafka.settings import Kafka
from oracles.frame import TICK
from tests.queries import make_query

START = 1_700_000_000
PANE = 10
IDS = TopicIds(b"r" * 16, b"s" * 16)
QUERY = make_query(domain=3, pane=f"{PANE}s", lateness="5s", skew="5s")
SPREADING = 2_654_435_761
"""A factor that spreads numbers of queries over the homes, as digests do."""


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


def definitions_of(queries):
    """Return the definitions of equal queries by their digests."""
    versions = Versions.of(QUERY)
    return {(number * SPREADING).to_bytes(8, "little"): versions for number in range(queries)}


class QuietWorker:
    """The checkpoints of a worker with its own partitions, which only ticks reach."""

    def __init__(self, partitions, own, queries):
        definitions = definitions_of(queries)
        sources = {number: SourcePartition(Gate(number, partitions, definitions), "0123456789abcdef") for number in own}
        self.outbox = Outbox()
        counting = SimpleNamespace(
            current=True, generation=1, topic="reports", sources=sources, events={}, partitions=partitions
        )
        counting.write = lambda source, writes: self.outbox.write("changelog", source.partition, writes)
        self.book = ClockBook(partitions)
        clocks = ClockLog(Kafka("nowhere:1", "p."), self.outbox, self.book)
        clocks.assign(IDS)
        clocks._has_read = True
        # Each home that has a query has had snapshots, so each record names its offset.
        for digest in definitions:
            self.book.note_offset(home(digest, partitions), 1 << 40)
        for source in sources.values():
            source.topic_ids = IDS
        self.checkpoints = Checkpoints(counting, self.outbox, Metrics(), None, WriteBudget(10**9), clocks)
        self._offset = count()

    async def tick(self, second, **whole):
        """Take a tick on each partition, and write a checkpoint."""
        for source in self.checkpoints.counting.sources.values():
            source.take([(next(self._offset), 1000 * (START + second) + 1, TICK)])
        await self.checkpoints._once(**whole)

    async def begin(self):
        """Close a first pane, so that the next one has nothing new."""
        await self.tick(0, whole=True)
        await self.tick(PANE, whole=True)
        self.outbox.records.clear()

    async def pane(self):
        """Close a pane. The progress is refreshed once."""
        for second in range(PANE + 1, 2 * PANE + 1):
            self.checkpoints._refresh_at = -1e9 if second == 2 * PANE - 1 else 1e9
            await self.tick(second, whole=second % 2 == 1)


def worker_of(partitions, own, queries):
    """Return a worker after its first pane."""
    worker = QuietWorker(partitions, own, queries)
    asyncio.run(worker.begin())
    return worker


def records_of_a_pane(partitions, own, queries):
    """Return the records of a worker while one pane closes without a report: topic, key and value."""
    worker = worker_of(partitions, own, queries)
    asyncio.run(worker.pane())
    return worker.outbox.records


class QuietMerger:
    """The homes of a worker, which reads the clock records of all workers."""

    def __init__(self, partitions, own, queries):
        definitions = definitions_of(queries)
        self.book = ClockBook(partitions)
        self.book.topic_ids = IDS
        self.homes = [SnapshotPartition(number, partitions, definitions) for number in own]
        for snapshots in self.homes:
            snapshots.load()

    def read(self, records):
        """Take clock records, close the panes that they close, and look for due finals of each query."""
        finals = 0
        for name, value in records:
            self.book.put(name, value)
        view = self.book.view
        for snapshots in self.homes:
            if snapshots.may_close(view):
                snapshots.put_clocks(view)
                for state in snapshots.queries.values():
                    finals += len(list(state.finals()))
                    state.note_published()
        return finals
