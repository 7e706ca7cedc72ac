"""Where windows hold several panes one record a pane is kept, and the next worker goes on from it."""

import time

from aggregator.tallies import keys
from aggregator.tallies.keys import PaneKey
from tests.integration.queries import PAGE
from tests.integration.workers import Place, until

LONG = PAGE.replace('"3s/1s", "all"', '"12s/1s"').replace('lateness = "1s"', 'lateness = "2s"')


def kinds(place, panes):
    """The snapshots that stand of these panes."""
    standing = {record.key: record.value for record in place.read("snapshots")}
    found = [keys.decode(key) for key, value in standing.items() if value is not None]
    return [sorted(key.kind for key in found if isinstance(key, PaneKey) and key.pane == pane) for pane in panes]


def test_merged_snapshots_take_the_place_of_those_of_partitions(kafka, tmp_path):
    with Place(kafka, tmp_path, LONG) as place:
        one = place.start().ready()
        panes = []
        for count in range(1, 5):
            panes.append(int(time.time()))
            place.send(*[(p, place.frame("page", [0, 1, 2] * count, panes[-1])) for p in range(place.partitions)])
            time.sleep(1.1)
        until(lambda: kinds(place, panes) == [["merged"]] * len(panes))
        one.kill()
        place.start().ready()
        last = int(time.time())
        place.send(*[(p, place.frame("page", [2], last)) for p in range(place.partitions)])
        verdict = place.verdict(last)
        assert verdict.exact, verdict
        assert verdict.reports == 3 * 2 * (1 + 2 + 3 + 4) + 2
