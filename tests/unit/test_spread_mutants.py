"""Planted bugs in the rules of slots. The tests of test_spread.py must find each of them."""

from functools import partial

import pytest

from tests.unit import test_spread as rules
from tests.worlds.mutant import Mutant

ENDS = "aggregator.merging.closed_panes:closed_on_slots"
GATE = "aggregator.counting.admission.gate:Gate."
SENDERS = [rules.test_senders_choose_the_slot_of_the_pane] * 6
"""Six calls, because a random id reaches the same slot by chance: all of them with a chance below 1e-10."""
CLOSINGS = [partial(rules.test_a_pane_waits_for_the_slots_of_its_own_version, seed) for seed in range(12)]
PLACES = [partial(rules.test_each_partition_takes_the_frames_of_its_slots, number) for number in range(12)]
MUTANTS = {
    Mutant(
        "slots of the newest version for older panes",
        ENDS,
        "stretches = versions.spreads",
        "stretches = versions.spreads[-1:]",
        8,
    ): CLOSINGS,
    Mutant(
        "open panes of the former slots forgotten",
        ENDS,
        "if closed_end < next_first:",
        "if False:",
        8,
    ): CLOSINGS,
    Mutant(
        "one slot is enough to close",
        "aggregator.tallies.clock_book:ClockView.least_on_slots",
        ".min())",
        ".max())",
        8,
    ): CLOSINGS,
    Mutant(
        "spread by the time of sending",
        GATE + "place_of",
        "query.spread",
        "self.definitions[query.digest].query.spread",
        8,
    ): PLACES,
    Mutant(
        "a frame without an id on any partition",
        GATE + "_is_placed",
        "return False",
        "return frame_id is None",
        8,
    ): PLACES,
    Mutant(
        "ids of a run judged by all partitions",
        GATE + "remember",
        "self.place_of(frame.query) or NOWHERE",
        "self.partitions, self.partition",
        8,
    ): PLACES,
    Mutant(
        "a sender goes by the newest version",
        "tests.unit.test_spread:route",
        "versions.spread_at(frame.pane)",
        "versions.query.spread",
        8,
    ): SENDERS,
    Mutant(
        "a spread without notice",
        "hubbub.definitions.definition_log:with_spread_change",
        "version._replace(first=spread_first)",
        "version",
        8,
    ): [rules.test_a_spread_alone_is_one_more_version],
    Mutant(
        "a later change before a spread to come",
        "hubbub.definitions.versions:Versions.with_version",
        "max(version.first, self.versions[-1].first)",
        "version.first",
        8,
    ): [partial(rules.test_a_later_change_waits_for_a_spread_to_come, False)],
}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_planted_bug_is_found(mutant):
    def check_all():
        for check in MUTANTS[mutant]:
            check()

    with mutant.applied(), pytest.raises(AssertionError):
        check_all()
