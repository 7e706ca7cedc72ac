"""A pane that waits is one sum. It agrees with all its parts, kept and merged at the end, whatever comes and when."""

import random

import numpy as np

from aggregator.merging.pane_parts import ALL, WaitingPane
from aggregator.tallies.snapshot import IDS_OVERFLOW, INCOMPLETE, PARTIAL, Snapshot, encode_snapshot, merge_snapshots

CELLS = 5
NONE = Snapshot(0, 0, 0, INCOMPLETE, np.zeros(CELLS, np.int64))


class Model:
    """The parts of a pane, all of them. `None` stands for an unreadable one."""

    def __init__(self):
        self._parts = {}

    def _is_readable(self, partition):
        return self._parts.get(partition) is not None

    def add(self, partition, snapshot):
        if self._is_readable(ALL) or self._is_readable(partition):
            return False
        if partition == ALL:
            self._parts.clear()
        self._parts[partition] = snapshot
        return True

    def add_unreadable(self, partition):
        if partition not in self._parts and not self._is_readable(ALL):
            self._parts[partition] = None

    @property
    def has_reports(self):
        return any(part.n for part in self._parts.values() if part)

    @property
    def is_merged(self):
        return len(self._parts) > 1 and all(self._parts.values())

    def total(self):
        return merge_snapshots((part or NONE for part in self._parts.values()), CELLS)


def part(draw):
    """Return a snapshot with zero to two further groups, and with some flags."""
    length = CELLS + draw.randrange(3) * (CELLS + 3)
    counts = np.array([draw.randrange(300) for _ in range(length)], draw.choice([np.uint16, np.int64]))
    flags = draw.choice([0, 0, PARTIAL, INCOMPLETE, PARTIAL | IDS_OVERFLOW])
    return Snapshot(draw.randrange(3), draw.randrange(2), draw.randrange(2), flags, counts)


def test_a_running_sum_is_the_sum_of_all_parts():
    draw = random.Random(1)
    merged = 0
    for _ in range(400):
        waiting = WaitingPane(CELLS)
        model = Model()
        for _ in range(draw.randrange(1, 9)):
            partition = draw.choice([0, 1, 2, 3, ALL])
            if draw.random() < 0.25:
                waiting.add_unreadable(partition)
                model.add_unreadable(partition)
            else:
                snapshot = part(draw)
                assert waiting.add(partition, snapshot) == model.add(partition, snapshot)
            assert (waiting.has_reports, waiting.is_merged) == (model.has_reports, model.is_merged)
        merged += model.is_merged
        assert encode_snapshot(waiting.total()) == encode_snapshot(model.total())
    assert merged > 50


def test_the_memory_of_a_pane_does_not_grow_with_its_parts():
    waiting = WaitingPane(1000)
    for partition in range(64):
        waiting.add(partition, Snapshot(1, 0, 0, 0, np.ones(1000, np.int64)))
    assert waiting._first is None
    assert waiting._sum.counts.nbytes == 8000
    assert waiting.total().n == 64
