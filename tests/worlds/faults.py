"""The faults of a world: which happen when. Some wait for a certain write, and strike a few steps after it."""

from typing import NamedTuple

from aiokafka import TopicPartition

from hubbub.kafka.settings import CHANGELOG, CLOCKS, REPORTS, SNAPSHOTS

FIRST = 4.0
"""Seconds until the first fault."""
KINDS = {
    "kill": 6,
    "aimed kill": 9,
    "aimed freeze": 6,
    "aimed rebalance": 4,
    "freeze": 2,
    "slow": 2,
    "stop": 2,
    "start": 3,
    "rebalance": 4,
    "offline": 2,
    "no leader": 4,
    "new leader": 4,
    "compaction": 4,
    "clock": 2,
}
LONGEST_FREEZE = 11.0
"""Seconds. It is shorter than the scaled lag of compaction, which bounds how long a worker may sleep."""


def kind_of(tp, key, value):
    """Return the kind of a write, for aimed faults."""
    topic = tp.topic.removeprefix("w.")
    name = (key or b"").split(b"|")[0].decode("latin-1") if topic in (CHANGELOG, SNAPSHOTS, CLOCKS) else ""
    return f"{topic} {name} {'deletion' if value is None else 'write'}"


AIMS = [
    f"{CHANGELOG} ids write",
    f"{CHANGELOG} tally write",
    f"{CHANGELOG} progress write",
    f"{CHANGELOG} progress deletion",
    f"{CHANGELOG} tally deletion",
    f"{SNAPSHOTS} closed write",
    f"{CLOCKS} clock write",
    f"{CLOCKS} clock deletion",
    f"{SNAPSHOTS} merged write",
    f"{SNAPSHOTS} state write",
    f"{SNAPSHOTS} closed deletion",
    f"{SNAPSHOTS} merged deletion",
    f"{SNAPSHOTS} state deletion",
    "estimates  write",
    "alerts  write",
]


class Aim(NamedTuple):
    """A fault that waits for a write."""

    fault: str
    target: str
    """The kind of write."""
    after_ack: bool
    """Whether it strikes after the acknowledgement, not after the sending."""
    steps: int
    """The steps until a kill."""


class Faults:
    """The schedule of one world."""

    def __init__(self, world):
        self._world = world
        self.count = 0
        self.hits = {}
        """How often each aimed fault struck, by write."""
        self._aims = []

    def begin(self):
        world = self._world
        times = sorted(world.random.uniform(FIRST, world.mix.seconds) for _ in range(world.mix.faults))
        for time in times:
            kind = world.random.choices(list(KINDS), list(KINDS.values()))[0]
            world.later(time, self._strike, kind)
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

    def _strike(self, kind):
        world = self._world
        self.count += 1
        world.mark(kind)
        workers = world.workers()
        process = world.random.choice(workers) if workers else None
        world.say("fault", kind, process and process.name)
        getattr(self, "_" + kind.replace(" ", "_"))(process)

    def note_write(self, process, tp, records):
        self._aim(process, tp, records, is_acked=False)

    def note_ack(self, process, tp, records):
        self._aim(process, tp, records, is_acked=True)

    def _aim(self, process, tp, records, *, is_acked):
        for aim in self._aims:
            if aim.after_ack != is_acked or process.countdown is not None:
                continue
            if any(kind_of(tp, key, value) == aim.target for key, value, *_ in records):
                self._aims.remove(aim)
                name = f"{aim.fault} at {aim.target}, {'acknowledged' if is_acked else 'sent'}"
                self.hits[name] = self.hits.get(name, 0) + 1
                self._hit(aim, process, tp)
                return

    def _hit(self, aim, process, tp):
        world = self._world
        if aim.fault == "kill":
            process.countdown = aim.steps
        elif aim.fault == "freeze":
            # Longer than a session, so that others own its partitions when it wakes.
            process.frozen_until = world.now + world.random.choice((7.0, 9.0, LONGEST_FREEZE))
        else:
            # The checkpoint is still open when the rebalance comes.
            world.log.at(tp).blocked_until = world.now + world.random.choice((2.0, 4.0))
            world.coordinator.rebalance()

    def _add_aim(self, fault):
        random = self._world.random
        aim = Aim(fault, random.choice(AIMS), random.random() < 0.6, random.choice((1, 1, 2, 3, 5, 8, 20)))
        self._aims.append(aim)

    def _aimed_kill(self, _):
        self._add_aim("kill")

    def _aimed_freeze(self, _):
        self._add_aim("freeze")

    def _aimed_rebalance(self, _):
        self._add_aim("rebalance")

    def _kill(self, process):
        if process:
            self._world.kill(process, "at once")

    def _freeze(self, process):
        if process:
            process.frozen_until = self._world.now + self._world.random.choice((1.0, 3.0, 7.0, LONGEST_FREEZE))

    def _slow(self, process):
        if process:
            process.slowness = self._world.random.choice((0.02, 0.1))
            self._world.later(5.0, self._hasten, process)

    def _hasten(self, process):
        process.slowness = 0.0

    def _stop(self, process):
        if process:
            process.stop()

    def _start(self, _):
        if len(self._world.workers()) < self._world.mix.workers + 2:
            self._world.start_worker()

    def _rebalance(self, _):
        self._world.coordinator.rebalance()

    def _offline(self, process):
        if process:
            process.offline_until = self._world.now + self._world.random.choice((1.0, 3.0, 8.0))

    def _partition(self, *topics):
        world = self._world
        name = world.kafka.topic(world.random.choice(topics))
        return world.log.at(TopicPartition(name, world.random.randrange(len(world.log.partitions[name]))))

    def _no_leader(self, _):
        part = self._partition(CHANGELOG, SNAPSHOTS, CLOCKS, REPORTS, "estimates")
        part.blocked_until = self._world.now + self._world.random.choice((0.5, 2.0, 5.0))

    def _new_leader(self, _):
        world = self._world
        part = self._partition(CHANGELOG, SNAPSHOTS, CLOCKS, REPORTS)
        part.hidden_from = max(part.beginning, part.end - world.random.randrange(1, 20))
        part.hidden_until = world.now + world.random.choice((0.2, 1.0))
        part.clock_skew_ms = world.random.choice((0, 0, -400, 300))

    def _compaction(self, _):
        world = self._world
        for topic in (CHANGELOG, SNAPSHOTS, CLOCKS):
            for number in range(len(world.log.partitions[world.kafka.topic(topic)])):
                if world.random.random() < 0.7:
                    world.log.compact(world.kafka.topic(topic), number)

    def _clock(self, _):
        part = self._partition(REPORTS)
        part.clock_skew_ms = self._world.random.choice((-1500, 800, 0))
