"""The offset of a machine's clock, and the partitions whose clocks differ from all others."""

import logging

import pytest
from prometheus_client import CollectorRegistry, Gauge

from aggregator.worker.clocks import MEMORY, OwnClock, PartitionClocks, TickTimes
from hubbub import outside

NOW = 1_700_000_000.0


@pytest.fixture
def clock(monkeypatch):
    """Return a clock of this machine that stands still, with the attributes `wall` and `awake`."""

    class Still:
        wall = NOW
        awake = 0.0

    monkeypatch.setattr(outside, "wall", lambda: Still.wall)
    monkeypatch.setattr(outside, "monotonic", lambda: Still.awake)
    return Still


@pytest.mark.parametrize(
    ("send_time", "ack_time", "log_time", "offset"),
    [
        (0.0, 0.1, 0.05, 0.0),
        (0.0, 20.0, 19.0, 0.0),
        (3600.0, 3600.1, 0.05, 3599.95),
        (-3600.0, -3599.9, 0.05, -3599.95),
    ],
    ids=["right", "slow", "ahead", "behind"],
)
def test_a_slow_broker_looks_like_no_wrong_clock(send_time, ack_time, log_time, offset):
    assert TickTimes(send_time, ack_time, log_time).offset == pytest.approx(offset)


def own_clock(*offsets):
    own = OwnClock()
    for partition, offset in enumerate(offsets):
        own.note(partition, TickTimes(NOW + offset, NOW + offset, NOW))
    return own


def samples(own):
    [metric] = own.collect()
    return [sample.value for sample in metric.samples]


def test_the_offset_is_the_median_and_absent_without_ticks(clock):
    assert samples(own_clock()) == []
    assert samples(own_clock(0.0, 0.0, -600.0)) == [0.0]
    assert samples(own_clock(-600.0, 0.0)) == [0.0]
    assert samples(own_clock(3600.0, 3600.0)) == [3600.0]
    own = own_clock(3600.0)
    clock.awake = MEMORY + 1
    assert samples(own) == []


def test_a_wrong_clock_is_reported_once_in_words(clock, caplog):
    caplog.set_level(logging.INFO)
    own = own_clock(-3600.0)
    own.look()
    own.look()
    assert [(record.levelname, record.getMessage().partition(":")[0]) for record in caplog.records] == [
        ("WARNING", "the clock of this machine is 3,600 s behind the brokers'")
    ]
    own.note(0, TickTimes(NOW, NOW, NOW))
    own.look()
    assert caplog.messages[-1] == "the clock of this machine agrees with the brokers' again"
    own.note(0, TickTimes(NOW + 90, NOW + 90, NOW))
    own.look()
    assert caplog.messages[-1].startswith("the clock of this machine is 90 s ahead of the brokers'")


def ahead(clocks, offset):
    """Return by how many seconds each partition is ahead."""
    gauge = Gauge("ahead", "", ["partition"], registry=CollectorRegistry())
    PartitionClocks(gauge).look(clocks, offset)
    return [sample.value for sample in next(iter(gauge.collect())).samples]


@pytest.mark.parametrize(
    ("clocks", "offset", "differences"),
    [
        # The machine is an hour behind, or an hour ahead.
        ([NOW + 3600] * 3, -3600.0, [0.0] * 3),
        ([NOW - 3600] * 3, 3600.0, [0.0] * 3),
        # One broker of three is ahead, and the machine is right or wrong.
        ([NOW, NOW, NOW + 600], 0.0, [0.0, 0.0, 600.0]),
        ([NOW + 3600, NOW + 3600, NOW + 4200], -3600.0, [0.0, 0.0, 600.0]),
        # All partitions are still ahead of a broker that was set right.
        ([NOW + 600] * 2, 0.0, [600.0] * 2),
        # Reading is slow on most partitions, so the newest one is not ahead.
        ([NOW - 900, NOW - 900, NOW], 0.0, [-900.0, -900.0, 0.0]),
        # Without ticks the other partitions tell the time, and alone the machine does.
        ([NOW + 3600] * 3, None, [0.0] * 3),
        ([NOW, NOW, NOW + 600], None, [-300.0, -300.0, 600.0]),
        ([NOW - 900, NOW - 900, NOW], None, [-900.0, -900.0, 0.0]),
        ([NOW + 600], None, [600.0]),
    ],
)
def test_a_partition_is_ahead_only_of_the_other_clocks(clock, caplog, clocks, offset, differences):
    assert ahead(dict(enumerate(clocks)), offset) == differences
    assert len(caplog.records) == sum(difference > 2 for difference in differences)
