"""One world: its time, its chance, its processes and its log, all from one seed."""

import argparse
import hashlib
import heapq
from contextlib import AsyncExitStack
from functools import partial
from itertools import count
from random import Random

from aiokafka import TopicPartition

from aggregator.topics.layout import layout
from aggregator.topics.sizes import sizes
from aggregator.worker.start import build_worker
from hubbub.definitions import formats
from hubbub.kafka.settings import QUERIES, REPORTS, Kafka
from oracles.frame import MAX_FRAME
from tests.worlds.faults import Faults
from tests.worlds.group import Coordinator
from tests.worlds.load import Load
from tests.worlds.log import Log
from tests.worlds.process import Process
from tests.worlds.queries import START, query_file, query_path, retired
from tests.worlds.seams import seams
from tests.worlds.story import Step

LOOK = 0.25
"""Seconds between two looks of the coordinator."""


LATENCIES = (0.001, 0.002, 0.003, 0.005, 0.02)
"""Seconds of one message between a process and a broker."""


class Watchdog:
    """The watchdog sees nothing here: real brokers and real threads are tested elsewhere."""

    beat = None

    def note_start(self, steps):
        pass

    def missing(self):
        return None


def _missing(process):
    """Return the reason for which a worker is not ready, or None."""
    return process.worker.missing() if process.worker is not None else "never started"


class World:
    """The world of one plan."""

    def __init__(self, plan):
        self.plan = plan
        self.mix = plan.mix
        self.own_random = Random(f"{plan.seed}/world")
        self.random = self.own_random
        """The chance of the process that runs, or of the world between processes."""
        self.now = 0.0
        self.steps = 0
        self.running = None
        self.kafka = Kafka(prefix="w.")
        self.queries = query_file(plan.queries).queries
        self.log = Log(self)
        self.coordinator = Coordinator(self, self.kafka.topic(REPORTS), self.mix.partitions)
        self.processes = []
        """All processes that ever ran. None is freed before the end, so that no destructor acts in the world."""
        self.live = []
        """The processes that run."""
        self.trace = hashlib.sha256()
        self.story = []
        self.keep_story = False
        self.marks = {}
        """How often each fault met the world."""
        self.violations = []
        """Violations that were found while the world ran."""
        self.missing = {}
        """The reason for which a worker is not ready at the end, or None, by name."""
        self.owners = {}
        """The writer of each partition's newest owner, and the step at which its recovery began."""
        self.rebalanced_at = 0
        """The step of the newest generation of the group."""
        self.calm = False
        self.revision = 1
        """The revision of the query file that new workers have."""
        self._numbers = count(1)
        self._names = count(1)
        self._events = []
        self._order = count()
        self._jump_ms = 0
        self.load = Load(self)
        self.faults = Faults(self)

    # Time and chance.

    def wall(self):
        return START + self.now

    def next_number(self):
        return next(self._numbers)

    def random_hex(self, size):
        return f"{self.random.getrandbits(8 * size):0{2 * size}x}"

    def latency(self):
        """Return the seconds of one message between a process and a broker."""
        return LATENCIES[int(5 * self.random.random())]

    def chance(self, name, probability):
        return not self.calm and self.random.random() < probability

    def loses_ack(self):
        if self.chance("lost ack", self.mix.lost_acks):
            self.mark("lost ack")
            return True
        return False

    def omits_partition(self):
        return self.chance("partial fetch", self.mix.partial_fetches)

    def offset_gap(self):
        return self.chance("offset gap", self.mix.offset_gaps)

    def fetch_size(self, most):
        """Return how many records a fetch brings, at most."""
        if not self.chance("short fetch", self.mix.short_fetches):
            return most
        return self.random.randint(1, most)

    def network_is_down(self, process):
        return process.offline_until > self.now

    # What happens.

    def later(self, delay, work, *arguments):
        """Do something in the world after a while, outside of all processes."""
        heapq.heappush(self._events, (self.now + delay, next(self._order), work, arguments))

    def mark(self, name):
        self.marks[name] = self.marks.get(name, 0) + 1

    def say(self, kind, *details):
        """Add one step to the trace."""
        step = Step(self.now, self.steps, kind, details)
        self.trace.update(step.line().encode())
        self.trace.update(b"\n")
        if self.keep_story:
            self.story.append(step)

    def note_append(self, record):
        self.steps += 1
        value = hashlib.blake2b(record.value or b"", digest_size=6).hexdigest() if record.value is not None else "-"
        key = None if record.key is None else record.key.decode("latin-1")
        self.say("append", record.topic, record.partition, record.offset, record.writer, repr(key), value)

    def note_write(self, process, tp, records):
        self.faults.note_write(process, tp, records, is_acked=False)

    def note_ack(self, process, tp, records):
        self.faults.note_write(process, tp, records, is_acked=True)

    def note_recovery(self, partition, writer, step):
        """Note the newest owner of a partition, and the step at which it began to read the changelog."""
        if self.owners.get(partition, (None, 0))[0] != writer:
            self.owners[partition] = writer, step

    def note_end(self, process):
        self.live.remove(process)
        self.say("ended", process.name, process.code, type(process.error).__name__)

    def kill(self, process, why):
        if process.alive:
            process.alive = False
            self.live.remove(process)
            self.faults.note_kill(process)
            self.say("kill", process.name, why)

    def start_worker(self):
        name = f"worker{next(self._names)}"
        self.say("start", name)
        process = Process(self, name, partial(self._worker, self.revision))
        self.processes.append(process)
        self.live.append(process)

    def workers(self):
        return list(self.live)

    async def _worker(self, revision):
        process = self.running
        names = self.plan.queries
        options = argparse.Namespace(
            queries=query_path(names, revision),
            sizes=sizes(self.queries.values()),
            upgrade_patience=60.0,
            max_frame=MAX_FRAME,
            max_state=None,
            retire=retired(names, revision),
            instance=None,
            leave=False,
            checkpoint_bytes_per_s=1 << 30,
        )
        async with AsyncExitStack() as stack:
            worker = await build_worker(stack, self.kafka, query_file(names, revision), options, Watchdog())
            process.worker = worker
            return await worker.run()

    # The run.

    def run(self):
        """Run the world until its end."""
        with seams(self):
            self._create_topics()
            for _ in range(self.mix.workers):
                self.start_worker()
            self.load.begin()
            self.faults.begin()
            self._look()
            self._advance(self.mix.seconds)
            self._settle()
            self.missing = {process.name: _missing(process) for process in self.live}
        return self

    def _create_topics(self):
        for topic in layout(self.kafka.prefix, self.mix.partitions, 1, MAX_FRAME, sizes(self.queries.values())):
            self.log.create(topic.name, topic.partitions, topic.settings)
        self.log.on_append = self.note_append
        queries = TopicPartition(self.kafka.topic(QUERIES), 0)
        self.log.append(queries, [(formats.KEY, formats.newest_value(), None, ())], writer="topics")

    def _look(self):
        self.coordinator.look()
        self.later(LOOK, self._look)

    def _settle(self):
        """End all faults, start workers again, and let the time pass."""
        self.calm = True
        self.say("calm")
        self.faults.end()
        self._advance(self.now + self.mix.settle)

    def _advance(self, end):
        """Let the time pass. An event of the world comes before the steps of processes at the same moment."""
        while True:
            moment = self._events[0][0] if self._events else end
            process = self._next_process(min(moment, end))
            if process is not None:
                self.now = max(self.now, process.due())
                process.turn()
                continue
            if moment >= end:
                break
            moment, _, work, arguments = heapq.heappop(self._events)
            self.now = max(self.now, moment)
            work(*arguments)
        self.now = end

    def _next_process(self, end):
        """Return the process that has the next turn before `end`, if any."""
        ready = []
        first = end
        for process in self.live:
            due = max(process.due(), self.now)
            if due < first:
                ready = [process]
                first = due
            elif ready and due == first:
                ready.append(process)
        if len(ready) > 1:
            # Processes that are due at the same time take their turns in any order.
            return self.random.choice(ready)
        return ready[0] if ready else None

    def close(self):
        """Free all processes."""
        for process in self.processes:
            process.alive = False
        self.processes.clear()
