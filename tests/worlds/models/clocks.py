"""The model of clock records says who may close a pane, and which clock records may go.

Workers close panes of the partitions that they own, and say so in one topic of clocks. Mergers publish a pane once its
snapshots of all partitions have come. Workers are killed, frozen and replaced between any two steps. A run
can leave rules out, and must then fail.
"""

from random import Random

from tests.worlds.models.clock_worker import PARTITIONS, Worker
from tests.worlds.models.log import LAG, ModelLog

STEPS = 1000
"""Steps with faults. Then come three times as many without."""
RULES = {
    "snapshots before clock": "the snapshots are acknowledged before the clock record is sent",
    "clock before progress": "the clock record is acknowledged before progress is sent",
    "offsets": "a clock record names the offsets of its snapshots in their homes",
    "offsets read": "it names the offsets of other writers that it has read, too",
    "known offset": "a snapshot whose acknowledgement has no offset is written again",
    "passed": "a merger has passed the offset of its home",
    "at the end": "a merger is at the end of its last fetch",
    "least clock": "a pane closes by the least clock of all partitions",
    "own deletion": "a writer's former record goes after the acknowledgement of the next",
    "covered offsets": "another writer's record goes if all its offsets are covered",
    "greater clock": "another writer's record goes if all its clocks are passed, not only reached",
    "key a record": "each clock record has a key of its own",
}
SPARE_RULES = {"offsets read", "own deletion", "covered offsets", "greater clock", "key a record"}
"""Rules that no run needs, since a new leader hides records for less than compaction's lag.

A clock record that names hidden snapshots is then young, so no deletion takes it from a reader that comes later.
"""


class Model:
    """One run has a log and workers, and keeps their published panes."""

    def __init__(self, seed, omitted_rules=()):
        self.random = Random(seed)
        self.omitted_rules = omitted_rules
        self.step = 0
        self.clocks = ModelLog()
        self.homes = [ModelLog() for _ in range(PARTITIONS)]
        self.time = [0] * PARTITIONS
        self.progress = [[0] for _ in range(PARTITIONS)]
        self.published = [{} for _ in range(PARTITIONS)]
        self.workers = []
        self.names = 0

    def keeps(self, rule):
        return rule not in self.omitted_rules

    def snapshot(self, home, pane, p):
        """Append a snapshot, and return the offset that its acknowledgement gives."""
        offset = self.homes[home].append(self.step, ("snapshot", pane, p), True)
        if self.random.random() < 0.1:  # after a retry an acknowledgement has no offset
            return self.snapshot(home, pane, p) if self.keeps("known offset") else -1
        return offset

    def assign(self, count):
        """Give the partitions to new assignments. A frozen worker goes on with its old one when it wakes."""
        numbers = self.random.sample(range(PARTITIONS), PARTITIONS)
        self.workers = [worker for worker in self.workers if worker.frozen_until > self.step]
        for place in range(count):
            self.names += 1
            self.workers.append(Worker(self, f"w{self.names}", numbers[place::count]))

    def fault(self):
        random = self.random
        logs = [self.clocks, *self.homes]
        kind = random.random()
        if kind < 0.25:
            self.assign(random.randint(1, PARTITIONS))
        elif kind < 0.5 and self.workers:
            worker = random.choice(self.workers)
            worker.frozen_until = self.step + random.randrange(LAG // 2)
            worker.last_step = worker.frozen_until + random.randrange(25)
            self.assign(random.randint(1, PARTITIONS))
        elif kind < 0.7:
            log = random.choice(logs)
            # A new leader lacks young records only, and not for long, or compaction would overtake what it hides.
            old = sum(entry is None or self.step - entry.step > LAG // 4 for entry in log.entries)
            log.hidden_from = random.randint(old, len(log.entries))
            log.hidden_until = self.step + random.randrange(LAG // 2)
        else:
            for log in logs:
                log.compact(self.step)

    def run(self):
        """Run with faults, then without, and return the fault, or None."""
        self.assign(2)
        for self.step in range(4 * STEPS):
            is_calm = self.step >= STEPS
            if self.step == STEPS:
                self.assign(2)
            if not is_calm and self.random.random() < 0.04:
                self.fault()
            if not is_calm and self.random.random() < 0.02:
                self.time[self.random.randrange(PARTITIONS)] += 1
            elif self.step in (STEPS, 2 * STEPS, 3 * STEPS):
                self.time = [max(self.time) + 1] * PARTITIONS
            self.workers = [w for w in self.workers if w.last_step is None or w.last_step > self.step]
            awake = [worker for worker in self.workers if worker.frozen_until <= self.step]
            if awake:
                self.random.choice(awake).step()
        return self.fault_found()

    def fault_found(self):
        for home, panes in enumerate(self.published):
            for pane, sizes in panes.items():
                if set(sizes) != {PARTITIONS}:
                    return f"home {home} published pane {pane} with {sizes} of {PARTITIONS} partitions"
            if len(panes) < min(self.time) - 3:
                return f"home {home} published {len(panes)} of {min(self.time)} panes"
        live = len(self.clocks.live())
        return f"{live} clock records live" if live > 2 * PARTITIONS else None
