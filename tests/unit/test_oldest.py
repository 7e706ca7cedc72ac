"""The order in which a full board drops its data. It agrees with a look at all parts, whatever changes between."""

import random

from aggregator.board.store.oldest import OldestParts


class Part:
    """Data of some times, each of one byte."""

    def __init__(self):
        self.times = []

    @property
    def size(self):
        return len(self.times)

    @property
    def droppable(self):
        return self.times[0] if len(self.times) > 1 else None

    def drop_oldest(self):
        self.times.pop(0)


def oldest_of(parts):
    """Return the place of the part that loses data next, found by a look at all of them."""
    rows = [(part.droppable, place) for place, part in parts.items() if part.droppable is not None]
    return min(rows)[1] if rows else None


def test_the_oldest_data_go_first_and_equal_ones_by_place():
    draw = random.Random(1)
    parts = {(kind, number): Part() for kind in range(2) for number in range(8)}
    order = OldestParts()
    drops = 0
    for _ in range(4000):
        place = draw.choice([*parts])
        part = parts[place]
        part.times = sorted([*part.times, draw.randrange(40)])
        # A part may lose data by itself, as by the retention.
        if part.size > 4:
            part.drop_oldest()
        order.update(place, part)

        while draw.random() < 0.4:
            expected = oldest_of(parts)
            before = {place: [*part.times] for place, part in parts.items()}
            assert order.drop() == (None if expected is None else 1)
            if expected is not None:
                before[expected].pop(0)
                drops += 1
            assert {place: part.times for place, part in parts.items()} == before
    assert drops > 1000


def test_rows_do_not_grow_behind_a_part_that_never_changes():
    order = OldestParts()
    quiet, busy = Part(), Part()
    quiet.times = [0, 1]
    order.update((0,), quiet)
    for time in range(10_000):
        busy.times = [2 + time, 3 + time]
        order.update((1,), busy)
    assert len(order._rows) < 50
    assert order.drop() == 1
    assert quiet.times == [1]
