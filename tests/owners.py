"""The real sources and snapshots, on topics that are dictionaries.

They write one record at a time, so that anything can happen between two writes.
"""

from random import Random

from aggregator.counting.admission.gate import Gate
from aggregator.counting.changelog import sort_records
from aggregator.counting.partition import SourcePartition
from aggregator.merging.snapshot_partition import SnapshotPartition
from aggregator.tallies.clock_book import ClockBook
from aggregator.tallies.keys import home
from aggregator.tallies.snapshot import encode_snapshot
from tests.logs import LIMIT, VERSIONS


class Topics:
    """The data that survive a process, a compacted changelog and a compacted log of snapshots for each partition."""

    def __init__(self, partitions):
        self.changelog = [{} for _ in range(partitions)]
        self.snapshots = [[] for _ in range(partitions)]
        self.book = ClockBook(partitions)
        """All clock records, which stay true for ever."""

    def write(self, partition, key, value):
        self.changelog[partition].pop(key, None)
        if value is not None:
            self.changelog[partition][key] = value

    def publish(self, target, key, value):
        self.book.note_offset(target, len(self.snapshots[target]))
        self.snapshots[target].append((key, value))

    def say(self, partition, clock):
        self.book.note(b"", self.book.record({partition: clock}))

    def compacted(self, target):
        newest = {}
        for key, value in self.snapshots[target]:
            newest.pop(key, None)
            newest[key] = value
        return [(key, value) for key, value in newest.items() if value is not None]


class Owner:
    """A process that owns one partition. It reads, and writes one record of its checkpoint at a time."""

    def __init__(self, topics, log, partition, name, definitions=VERSIONS, limit=LIMIT, **gate):
        self.topics, self.records, self.partition = topics, log[partition], partition
        self.partitions = len(log)
        gate = Gate(partition, len(log), definitions, limit=limit, **gate)
        state_before = sort_records(topics.changelog[partition].items(), definitions).get(partition)
        self.source = SourcePartition(gate, name, state_before)
        self.rejects = {}
        self.writes = iter(())

    def read(self, count):
        """Take new records, after two that it has read before."""
        start = next((i for i, r in enumerate(self.records) if r[0] >= self.source.next_offset), len(self.records))
        self.source.take(self.records[max(0, start - 2) : start + count])

    def step(self, random):
        """Make one write that is acknowledged. Return False at the end of a checkpoint."""
        for _ in self.writes:
            return True
        self.writes = self.checkpoint(random)
        return False

    def checkpoint(self, random):
        source, topics = self.source, self.topics
        plan = source.plan(whole=random.random() < 0.7, refresh=random.random() < 0.3)
        for phase in plan.phases(source.progress):
            for write in phase.changelog:
                yield topics.write(self.partition, *write)
            for key, value in phase.snapshots:
                yield topics.publish(home(key.digest, self.partitions), key.encode(), value)
            for reject in phase.rejects:
                self.rejects[reject.offset] = reject.reason
            if phase.clock is not None:
                yield topics.say(self.partition, phase.clock)
        for write in source.settle(plan):
            yield topics.write(self.partition, *write)


def settle(owner):
    """Let an owner write everything that it has read."""
    random = Random(1)
    while owner.step(random) or owner.source.is_due(whole=True, refresh=False):
        pass


class Merge:
    """A process that merges the queries of one partition of the snapshots."""

    def __init__(self, topics, target, partitions, definitions=VERSIONS, store=None):
        self.topics, self.target = topics, target
        self.snapshots = SnapshotPartition(target, partitions, definitions, store=store)
        for key, value in topics.compacted(target):
            self.snapshots.put(key, value)
        self.snapshots.put_clocks(topics.book.view)
        self.snapshots.load()
        self.at = len(topics.snapshots[target])

    def step(self, random, finals, *, to_the_end=True):
        new_snapshot = self.topics.snapshots[self.target][self.at :]
        self.at += len(new_snapshot)
        last_positions = {key: at for at, (key, _) in enumerate(new_snapshot)}
        for at, (key, value) in enumerate(new_snapshot):
            if at < last_positions[key] and random.random() < 0.5:
                continue  # compaction was here first
            self.snapshots.put(key, value)
        self.snapshots.put_clocks(self.topics.book.view)
        for state in self.snapshots.queries.values() if not self.snapshots.must_reload else ():
            batch = {}
            state.collect()
            for key, value in state.totals():
                self.topics.publish(self.target, key, value)
                if not to_the_end and random.random() < 0.02:
                    return False
            for final in state.due_finals():
                span = final.span
                finals[state.versions.query.name, span.window, span.end].add(encode_snapshot(final.total))
                batch[span.window] = final.position
                if not to_the_end and random.random() < 0.2:
                    break  # others have their turn
            if not to_the_end and random.random() < 0.3:
                return False  # dies before its states are written
            for window, position in batch.items():
                for write in state.state_writes(window, position):
                    self.topics.publish(self.target, *write)
            for window, position in batch.items():
                for name in state.acknowledge(window, position):
                    self.topics.publish(self.target, name, None)
            for name in state.replaced_keys():
                self.topics.publish(self.target, name, None)
                if not to_the_end and random.random() < 0.02:
                    return False
        return not self.snapshots.must_reload
