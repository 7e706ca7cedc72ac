"""Merged snapshots. If windows have several panes, one record for each pane remains, and the next worker reads it."""

import time

import pytest

from aggregator.tallies import keys
from aggregator.tallies.keys import PaneKey
from tests.integration.queries import PAGE
from tests.integration.workers import Place, until

LONG = PAGE.replace('"3s/1s", "all"', '"12s/1s"').replace('lateness = "1s"', 'lateness = "2s"')


def merged_panes(place):
    """Return the panes that had a merged snapshot, and have no other one. No pane leaves this set, even if it ends."""
    records = place.read("snapshots")
    names = {record.key: keys.decode(record.key) for record in records}
    newest = {names[record.key]: record.value for record in records}
    panes = {names[record.key].pane for record in records if record.value is not None and is_merged(names[record.key])}
    others = {name for name, value in newest.items() if value is not None and not is_merged(name)}
    return panes - {name.pane for name in others if isinstance(name, PaneKey)}


def is_merged(name):
    return isinstance(name, PaneKey) and name.kind == "merged"


@pytest.mark.waits
def test_a_merged_snapshot_replaces_those_of_partitions(kafka, tmp_path):
    with Place(kafka, tmp_path, LONG) as place:
        worker = place.start().ready()
        panes = []
        for count in range(1, 5):
            panes.append(int(time.time()))
            place.send(*[(p, place.frame("page", [0, 1, 2] * count, panes[-1])) for p in range(place.partitions)])
            time.sleep(1.1)
        until(lambda: merged_panes(place) >= {*panes})
        worker.kill()
        place.start().ready()
        last_second = int(time.time())
        place.send(*[(p, place.frame("page", [2], last_second)) for p in range(place.partitions)])
        verdict = place.verdict(last_second)
        assert verdict.exact, verdict
        assert verdict.reports == 3 * 2 * (1 + 2 + 3 + 4) + 2
