"""Short campaigns of faults that find inexact finals early. `make faults` runs long ones."""

import pytest

from tests.faults.campaign import BROKER_FAULTS, FAULTS, NAME_FAULTS, campaign

COLUMNS = """
from aggregator.counting.admission import columnar_gate
columnar_gate.SINGLE_RECORDS = 1
"""
"""The worker reads also small runs of records as columns."""
OFFSETS = """
from aggregator.counting.partition import SourcePartition
take = SourcePartition.take
def repeat(self, run):
    self.next_offset = min([self.next_offset, *(record[0] for record in run)])
    for tally in self.tallies.values():
        tally.next_offset = 0
    return take(self, run)
SourcePartition.take = repeat
"""
IDS = """
from aggregator.tallies.tally import Tally
Tally.recover_ids = lambda *_: None
"""


@pytest.mark.parametrize(("kind", "seed"), [("kafka", 36), pytest.param("tansu", 4, marks=pytest.mark.long)])
def test_finals_stay_exact_under_faults(kind, seed, request):
    verdict = campaign(request.getfixturevalue(kind), 6, seed=seed, pause=(2.0, 4.0), patch=COLUMNS)
    assert verdict.exact
    assert verdict.faults["freeze"]
    assert verdict.faults["kill"]
    assert verdict.reports > 1000
    assert verdict.alerts
    assert {"snapshots", "estimates", "alerts", "truth", "queries"} <= verdict.strange.keys()


def test_finals_stay_exact_while_one_of_three_brokers_is_killed_or_frozen(cluster):
    verdict = campaign(cluster, 6, seed=101, kinds=FAULTS | BROKER_FAULTS, patch=COLUMNS)
    assert verdict.exact
    assert verdict.faults["kill broker"]
    assert verdict.faults["freeze broker"]


@pytest.mark.long
def test_finals_stay_exact_while_second_processes_take_the_names_of_workers(kafka):
    verdict = campaign(kafka, 12, seed=5, kinds=FAULTS | {"second process": 8}, with_names=True, patch=COLUMNS)
    assert verdict.exact
    assert verdict.faults.keys() >= NAME_FAULTS.keys()


@pytest.mark.long
@pytest.mark.parametrize("patch", [OFFSETS, IDS], ids=["offsets", "ids"])
def test_a_campaign_finds_a_worker_that_breaks_a_rule(tansu, patch):
    """The worker counts records of its tallies again, or forgets the ids of its tallies in a crash."""
    verdict = campaign(tansu, 8, seed=1, pause=(3.0, 5.0), kinds={"kill": 3, "kill all": 1}, patch=patch, settle=30.0)
    assert verdict.double
    assert not verdict.exact
