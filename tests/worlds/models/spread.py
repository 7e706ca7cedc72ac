"""The model of changes of `spread` says on which partitions reports belong, while that changes.

Senders route by definitions that are up to a minute old, and a frame may arrive after a while, or again through another
sender. Each partition judges by the definitions of its own log time. A run can leave rules out.
"""

from itertools import pairwise
from math import gcd
from random import Random

PARTITIONS = 6
PANE = 10
SKEW = 90
"""Seconds that the pane of a report may be ahead."""
LATENESS = 30
OLDEST = 60
"""Seconds that a sender's definitions may be old."""
TRANSIT = 55
"""Seconds that a frame may be on its way, retries included."""
NOTICE = 120
"""Seconds from a change to its first pane, beyond the skew."""
SECONDS = 900
RULES = {
    "notice": "a changed spread applies two minutes later",
    "skew": "and later by the skew, since reports may be ahead",
    "after a spread": "no later change applies before a spread that is still to come",
    "k of the pane": "a partition judges a frame by the spread of its pane, not of the present",
    "slots of the pane": "a pane closes by the slots of its own version",
    "all slots": "a pane closes when the clocks of all its slots have passed it",
    "kept slots": "a spread has the same slots in each version",
}
SPARE_RULES = frozenset()


def slots(spread, *, keeps_slots=True):
    """Return the partitions of a spread. The walk always starts at one place."""
    start, step = 4, 5
    assert gcd(step, PARTITIONS) == 1
    places = range(spread) if keeps_slots else range(spread, 2 * spread)
    return [(start + step * place) % PARTITIONS for place in places]


class Model:
    """One run has a query whose definition changes, and keeps the counts of its partitions."""

    def __init__(self, seed, omitted_rules=()):
        self.random = Random(seed)
        self.omitted_rules = omitted_rules
        self.versions = [(0, 0, 2)]
        """For each version: its log time, its first pane, and its spread."""
        self.on_the_way = []
        self.logs = [[] for _ in range(PARTITIONS)]
        """The log time, the id and the pane of each frame that no reader of the partition has counted."""
        self.clocks = [0] * PARTITIONS
        self.counted = {}
        """The partition that counted an id, by id and pane."""
        self.published = {}
        self.wrong = None

    def keeps(self, rule):
        return rule not in self.omitted_rules

    def change(self, now):
        """Change the spread, or something else of the definition."""
        *_, newest_start, spread = self.versions[-1]
        is_spread = self.random.random() < 0.5
        if is_spread:
            spread = self.random.randint(1, PARTITIONS)
        delay = (SKEW if self.keeps("skew") else 0) + (NOTICE if self.keeps("notice") else 0) * is_spread
        start = ((now + delay) // PANE + 1) * PANE
        if self.keeps("after a spread"):
            start = max(start, newest_start)
        self.versions.append((now, start, spread))

    def spread_of(self, pane, time):
        """Return the spread of a pane for a reader that knows all definitions up to a time."""
        return [spread for knowledge, start, spread in self.versions if knowledge <= time and start <= pane][-1]

    def route(self, number, pane, time):
        places = slots(self.spread_of(pane, time))
        return places[number % len(places)]

    def send(self, now):
        """Send one report, perhaps twice through senders that know different definitions."""
        pane = (now + self.random.randint(-LATENESS // 2, SKEW)) // PANE * PANE
        number = self.random.randrange(1 << 20)
        for _ in range(self.random.choice((1, 1, 2))):
            knowledge = max(0, now - self.random.randint(0, OLDEST))
            arrival = now + self.random.randint(0, TRANSIT)
            self.on_the_way.append((arrival, number, max(0, pane), self.route(number, max(0, pane), knowledge)))

    def read(self, partition, now):
        """Count the frames of a partition. Its clock is the log time of the newest frame, or of a tick."""
        for time, number, pane in self.logs[partition]:
            self.clocks[partition] = time
            self.judge(time, number, pane, partition)
        self.logs[partition].clear()
        self.clocks[partition] = now

    def judge(self, now, number, pane, partition):
        """Judge a frame by the definitions of its log time."""
        if self.clocks[partition] > pane + PANE + LATENESS:
            return  # late
        time = pane if self.keeps("k of the pane") else now
        places = slots(self.spread_of(time, now), keeps_slots=self.keeps("kept slots") or now < SECONDS // 2)
        if partition != places[number % len(places)]:
            self.wrong = f"an honest report of pane {pane} is refused on partition {partition} at {now}"
            return
        if self.counted.setdefault((number, pane), partition) != partition:
            self.wrong = f"report {number} of pane {pane} counts on two partitions"
        if pane in self.published:
            self.wrong = f"pane {pane} was published before a report of it counted at {now}"

    def publish(self, now):
        for pane in range(0, now, PANE):
            if pane in self.published:
                continue
            spread = self.spread_of(pane if self.keeps("slots of the pane") else now, now)
            clocks = [self.clocks[partition] for partition in slots(spread)]
            if (min if self.keeps("all slots") else max)(clocks) > pane + PANE + LATENESS:
                self.published[pane] = now

    def run(self):
        """Run, and return the fault, or None."""
        for now in range(1, SECONDS):
            if self.random.random() < 0.02:
                self.change(now)
            self.send(now)
            due = [frame for frame in self.on_the_way if frame[0] <= now]
            self.on_the_way = [frame for frame in self.on_the_way if frame[0] > now]
            for _, number, pane, partition in due:
                self.logs[partition].append((now, number, pane))
            for partition in range(PARTITIONS):
                if self.random.random() < 0.03:
                    self.read(partition, now)
            self.publish(now)
            if self.wrong is not None:
                return self.wrong
        starts = [start for _, start, _ in self.versions]
        return None if all(a <= b for a, b in pairwise(starts)) else "a later version applies earlier"
