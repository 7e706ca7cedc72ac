"""The faults of a world, as its plan has them. Some wait for a certain write, and strike a few steps after it."""

from collections import Counter

from aiokafka import TopicPartition

from aggregator.counting.changelog import sort_records
from hubbub.kafka.settings import CHANGELOG, CLOCKS, QUERIES, REPORTS, SNAPSHOTS
from tests.worlds import strange

YOUNG = 25.0
"""Seconds for which retention keeps reports. No worker writes an older tally after it wakes."""


def kind_of(tp, key, value):
    """Return the kind of a write, for aimed faults."""
    topic = tp.topic.removeprefix("w.")
    name = (key or b"").split(b"|")[0].decode("latin-1") if topic in (CHANGELOG, SNAPSHOTS, CLOCKS) else ""
    return f"{topic} {name} {'deletion' if value is None else 'write'}"


def phase(target, *, is_acked):
    """Return the phase of a process from such a write to its next one."""
    return f"{target}, {'acknowledged' if is_acked else 'sent'}"


def first_needed(world, partition):
    """Return the first offset that a recovery of a partition may read, by all records of the changelog."""
    part = world.log.at(TopicPartition(world.kafka.topic(CHANGELOG), partition))
    newest_values = {record.key: record.value for record in part.records}
    records = {key: value for key, value in newest_values.items() if value is not None}
    recovered = sort_records(records.items(), {}).get(partition)
    if recovered is None:
        return 0
    progress = [content.next_offset for content in recovered.progress.values()]
    return min([*progress, *(tally.next_offset for tally in recovered.tallies.values())], default=0)


class Faults:
    """The schedule of one world."""

    def __init__(self, world):
        self._world = world
        self.count = 0
        self.meetings = Counter()
        """How often a fault met a process in each phase."""
        self._aims = []
        """The aimed faults that wait for their write."""

    def begin(self):
        for fault in self._world.plan.faults:
            self._world.later(fault.at, self._strike, fault)
        self._keep_alive()

    def end(self):
        """End all faults, and start as many workers as the world began with."""
        world = self._world
        self._aims.clear()
        for process in world.workers():
            process.frozen_until = process.offline_until = 0.0
            process.slowness = 0.0
            process.countdown = None
        for partitions in world.log.partitions.values():
            for part in partitions:
                part.blocked_until = part.hidden_until = 0.0
        while len(world.workers()) < world.mix.workers:
            world.start_worker()
        world.later(10.0, self._restart)

    def _restart(self):
        """Start workers that ended by themselves, as a supervisor does."""
        world = self._world
        while len(world.workers()) < world.mix.workers:
            world.start_worker()
        world.later(5.0, self._restart)

    def _keep_alive(self):
        """Start a worker if few are left, as a supervisor does."""
        world = self._world
        if world.calm:
            return
        if len(world.workers()) < world.mix.workers and world.random.random() < 0.6:
            world.start_worker()
        world.later(1.0, self._keep_alive)

    def _strike(self, fault):
        world = self._world
        self.count += 1
        world.mark(fault.kind)
        workers = world.workers()
        process = workers[fault.pick % len(workers)] if workers else None
        world.say("fault", fault.kind, process and process.name, *fault.details.values())
        if fault.kind.startswith("aimed"):
            self._aims.append(fault)
        else:
            getattr(self, "_" + fault.kind.replace(" ", "_"))(process, **fault.details)

    def note_write(self, process, tp, records, *, is_acked):
        """Note a batch that is sent or acknowledged, and strike with the first aimed fault that waits for it."""
        targets = {kind_of(tp, key, value) for key, value, *_ in records}
        process.phase = phase(kind_of(tp, *records[-1][:2]), is_acked=is_acked)
        for fault in self._aims if process.countdown is None else ():
            target = fault.details["target"]
            if fault.details["is_acked"] == is_acked and target in targets:
                self._aims.remove(fault)
                process.phase = phase(target, is_acked=is_acked)
                self._world.say("hit", f"{fault.kind} at {process.phase}", process.name)
                getattr(self, "_" + fault.kind.replace(" ", "_"))(process, tp, **fault.details)
                return

    def _meet(self, fault, *processes):
        """Count the phases in which a fault meets processes."""
        for process in processes:
            self.meetings[fault, process.phase] += 1

    def _aimed_kill(self, process, _, *, steps, **__):
        process.countdown = steps

    def _aimed_freeze(self, process, _, *, seconds, **__):
        self._freeze(process, seconds=seconds)

    def _aimed_rebalance(self, _, tp, *, seconds, **__):
        self._world.log.at(tp).blocked_until = self._world.now + seconds
        self._rebalance(None)

    def _aimed_stop(self, process, _, **__):
        self._stop(process)

    def _aimed_offline(self, process, _, *, seconds, **__):
        self._offline(process, seconds=seconds)

    def _kill(self, process):
        if process:
            self._world.kill(process, "at once")

    def note_kill(self, process):
        self._meet("kill", process)

    def _freeze(self, process, *, seconds):
        if process:
            self._meet("freeze", process)
            process.frozen_until = self._world.now + seconds

    def _slow(self, process, *, seconds):
        if process:
            process.slowness = seconds
            self._world.later(5.0, self._hasten, process)

    def _hasten(self, process):
        process.slowness = 0.0

    def _stop(self, process):
        if process:
            self._meet("stop", process)
            process.stop()

    def _start(self, _):
        if len(self._world.workers()) < self._world.mix.workers + 2:
            self._world.start_worker()

    def _rebalance(self, _):
        self._meet("rebalance", *self._world.workers())
        self._world.coordinator.rebalance()

    def _offline(self, process, *, seconds):
        if process:
            self._meet("offline", process)
            process.offline_until = self._world.now + seconds

    def _at(self, topic, partition):
        world = self._world
        name = world.kafka.topic(topic)
        return world.log.at(TopicPartition(name, partition % len(world.log.partitions[name])))

    def _no_leader(self, _, *, topic, partition, seconds):
        self._at(topic, partition).blocked_until = self._world.now + seconds

    def _new_leader(self, _, *, topic, partition, seconds, records, skew_ms):
        part = self._at(topic, partition)
        part.hidden_from = max(part.beginning, part.end - records)
        part.hidden_until = self._world.now + seconds
        part.clock_skew_ms = skew_ms

    def _compaction(self, _, *, partitions):
        """Compact the partitions whose bits are set."""
        world = self._world
        for topic in (CHANGELOG, SNAPSHOTS, CLOCKS):
            for number in range(len(world.log.partitions[world.kafka.topic(topic)])):
                if partitions >> number % 3 & 1:
                    world.log.compact(world.kafka.topic(topic), number)

    def _retention(self, _, *, partition):
        """Delete reports that are old and counted. Nobody may read them again."""
        part = self._at(REPORTS, partition)
        first_young = 1000 * (self._world.wall() - YOUNG)
        offsets = [record.offset for record in part.records if record.timestamp > first_young]
        part.delete_before(min([*offsets, part.end, first_needed(self._world, part.number)]))

    def _new_file(self, process, *, revision):
        """Start a worker with another query file, in place of one that stops."""
        self._world.revision = revision
        self._stop(process)
        self._start(None)

    def _strange_record(self, _, *, topic, partition, key, value):
        """Append a record that hubbub never writes. Readers skip it."""
        part = self._at(topic, 0 if topic == QUERIES else partition)
        content = strange.record(self._world, topic, part.number, key, value)
        self._world.log.append(TopicPartition(part.topic, part.number), [content], writer=strange.WRITER)

    def _clock(self, _, *, partition, skew_ms):
        self._at(REPORTS, partition).clock_skew_ms = skew_ms
