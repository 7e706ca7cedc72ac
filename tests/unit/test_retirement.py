"""Retired definitions. A worker forgets all but the digest and the first retired pane."""

import asyncio
import gc
import weakref
from collections import defaultdict
from random import Random
from unittest.mock import MagicMock

from aggregator.counting.admission.gate import Gate, Reason, Refusal
from aggregator.process.metrics import Metrics
from aggregator.publishing.service import PublishingService
from aggregator.tallies.clock_book import ClockBook
from aggregator.tallies.keys import home
from aggregator.tallies.progress import encode
from aggregator.worker.worker import finished_definitions
from hubbub.command.exit import Ending
from hubbub.definitions.catalog import Definitions, TopicRecord, changes
from hubbub.definitions.follower import Follower
from hubbub.kafka.settings import Kafka
from oracles.frame import MAX_FRAME, TICK
from oracles.frame import encode as encode_frame
from oracles.query import File
from tests.owners import Merge, Owner, Topics, settle
from tests.queries import make_query

START, HOUR = 1_700_000_000, 3600
PARTITIONS = 2

UNTRUE = MagicMock(measures=lambda *_: False)
"""Nothing is simulated."""


def page(number, name="page"):
    values = [f"value {i} of {number}" for i in range(50)]
    return make_query(domain=values, oracle="grr", budget=1e9, windows=["20s", "60s/20s", "all"], name=name)


def take(follower, records):
    """Let a follower read records and apply them."""
    for record in records:
        follower._log.take(record)
    follower._apply()


class World:
    """A worker that owns all partitions, its follower, and the log, all on dictionaries."""

    def __init__(self):
        self.follower = Follower(Kafka("nowhere:1", "p."))
        self.follower.on_change.append(self.define)
        self.topics, self.log = Topics(PARTITIONS), [[] for _ in range(PARTITIONS)]
        self.finals, self.owners, self.merges, self.written = defaultdict(set), [], [], []

    def start(self):
        versions = self.follower.definitions.versions
        self.owners = [
            Owner(self.topics, self.log, p, f"w{len(self.written)}", versions, MAX_FRAME) for p in range(PARTITIONS)
        ]
        self.merges = [Merge(self.topics, p, PARTITIONS, versions) for p in range(PARTITIONS)]

    def define(self, catalog):
        for owner in self.owners:
            owner.source.gate = Gate(owner.partition, PARTITIONS, catalog.versions, over=catalog.forgotten)
        for merge in self.merges:
            merge.snapshots.define(catalog.versions)

    def append_definitions(self, queries, second, retire=()):
        update = changes(File(queries), self.follower.definitions, retire, f"{second:016x}")
        records = [TopicRecord(*write, second * 1000) for write in update.writes]
        self.written += records
        take(self.follower, records)

    def report(self, query, second):
        frame = encode_frame(query.digest, second // 10 * 10, query.oracle.perturb([1, 2]))
        for partition in range(PARTITIONS):
            self.append(partition, second, frame)

    def append(self, partition, second, data=TICK):
        self.log[partition].append((len(self.log[partition]), second * 1000, data))

    def go_on(self, forget=True):
        for owner in self.owners:
            owner.read(1000)
            settle(owner)
        for merge in self.merges:
            merge.step(Random(1), self.finals)
            for state in merge.snapshots.queries.values():
                state.note_published()
                for name in state.retired_keys():
                    self.topics.publish(merge.target, name, None)
        names = finished_definitions(
            self.follower.definitions, [o.source for o in self.owners], [m.snapshots for m in self.merges]
        )
        if forget:
            self.follower.forget(names)
        return names


def lives(hours):
    """Return the result of hours in which each definition lasts an hour. It must not depend on forgetting."""
    world, domains = World(), []
    for hour in range(hours):
        query = page(hour)
        # A weak reference tells whether anything still holds the domain, which can have megabytes.
        domains.append(weakref.ref(query))
        second = START + hour * HOUR
        world.append_definitions({"page": query}, second)
        if not world.owners:
            world.start()
        for partition in range(PARTITIONS):
            world.append(partition, second + 100)
        world.report(query, second + 1000)
        for partition in range(PARTITIONS):
            world.append(partition, second + 2000)
        world.go_on()
        # The loop's own name would hold the last domain.
        del query
    return world, domains


def test_two_days_of_retirements_leave_nothing_in_any_record():
    hours = 48
    world, domains = lives(hours)
    # Cycles would keep domains alive until the collector comes by itself.
    gc.collect()
    catalog = world.follower.definitions
    assert len(catalog.versions) <= 2
    assert len(catalog.forgotten) == hours - len(catalog.versions)
    assert len(world.follower._log._contents) <= 2
    assert sum(len(merge.snapshots.queries) for merge in world.merges) <= 2
    assert sum(len(owner.source.tallies) for owner in world.owners) == 0
    assert sum(domain() is not None for domain in domains) <= 3, "nobody holds the domains of the others"
    for owner in world.owners:
        assert len(encode(owner.source.acknowledged)) == 57
        assert not owner.source.acknowledged.closed
    kinds = [[key.partition(b"|")[0] for key, _ in world.topics.compacted(target)] for target in range(PARTITIONS)]
    assert sum(kind.count(b"closed") for kind in kinds) <= 2 * PARTITIONS, "only of the newest"
    ends = {(name, window.kind) for name, window, _ in world.finals}
    assert ends == {("page", "tumbling"), ("page", "hopping"), ("page", "all")}
    assert len(world.finals) >= hours * 2


def test_reports_of_a_forgotten_definition_stay_refused_as_stale_after_a_restart():
    world, _ = lives(5)
    forgotten_digest = next(iter(world.follower.definitions.forgotten))
    frame = encode_frame(forgotten_digest, START, page(0).oracle.perturb([1]))
    outcome, _ = world.owners[0].source.gate.admit(frame, START * 1000, START * 1000)
    assert isinstance(outcome, Refusal)
    assert outcome.reason == Reason.STALE_DIGEST, "by the name that it had"
    assert outcome.query == "page", "by the name that it had"
    finals = {key: set(value) for key, value in world.finals.items()}
    world.follower = Follower(Kafka("nowhere:1", "p."))
    take(world.follower, world.written)
    assert len(world.follower.definitions.versions) == 5
    world.start()
    world.follower.on_change.append(world.define)
    world.go_on()
    assert len(world.follower.definitions.versions) <= 2
    assert world.finals == finals, "nothing is said again that was said, and nothing else"


def test_no_definition_is_forgotten_before_all_partitions_and_windows_end():
    world = World()
    world.append_definitions({"page": page(1)}, START)
    world.start()
    world.report(page(1), START + 100)
    world.go_on()
    world.append_definitions({"site": page(2, "site")}, START + 200, retire=["page"])
    world.append(0, START + 2000)
    assert not world.go_on(), "partition 1 is behind"
    # Only the slowest partition decides when a definition is over.
    world.append(1, START + 2000)
    sources = [owner.source for owner in world.owners]
    for owner in world.owners:
        owner.read(10)
        settle(owner)
    assert not finished_definitions(world.follower.definitions, sources, [merge.snapshots for merge in world.merges]), (
        "no final is out yet"
    )
    assert set(world.go_on()) == {page(1).digest}


def test_windows_with_the_last_reports_are_published_even_if_they_end_later():
    """They were once forgotten with the last pane, so the last reports of a window of an hour were never published."""
    world = World()
    world.append_definitions({"page": page(1)}, START)
    world.start()
    world.append_definitions({"site": page(2, "site")}, START + 100, retire=["page"])
    retired = world.follower.definitions.versions[page(1).digest].retired
    for second in range(START, retired, 10):
        world.report(page(1), second)
    for second in range(retired, retired + 200, 10):  # what was read is told pane by pane
        for partition in range(PARTITIONS):
            world.append(partition, second)
        world.go_on()
    assert page(1).digest in world.follower.definitions.forgotten
    ends = defaultdict(list)
    for _, window, end in world.finals:
        ends[window.kind].append(end)
    last_pane = retired - 10
    assert max(ends["tumbling"]) == last_pane // 20 * 20 + 20
    assert max(ends["hopping"]) == last_pane // 20 * 20 + 60
    assert max(ends["all"]) == retired, "the same total for ever is not said again"


def test_a_definition_that_replaced_another_is_forgotten_after_it():
    """Without the record of the newer definition the older one would not be retired."""
    world = World()
    world.append_definitions({"page": page(1)}, START)
    world.append_definitions({"page": page(2)}, START + 100)
    world.append_definitions({"site": page(3, "site")}, START + 200, retire=["page"])

    class Half:
        def is_over(self, digest, _):
            return digest == page(2).digest

    assert finished_definitions(world.follower.definitions, [Half()], []) == {}
    Half.is_over = lambda *_: True
    assert set(finished_definitions(world.follower.definitions, [Half()], [])) == {page(1).digest, page(2).digest}


def test_a_definition_that_returned_stays_when_its_replacement_is_forgotten():
    """Its versions follow from records of the other definition too. Without those it would not be retired."""
    world = World()
    world.append_definitions({"page": page(1)}, START)
    world.append_definitions({"page": page(2)}, START + 100)
    world.append_definitions({"page": page(1)}, START + 200)
    world.append_definitions({"page": page(3), "site": page(4, "site")}, START + 300)
    earlier_versions = dict(world.follower.definitions.versions)
    assert [version.retired for version in earlier_versions[page(1).digest].versions] == [False, True, False, True]
    world.follower.forget({page(2).digest: "page"})
    assert world.follower.definitions.versions == {d: v for d, v in earlier_versions.items() if d != page(2).digest}
    world.follower.forget({page(1).digest: "page"})
    world.append_definitions({"page": page(3), "site": page(5, "site")}, START + 400)
    versions = world.follower.definitions.versions
    assert versions[page(3).digest] == earlier_versions[page(3).digest]
    assert versions[page(4, "site").digest].retired == versions[page(5, "site").digest].first > START + 400


def test_first_definitions_that_are_forgotten_are_not_followed_by_others():
    world = World()
    world.append_definitions({"page": page(1)}, START)
    world.append_definitions({"site": page(2, "site")}, START + 100, retire=["page"])
    first_before = world.follower.definitions.versions[page(2, "site").digest].first
    world.follower.forget({page(1).digest: "page"})
    assert world.follower.definitions.versions[page(2, "site").digest].first == first_before > 0
    world.follower.forget({page(2, "site").digest: "site"})
    world.append_definitions({"third": page(3, "third")}, START + 300)
    assert world.follower.definitions.versions[page(3, "third").digest].first > START


def test_definitions_without_any_are_nothing():
    assert finished_definitions(Definitions(), [], []) == {}


class Sent:
    """An outbox that notes its writes."""

    def __init__(self):
        self.records = []

    async def send(self, topic, key, value, **_):
        self.records.append((topic, key, value))
        future = asyncio.get_running_loop().create_future()
        future.set_result(None)
        return future

    async def write(self, topic, partition, writes):
        return [await self.send(topic, *write, partition=partition) for write in writes]

    async def append(self, topic, partition, records, **_):
        return [await self.send(topic, record.key, record.value) for record in records]

    async def append_by_key(self, topic, records):
        return await self.append(topic, 0, records)

    async def partitions(self, _):
        return PARTITIONS


def test_the_publisher_deletes_the_snapshots_of_a_retired_definition_and_forgets_it():
    world = World()
    world.append_definitions({"page": page(1)}, START)
    world.start()
    world.report(page(1), START + 100)
    world.append_definitions({"site": page(2, "site")}, START + 200, retire=["page"])
    for partition in range(PARTITIONS):
        world.append(partition, START + 2000)
    for owner in world.owners:
        owner.read(10)
        settle(owner)
    digest, outbox = page(1).digest, Sent()

    async def run():
        merging = PublishingService(
            Kafka("nowhere:1", "p."),
            PARTITIONS,
            world.follower,
            outbox,
            Metrics(),
            Ending(),
            UNTRUE,
            ClockBook(PARTITIONS),
            None,
        )
        partitions = {
            p: Merge(world.topics, p, PARTITIONS, world.follower.definitions.versions).snapshots for p in (0, 1)
        }
        merging.reader.partitions = partitions
        for merge, snapshots in zip(world.merges, partitions.values(), strict=True):
            merge.snapshots = snapshots
        snapshots = partitions[home(digest, PARTITIONS)]
        assert snapshots.queries[digest].stored_panes
        snapshots.queries[digest].collect()
        while snapshots.queries[digest].stored_panes:  # a round may be over before all is made
            await merging.round([snapshots.queries[digest]])
            await asyncio.sleep(0.01)
        merging.deletions.flush()
        await asyncio.sleep(0)
        merging.estimators.close()
        assert not snapshots.queries[digest].stored_panes
        names = finished_definitions(world.follower.definitions, [o.source for o in world.owners], partitions.values())
        assert set(names) == {digest}
        world.follower.forget(names)
        assert digest not in snapshots.queries

    asyncio.run(run())
    deletions = {key for topic, key, value in outbox.records if topic == "snapshots" and value is None}
    closed = {key for key, _ in world.topics.compacted(home(digest, PARTITIONS)) if key.startswith(b"closed")}
    assert closed == {key for key in deletions if key.startswith(b"closed")}
    assert {key.split(b"|")[0] for topic, key, _ in outbox.records if topic == "estimates"} == {b"page"}
