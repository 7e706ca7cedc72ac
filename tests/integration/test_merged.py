"""Merged snapshots. If windows have several panes, one record for each pane remains, and the next worker reads it."""

import time

import pytest

from aggregator.tallies import keys
from aggregator.tallies.keys import PaneKey
from tests.integration.queries import PAGE
from tests.integration.workers import Place, until

LONG = PAGE.replace('"3s/1s", "all"', '"12s/1s"').replace('lateness = "1s"', 'lateness = "2s"')


def kinds(place, panes):
    """Return the kinds of snapshots of each pane."""
    newest = {record.key: record.value for record in place.read("snapshots")}
    names = [keys.decode(key) for key, value in newest.items() if value is not None]
    return [sorted(key.kind for key in names if isinstance(key, PaneKey) and key.pane == pane) for pane in panes]


@pytest.mark.waits
def test_a_merged_snapshot_replaces_those_of_partitions(kafka, tmp_path):
    with Place(kafka, tmp_path, LONG) as place:
        worker = place.start().ready()
        panes = []
        for count in range(1, 5):
            panes.append(int(time.time()))
            place.send(*[(p, place.frame("page", [0, 1, 2] * count, panes[-1])) for p in range(place.partitions)])
            time.sleep(1.1)
        until(lambda: kinds(place, panes) == [["merged"]] * len(panes))
        worker.kill()
        place.start().ready()
        last_second = int(time.time())
        place.send(*[(p, place.frame("page", [2], last_second)) for p in range(place.partitions)])
        verdict = place.verdict(last_second)
        assert verdict.exact, verdict
        assert verdict.reports == 3 * 2 * (1 + 2 + 3 + 4) + 2
