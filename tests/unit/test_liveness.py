"""The liveness of a worker, by the parts that stand still and the time that they may."""

from dataclasses import replace

from aggregator.process.liveness import (
    PATIENCE,
    PATIENCE_MERGING,
    PATIENCE_SHARING,
    PATIENCE_STARTING,
    SILENT,
    Beat,
    Liveness,
    Stage,
)

WELL = Beat(number=1, counting=True, reports={0: 5, 1: 7}, snapshots={0: 9}, rounds=1)


def beats(liveness, seconds, change, start=0.0):
    """Look once a second. Return the first standstill and its time."""
    for second in range(int(seconds)):
        moment = start + second
        standstills = liveness.find_hung(change(second), moment)
        if standstills:
            return moment, standstills
    return None


def well(second, **but):
    moving = Beat(second + 1, True, 0, {0: second, 1: second}, frozenset(), {0: second}, second, 0.5)
    return replace(moving, **but)


def test_a_worker_that_moves_is_alive():
    assert beats(Liveness(), 1000, well) is None


def test_each_standstill_is_found_after_its_patience():
    for part, patience, but in [
        (Stage.LOOP, PATIENCE, {"number": 4}),
        (Stage.MERGER, PATIENCE_MERGING, {"rounds": 4}),
        (Stage.SNAPSHOTS, PATIENCE_MERGING, {"snapshots": {0: 4}}),
        (Stage.SHARING, PATIENCE_SHARING, {"counting": False}),
        (Stage.START, PATIENCE_STARTING, {"number": 0}),
        (Stage.REPORTS, PATIENCE + 0.5, {"reports": {0: 1, 1: 4}}),
    ]:
        still = {**but, "reports": {0: 4, 1: 4}} if part is Stage.REPORTS else but
        moment, standstills = beats(Liveness(), 1000, lambda second, still=still: well(second, **still))
        assert {standstill.part for standstill in standstills} == {part}
        assert patience < moment <= patience + 1


def test_a_rebalance_moves_if_any_of_its_parts_moves():
    """One partition may be ready long before another."""
    assert beats(Liveness(), 600, lambda s: well(s, counting=False, steps=s // 50)) is None
    moment, standstills = beats(Liveness(), 600, lambda s: well(s, counting=False, steps=min(s, 100)))
    assert standstills[0].part is Stage.SHARING
    assert moment > 100 + PATIENCE_SHARING


def test_after_a_recovery_all_times_restart():
    """Offsets that stood still during a long rebalance have their patience after it."""
    liveness = Liveness()

    def recovers(second):
        sharing_beat = well(second, reports={0: 5}, counting=second < 10 or second >= 60, steps=second)
        return sharing_beat if second < 70 else well(second)

    assert beats(liveness, 200, recovers) is None


def test_an_excuse_restarts_the_time():
    liveness = Liveness()
    moment, [still] = beats(liveness, 100, lambda s: well(s, rounds=1))
    liveness.restart(still, moment)
    repeated_beats, _ = beats(liveness, 100, lambda s: well(s, rounds=1), start=moment + 1)
    assert repeated_beats > moment + PATIENCE_MERGING
    liveness.restart_all()
    assert beats(liveness, PATIENCE_MERGING, lambda s: well(s, rounds=1), start=repeated_beats + 1) is None


def test_a_worker_is_not_ready_where_reading_or_merging_stands_standstill():
    for but, part in [
        ({"rounds": 3}, Stage.MERGER),
        ({"reports": {0: 3, 1: 5}, "more": frozenset([0])}, Stage.REPORTS),
        ({"reports": {0: 3}}, None),
    ]:
        liveness = Liveness()
        for second in range(int(SILENT) + 3):
            liveness.find_hung(well(second, **but), second)
        standstills = liveness.find_slow(SILENT + 2)
        assert (standstills and standstills.part) == part
    assert "partition 0 of reports at offset 3 for 17 s" in str(_standstill(liveness))


def _standstill(liveness):
    return next(still for still in liveness._standstills(SILENT + 2) if still.part is Stage.REPORTS)
