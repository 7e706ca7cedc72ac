"""Idle partitions, and which of them need a tick."""

from aggregator.worker.ticks import SOON, TICK, IdlePartitions


def test_a_partition_is_ticked_once_it_brought_nothing_for_a_while():
    idle = IdlePartitions(always=False)
    assert idle.due({0: 100.0, 1: 100.9}, {}, 100.0 + TICK) == [0]
    assert idle.due({0: 100.0, 1: 100.9}, {}, 100.9 + TICK) == [1]


def test_a_tick_is_not_repeated_before_its_time():
    idle = IdlePartitions(always=False)
    assert idle.due({0: 100.0}, {}, 105.0) == [0]
    assert idle.due({0: 100.0}, {}, 105.9) == []
    assert idle.due({0: 100.0}, {}, 105.0 + TICK) == [0]


def test_on_the_embedded_broker_traffic_does_not_stand_in_for_ticks():
    idle = IdlePartitions(always=True)
    assert idle.due({0: 100.0}, {}, 100.0) == [0]
    assert idle.due({0: 101.0}, {}, 101.0) == [0]


def test_partitions_that_others_own_are_not_ticked():
    idle = IdlePartitions(always=False)
    idle.due({0: 100.0, 1: 100.0}, {}, 102.0)
    assert idle.due({1: 100.0}, {}, 104.0) == [1]


def test_a_tick_that_closes_a_pane_comes_soon_and_once():
    idle = IdlePartitions(always=False)
    assert idle.due({0: 100.0, 1: 100.0}, {1: 5000}, 100.0 + SOON / 2) == []
    assert idle.due({0: 100.0, 1: 100.0}, {1: 5000}, 100.0 + 2 * SOON) == [1]
    assert idle.due({0: 100.0, 1: 100.0}, {1: 5000}, 100.0 + 4 * SOON) == []
    assert idle.due({0: 100.0, 1: 100.0}, {1: 6000}, 100.0 + 4 * SOON) == [1]


def test_a_partition_whose_records_go_on_coming_needs_no_tick_to_close_a_pane():
    idle = IdlePartitions(always=False)
    assert idle.due({0: 100.0}, {0: 5000}, 100.0 + SOON / 2) == []
    assert idle.due({0: 100.0 + SOON}, {0: 5000}, 100.0 + 1.5 * SOON) == []


def test_after_a_tick_in_vain_the_next_one_comes_at_the_usual_time():
    idle = IdlePartitions(always=False)
    assert idle.due({0: 100.0}, {0: 5000}, 101.0) == [0]
    assert idle.due({0: 100.0}, {0: 5000}, 101.0 + TICK / 2) == []
    assert idle.due({0: 100.0}, {0: 5000}, 101.0 + TICK) == [0]
