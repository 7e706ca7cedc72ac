"""One world: its time, its chance, its processes and its log, all from one seed."""

import argparse
import gc
import hashlib
import heapq
import logging
import sys
from contextlib import AsyncExitStack, contextmanager
from itertools import count
from random import Random
from unittest.mock import patch

import aiokafka
import aiokafka.admin

from aggregator.counting import faust_group, faust_patches
from aggregator.publishing.finals import estimator_pool
from aggregator.topics import identity
from aggregator.topics.layout import layout
from aggregator.topics.sizes import sizes
from aggregator.worker.start import build_worker
from hubbub import outside
from hubbub.command import exit as command_exit
from hubbub.definitions import formats
from hubbub.kafka import clients as kafka_clients
from hubbub.kafka.settings import QUERIES, REPORTS, Kafka
from oracles.frame import MAX_FRAME
from tests.worlds import clients
from tests.worlds.estimator import EstimatorInPlace
from tests.worlds.faults import Faults
from tests.worlds.group import Coordinator, SimulatedGroup
from tests.worlds.load import Load
from tests.worlds.log import Log
from tests.worlds.process import Process

START = 1_700_000_000.0
"""The Unix time at which each world begins."""
LOOK = 0.25
"""Seconds between two looks of the coordinator."""


class Watchdog:
    """The watchdog sees nothing here: real brokers and real threads are tested elsewhere."""

    beat = None

    def note_start(self, steps):
        pass

    def missing(self):
        return None


class World:
    """The world of one seed."""

    def __init__(self, seed, mix):
        self.seed = seed
        self.mix = mix
        self.random = Random(f"{mix.name}/{seed}")
        self.now = 0.0
        self.steps = 0
        self.running = None
        self.kafka = Kafka(prefix="w.")
        self.log = Log(self)
        self.coordinator = Coordinator(self, self.kafka.topic(REPORTS), mix.partitions)
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
        self.calm = False
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
        return self.random.choice((0.001, 0.002, 0.003, 0.005, 0.02))

    short_latency = latency

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
        if self.calm or self.random.random() < 0.7:
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
        line = f"{self.now:.4f} {kind} {' '.join(map(str, details))}"
        self.trace.update(line.encode())
        self.trace.update(b"\n")
        if self.keep_story:
            self.story.append(line)

    def note_append(self, record):
        self.steps += 1
        value = hashlib.blake2b(record.value or b"", digest_size=6).hexdigest() if record.value is not None else "-"
        key = None if record.key is None else record.key.decode("latin-1")
        self.say("append", record.topic, record.partition, record.offset, record.writer, repr(key), value)

    def note_write(self, process, tp, records):
        self.faults.note_write(process, tp, records)

    def note_ack(self, process, tp, records):
        self.faults.note_ack(process, tp, records)

    def note_end(self, process):
        self.live.remove(process)
        self.say("ended", process.name, process.code, type(process.error).__name__)

    def kill(self, process, why):
        if process.alive:
            process.alive = False
            self.live.remove(process)
            self.say("kill", process.name, why)

    def start_worker(self):
        name = f"worker{next(self._names)}"
        self.say("start", name)
        process = Process(self, name, self._worker)
        self.processes.append(process)
        self.live.append(process)

    def workers(self):
        return list(self.live)

    async def _worker(self):
        process = self.running
        options = argparse.Namespace(
            queries=self.load.path,
            sizes=sizes(self.load.file.queries.values()),
            upgrade_patience=60.0,
            max_frame=MAX_FRAME,
            max_state=None,
            retire=set(),
            instance=None,
            leave=False,
            checkpoint_bytes_per_s=1 << 30,
        )
        async with AsyncExitStack() as stack:
            worker = await build_worker(stack, self.kafka, self.load.file, options, Watchdog())
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
        return self

    def _create_topics(self):
        for topic in layout(
            self.kafka.prefix, self.mix.partitions, 1, MAX_FRAME, sizes(self.load.file.queries.values())
        ):
            self.log.create(topic.name, topic.partitions, topic.settings)
        self.log.on_append = self.note_append
        queries = aiokafka.TopicPartition(self.kafka.topic(QUERIES), 0)
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
        while self.now < end:
            due = [(process.due(), place) for place, process in enumerate(self.live)]
            time, place = min(due, default=(end, -1))
            if self._events and self._events[0][0] <= time:
                time, _, work, arguments = heapq.heappop(self._events)
                if time >= end:
                    heapq.heappush(self._events, (time, next(self._order), work, arguments))
                    break
                self.now = max(self.now, time)
                work(*arguments)
                continue
            if time >= end:
                break
            self.now = max(self.now, time)
            # Processes that are due at the same time take their turns in any order.
            ready = [place for time, place in due if time <= self.now]
            if len(ready) > 1:
                place = self.random.choice(ready)
            self.live[place].turn()
        self.now = max(self.now, end)

    def close(self):
        """Free all processes."""
        for process in self.processes:
            process.alive = False
        self.processes.clear()


@contextmanager
def seams(world):
    """Replace all that product code takes from outside."""
    clients.Client.world = world
    EstimatorInPlace.world = world

    def group(kafka, *_):
        return SimulatedGroup(world, kafka.topic(REPORTS))

    async def explained(error, _):
        return error

    fail = command_exit.Ending.fail

    def note_failure(ending, error):
        world.running.failure = world.running.failure or error
        fail(ending, error)

    places = [
        (command_exit.Ending, "fail", note_failure),
        (outside, "monotonic", lambda: 1000.0 + world.now),
        (outside, "wall", world.wall),
        (outside, "random_hex", world.random_hex),
        (aiokafka, "AIOKafkaProducer", clients.Producer),
        (aiokafka, "AIOKafkaConsumer", clients.Consumer),
        (aiokafka.admin, "AIOKafkaAdminClient", clients.Admin),
        (kafka_clients, "_explained", explained),
        (identity, "topic_ids", clients.topic_ids),
        (faust_group, "build_group", group),
        (faust_patches, "tune", lambda: None),
        (estimator_pool, "Estimator", EstimatorInPlace),
        (command_exit, "_exit_after", lambda *_: None),
        (sys, "unraisablehook", lambda _: None),
    ]
    patches = [patch.object(*place) for place in places]
    level = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    gc.disable()
    try:
        for each in patches:
            each.start()
        yield
    finally:
        for each in reversed(patches):
            each.stop()
        # Otherwise the classes would keep the world, and free it only when the interpreter ends.
        clients.Client.world = None
        EstimatorInPlace.world = None
        gc.enable()
        logging.disable(level)
