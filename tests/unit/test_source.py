"""Sources and shelves as they are, with crashes between any two writes and writers that wake up too late."""

from collections import defaultdict
from random import Random
from unittest.mock import patch

import pytest

from aggregator.counting.admission import Gate
from aggregator.counting.clock import Progress, decode, encode
from aggregator.counting.partition import Source, saved
from aggregator.counting.tally import FLAGS, INCOMPLETE, decode_snapshot, encode_snapshot
from aggregator.merging import windows
from aggregator.merging.snapshots import Shelf
from aggregator.topics.keys import PartitionKey, home
from oracles.frame import TICK
from tests.fold import fold
from tests.logs import BY_DIGEST, LIMIT, QUERIES, RETIRED, START, random_log


class Topics:
    """What survives: per partition a changelog and a log of snapshots, both compacted."""

    def __init__(self, partitions):
        self.changelog = [{} for _ in range(partitions)]
        self.snapshots = [[] for _ in range(partitions)]

    def write(self, partition, key, value):
        self.changelog[partition].pop(key, None)
        if value is not None:
            self.changelog[partition][key] = value

    def publish(self, target, key, value):
        self.snapshots[target].append((key, value))

    def compacted(self, target):
        newest = {}
        for key, value in self.snapshots[target]:
            newest.pop(key, None)
            newest[key] = value
        return [(key, value) for key, value in newest.items() if value is not None]


class Owner:
    """A process that owns one partition: it reads, and writes one record of its checkpoint at a time."""

    def __init__(self, topics, log, partition, name, **gate):
        self.topics, self.records, self.partition = topics, log[partition], partition
        self.partitions = len(log)
        gate = Gate(partition, len(log), BY_DIGEST, RETIRED, limit=LIMIT, **gate)
        before = saved(topics.changelog[partition].items(), BY_DIGEST).get(partition)
        self.source = Source(gate, name, before)
        self.rejects = {}
        self.writes = iter(())

    def read(self, count):
        """Some of what it has read before comes again."""
        start = next((i for i, r in enumerate(self.records) if r[0] >= self.source.next_offset), len(self.records))
        self.source.take(self.records[max(0, start - 2) : start + count])

    def step(self, random):
        """One acknowledged write; False where a checkpoint has ended."""
        for _ in self.writes:
            return True
        self.writes = self.checkpoint(random)
        return False

    def checkpoint(self, random):
        source, topics = self.source, self.topics
        draft = source.draft(whole=random.random() < 0.7, refresh=random.random() < 0.3)
        for phase in (draft.ids, draft.tallies):
            for write in phase:
                yield topics.write(self.partition, *write)
        for key, value in draft.closed:
            yield topics.publish(home(key.digest, self.partitions), key.encode(), value)
        for reject in draft.rejects:
            self.rejects[reject.offset] = reject.refused.reason
        yield topics.write(self.partition, *source.progress(draft))
        for target in range(self.partitions):
            closed = {d: end for d, end in draft.progress.closed.items() if home(d, self.partitions) == target}
            watermark = PartitionKey("watermark", self.partition, source.writer).encode()
            yield topics.publish(target, watermark, encode(Progress(closed=closed)))
        source.watermark_due = False
        for writer in source.former:
            for target in range(self.partitions):
                yield topics.publish(target, PartitionKey("watermark", self.partition, writer).encode(), None)
        source.former = []
        for write in source.settled(draft):
            yield topics.write(self.partition, *write)
        if random.random() < 0.3:
            for key, _, value in source.open_snapshots({}):
                yield topics.publish(home(key.digest, self.partitions), key.encode(), value)


def settle(owner):
    """All that was read is written."""
    random = Random(1)
    while owner.step(random) or owner.source.behind or owner.source.watermark_due:
        pass


class Merge:
    """Who merges the queries at home on one partition of the snapshots."""

    def __init__(self, topics, target, partitions):
        self.topics, self.target = topics, target
        self.shelf = Shelf(target, partitions, BY_DIGEST)
        for key, value in topics.compacted(target):
            self.shelf.put(key, value, 0)
        self.shelf.load()
        self.at = len(topics.snapshots[target])

    def step(self, random, finals, *, to_the_end=True):
        new = self.topics.snapshots[self.target][self.at :]
        self.at += len(new)
        for key, value in new:
            self.shelf.put(key, value, 0)
        for place in self.shelf.places.values() if not self.shelf.overtaken else ():
            batch = {}
            for final in place.merger.finals():
                span = final.span
                finals[place.query.name, span.window, span.end].add(encode_snapshot(final.total))
                batch[span.window] = final.position
            if not to_the_end and random.random() < 0.3:
                return False  # dies before its states are written
            for window, position in batch.items():
                self.topics.publish(self.target, *place.state(window, position))
            for window, position in batch.items():
                for name in place.settled(window, position):
                    self.topics.publish(self.target, name, None)
        return not self.shelf.overtaken


@patch.object(windows, "IDLE", 3)
def check(seed, *, embedded=False):
    random = Random(seed)
    partitions = random.randint(1, 3)
    log = random_log(random, partitions, random.randint(0, 70), embedded=embedded)
    topics, finals = Topics(partitions), defaultdict(set)
    owners = [Owner(topics, log, p, "first", embedded=embedded) for p in range(partitions)]
    merges = [Merge(topics, target, partitions) for target in range(partitions)]
    sleeping = []
    for number in range(random.choice([30, 150, 400])):
        at = random.randrange(partitions)
        match random.choice(["read", "read", "write", "write", "write", "crash", "wake", "merge"]):
            case "read":
                owners[at].read(random.randint(1, 9))
            case "write":
                owners[at].step(random)
            case "crash":
                if random.random() < 0.3:
                    sleeping.append(owners[at])
                    owners[at] = Owner(topics, log, at, f"{number}", embedded=embedded)
            case "wake":  # it believes that nothing has happened
                if sleeping:
                    late = random.choice(sleeping)
                    late.read(random.randint(0, 5))
                    for _ in range(random.randint(1, 9)):
                        late.step(random)
            case "merge":
                if not merges[at].step(random, finals, to_the_end=False):
                    merges[at] = Merge(topics, at, partitions)
    for owner in owners:
        owner.read(1000)
        settle(owner)
    for _ in range(2):
        for target in range(partitions):
            if not merges[target].step(random, finals):
                merges[target] = Merge(topics, target, partitions)
                merges[target].step(random, finals)
    truth = fold(log, QUERIES.values(), retired=RETIRED, limit=LIMIT, embedded=embedded)
    assert finals.keys() == truth.keys()
    for key, versions in finals.items():
        assert versions == {encode_snapshot(truth[key])}, key


@pytest.mark.parametrize("seed", range(120))
def test_whoever_writes_and_dies_the_finals_are_those_of_a_plain_fold(seed):
    check(seed, embedded=seed % 4 == 3)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1_000, 6_000))
def test_whoever_writes_and_dies_on_thousands_of_logs(seed):
    check(seed, embedded=seed % 4 == 3)


def test_what_is_closed_leaves_nothing_in_the_changelog_but_progress():
    log = random_log(Random(5), 1, 60)
    topics = Topics(1)
    owner = Owner(topics, log, 0, "first")
    owner.read(1000)
    settle(owner)
    owner.read(0)
    for _ in range(20):
        owner.step(Random(2))
    assert [key.partition(b"|")[0] for key in topics.changelog[0]] == [b"progress"]


def test_every_refused_record_is_set_aside_once_where_nothing_fails():
    log = random_log(Random(6), 1, 60)
    owner = Owner(Topics(1), log, 0, "first")
    owner.read(1000)
    settle(owner)
    gate = Gate(0, 1, BY_DIGEST, RETIRED, limit=LIMIT)
    assert {offset for offset, _ in gate.sift(log[0], None).refused} <= owner.rejects.keys()
    assert owner.source.rejects == []


def test_lost_records_flag_every_pane_that_may_have_held_them():
    query = QUERIES["web"]
    topics = Topics(1)
    log = [[(0, START * 1000, TICK), (50, (START + 30) * 1000, TICK), (51, (START + 500) * 1000, TICK)]]
    owner = Owner(topics, log, 0, "first")
    owner.source.take(log[0][:1])
    owner.source.lost(50)
    owner.source.take(log[0][1:2])
    for _ in range(40):  # a restart must not forget it
        owner.step(Random(3))
    owner = Owner(topics, log, 0, "second")
    owner.read(10)
    settle(owner)
    flagged = {}
    for key, value in topics.snapshots[0]:
        kind, digest, *rest = key.decode().split("|")
        if kind == "closed" and digest == query.digest.hex():
            flagged[int(rest[0])] = decode_snapshot(value, query.oracle.state_size).flags
    assert set(range(START, START + 51, 10)) <= flagged.keys()
    assert set(flagged.values()) == {INCOMPLETE}
    assert INCOMPLETE in FLAGS.values()


def test_watermarks_and_progress_never_fall_back_for_a_reader():
    log = random_log(Random(8), 2, 40)
    topics = Topics(2)
    for p in range(2):
        owner = Owner(topics, log, p, "a")
        owner.read(1000)
        settle(owner)
    for target in range(2):
        shelf = Merge(topics, target, 2).shelf
        before = {digest: place.merger.through for digest, place in shelf.places.items()}
        old = encode(Progress(closed=dict.fromkeys(before, START)))
        shelf.put(PartitionKey("watermark", 0).encode(), old, 0)
        assert decode(old).closed
        assert {digest: place.merger.through for digest, place in shelf.places.items()} == before
