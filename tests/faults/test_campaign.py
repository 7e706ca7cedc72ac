"""Short campaigns, so that what breaks exactness is found at once; `make faults` runs long ones."""

import pytest

from tests.faults.campaign import BROKER_FAULTS, FAULTS, campaign

TALLY = """
from aggregator import source, tally
add, take = tally.Tally.add, source.Source.take
def added(self, *frames):
    self.next_offset = 0
    return add(self, *frames)
def taken(self, run):
    if run:
        self.next_offset = min(self.next_offset, run[0][0])
    return take(self, run)
tally.Tally.add, source.Source.take = added, taken
"""
CLOSED = """
from aggregator.clock import Progress
Progress.covers = lambda *_: False
"""
IDS = """
from aggregator.tally import Tally
Tally.recover_ids = lambda *_: None
"""


@pytest.mark.parametrize(("kind", "seed"), [("tansu", 4), ("kafka", 36)])
def test_finals_stay_exact_under_faults(kind, seed, request):
    verdict = campaign(request.getfixturevalue(kind), 6, seed=seed, pause=(0.5, 2.0))
    assert verdict.exact
    assert verdict.faults["freeze"]
    assert verdict.faults["kill"]
    assert verdict.reports > 1000


@pytest.mark.long
def test_finals_stay_exact_while_one_of_three_brokers_is_killed_or_frozen(cluster):
    verdict = campaign(cluster, 12, seed=21, kinds=FAULTS | BROKER_FAULTS)
    assert verdict.exact
    assert verdict.faults["kill broker"]
    assert verdict.faults["freeze broker"]


@pytest.mark.long
@pytest.mark.parametrize("broken", [TALLY, CLOSED, IDS], ids=["offsets", "closed panes", "ids"])
def test_a_campaign_finds_a_worker_that_breaks_a_rule(tansu, broken):
    verdict = campaign(tansu, 20, seed=1, pause=(0.5, 2.0), kinds={"kill": 1}, patch=broken, settle=30.0)
    assert verdict.wrong or verdict.double
