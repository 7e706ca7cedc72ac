"""The group of a world: a coordinator with generations and sessions, and its members as counting sees them."""

import asyncio
from collections import deque
from functools import partial
from types import SimpleNamespace

from aiokafka import TopicPartition

from aggregator.counting.faust_patches import FetchedRun
from hubbub.kafka.columns import RecordColumns
from hubbub.kafka.group import CLIENT
from tests.worlds.clients import wake
from tests.worlds.process import RECOVERED, RECOVERING

SESSION = 6.0
"""Seconds without a heartbeat until a member is expelled."""
HEARTBEAT = 1.2
JOINING = 5.0
"""Seconds that a rebalance waits for members that do not join again."""
QUEUE = 8
"""Runs that wait for counting."""


class Coordinator:
    """The broker's side of the group."""

    def __init__(self, world, topic, partitions):
        self._world = world
        self._topic = topic
        self._partitions = partitions
        self.generation = 0
        self.members = {}
        """The members by name, in the order in which they joined."""
        self._heartbeats = {}
        self._joined = set()
        self._deadline = None
        """The time at which the rebalance under way ends without the missing members."""

    def join(self, member):
        """Take a member that joins for the first time, or again during a rebalance."""
        self.members[member.name] = member
        self._heartbeats[member.name] = self._world.now
        if self._deadline is None:
            self._begin()
        self._joined.add(member.name)
        if self._joined == self.members.keys():
            self._end()

    def leave(self, name):
        if self.members.pop(name, None) is not None:
            self._joined.discard(name)
            self._begin()

    def heartbeat(self, member):
        """Return "ok", "rebalance", or "unknown" for a member that was expelled."""
        if self.members.get(member.name) is not member:
            return "unknown"
        self._heartbeats[member.name] = self._world.now
        return "ok" if self._deadline is None or member.name in self._joined else "rebalance"

    def rebalance(self):
        """Begin a rebalance without a reason, as a new coordinator may."""
        self._begin()

    def look(self):
        """Expel silent members, and end a rebalance that has waited long enough."""
        now = self._world.now
        for name in [name for name in self.members if now - self._heartbeats[name] > SESSION]:
            self.leave(name)
        if self._deadline is not None and now >= self._deadline:
            for name in [name for name in self.members if name not in self._joined]:
                del self.members[name]
            self._end()

    def _begin(self):
        self._joined = set()
        self._deadline = self._world.now + JOINING if self.members else None

    def _end(self):
        self._deadline = None
        self.generation += 1
        self._world.rebalanced_at = self._world.steps
        names = list(self._joined)
        members = [self.members[name] for name in self.members if name in set(names)]
        self._world.say("generation", self.generation, *(member.name for member in members))
        numbers = list(range(self._partitions))
        self._world.random.shuffle(numbers)
        for place, member in enumerate(members):
            partitions = set(numbers[place :: len(members)])
            delay = self._world.latency()
            member.process.later(delay, member.take, self.generation, partitions)


class Event:
    """One run on its way to counting."""

    def __init__(self, run):
        self.value = run
        self.message = SimpleNamespace(partition=run.partition)

    def ack(self):
        pass


class SimulatedGroup:
    """One member. It has the methods of aggregator.counting.group.Group."""

    def __init__(self, world, topic):
        self._world = world
        self._topic = topic
        self._coordinator = world.coordinator
        self.process = world.running
        self.name = f"{self.process.name}"
        self.client_id = f"{CLIENT}0.3"
        self._generation = 0
        self._rebalancing = True
        self._assigned = set()
        self._positions = {}
        self._highwaters = {}
        self._newest = 0
        self._queue = deque()
        self._arrival = asyncio.Event()
        self._room = asyncio.Event()
        self._stopped = asyncio.Event()
        self._recovery = None
        self._tasks = []

    @property
    def generation(self):
        return self._generation

    @property
    def rebalancing(self):
        return self._rebalancing

    def join(self, member):
        self._member = member

    def assigned_partitions(self):
        return set(self._assigned)

    def highwater(self, partition):
        return self._highwaters.get(partition)

    def newest_time(self):
        return self._newest

    async def seek(self, partition, offset):
        await asyncio.sleep(self._world.latency())
        if partition in self._positions:
            self._positions[partition] = offset

    def note_written(self, partition, offset):
        pass

    async def run(self):
        self._tasks = [
            asyncio.ensure_future(work)
            for work in (self._heartbeat(), self._fetch(), self._member.count(self._events()))
        ]
        await asyncio.sleep(self._world.latency())
        self._coordinator.join(self)
        await self._stopped.wait()
        for task in self._tasks:
            task.cancel()

    async def wait_for_crash(self):
        await asyncio.Event().wait()

    async def stop(self):
        self._coordinator.leave(self.name)
        self._stopped.set()

    def take(self, generation, partitions):
        """Take an assignment. A recovery that is under way goes on, as in Faust."""
        self._generation = generation
        self._rebalancing = True
        self._assigned = partitions
        self._positions = {}
        if self._world.chance("stale runs stay", self._world.mix.stale_runs):
            # Runs of the former assignment may still arrive.
            self._world.mark("stale run")
        else:
            self._queue.clear()
        self._member.note_assignment()
        self._recovery = asyncio.ensure_future(self._recover(generation))
        self._tasks.append(self._recovery)

    async def _recover(self, generation):
        self.process.phase = RECOVERING
        step = self._world.steps
        await self._member.recover()
        if generation != self._generation:
            return
        for partition, source in self._member.sources.items():
            self._world.note_recovery(partition, source.writer, step)
        self.process.phase = RECOVERED
        offsets = self._member.resume_offsets()
        self._positions = {p: offsets[p] for p in sorted(self._assigned) if p in offsets}
        self._rebalancing = False
        self._room.set()

    async def _heartbeat(self):
        while True:
            await asyncio.sleep(HEARTBEAT)
            if self._world.network_is_down(self.process):
                continue
            state = self._coordinator.heartbeat(self)
            if state != "ok":
                self._rebalancing = True
                self._positions = {}
                await asyncio.sleep(self._world.latency())
                self._coordinator.join(self)

    async def _fetch(self):
        world = self._world
        while True:
            await asyncio.sleep(world.latency() + 0.005)
            if world.network_is_down(self.process):
                await asyncio.sleep(0.1)
                continue
            if not self._has_news():
                await self._news()
            runs = [run for p in list(self._positions) if (run := self._read(p)) is not None]
            if runs and world.chance("slow fetch", world.mix.slow_fetches):
                await asyncio.sleep(world.random.uniform(0.1, 1.5))
                world.mark("late fetch")
            for run in runs:
                while len(self._queue) >= QUEUE:
                    self._room.clear()
                    await self._room.wait()
                self._queue.append(run)
                self._arrival.set()

    def _has_news(self):
        log = self._world.log
        now = self._world.now
        tps = [(TopicPartition(self._topic, partition), position) for partition, position in self._positions.items()]
        return any(log.at(tp).shown_end(now) > position for tp, position in tps)

    async def _news(self):
        """Wait for new records, or for half a second."""
        future = asyncio.get_running_loop().create_future()
        handle = asyncio.get_running_loop().call_later(0.5, wake, future)
        for partition in self._positions:
            waiting = self._world.log.waiting.setdefault(TopicPartition(self._topic, partition), {})
            waiting[self] = partial(self.process.soon, wake, future)
        await future
        handle.cancel()

    def _read(self, partition):
        world = self._world
        tp = TopicPartition(self._topic, partition)
        part = world.log.at(tp)
        end = part.shown_end(world.now)
        self._highwaters[partition] = end
        position = max(self._positions[partition], part.beginning)
        if position >= end:
            return None
        records = part.read(position, end, world.fetch_size(50))
        self._positions[partition] = records[-1].offset + 1 if records else end
        if not records:
            return None
        if world.chance("fetch lost", world.mix.lost_fetches):
            # Faust may drop fetched records, and then reads on behind them.
            world.mark("lost fetch")
            return None
        self._newest = max(self._newest, *(record.timestamp for record in records))
        plain = [(record.offset, record.timestamp, record.value) for record in records]
        is_columns = all(value is not None for _, _, value in plain) and world.random.random() < 0.5
        return FetchedRun(tp, RecordColumns.of(plain) if is_columns else plain)

    async def _events(self):
        while True:
            while not self._queue:
                self._arrival.clear()
                await self._arrival.wait()
            run = self._queue.popleft()
            self._room.set()
            yield Event(run)
