"""The write budget. Bytes and records per second stay below their limits, and no write waits for ever."""

from random import Random

import pytest

from aggregator.counting.checkpoint_plan import WriteBudget


@pytest.mark.parametrize(("size", "records"), [(1000, 1), (10, 40), (500, 20)])
def test_waiting_writes_respect_the_limits_of_bytes_and_records(size, records):
    pace, random, clock, totals = WriteBudget(1000, 10), Random(1), 0.0, [0, 0]
    while clock < 1000:
        for _ in range(random.randint(1, 4)):  # a checkpoint, and open snapshots
            pace.spend(size, records)
            totals[0] += size
            totals[1] += records
        clock += pace.pause()
    assert totals[0] <= 1000 * clock
    assert totals[1] <= 10 * clock
    assert max(totals[0] / 1000, totals[1] / 10) == pytest.approx(clock), "it is not slower than it must be"


def test_urgent_writes_delay_a_turn_by_at_most_its_own_length():
    pace = WriteBudget(1000, 10)
    pace.spend(300, 1, urgent=True)
    pace.spend(1000, 2)
    assert pace.pause() == pytest.approx(1.3)
    pace.spend(50_000, 1, urgent=True)
    pace.spend(1000, 2)
    assert pace.pause() == pytest.approx(2)
    assert pace.pause() == 0
