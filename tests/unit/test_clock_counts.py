"""The records of a pane without reports. Neither their number nor their size grows with the number of queries."""

import pytest

from hubbub.definitions.versions import Versions
from tests.clock_panes import records_of_a_pane


@pytest.mark.parametrize("queries", [30, 3_000])
def test_a_pane_without_reports_is_one_clock_record_a_worker(queries):
    workers = 100
    own = range(10)
    records = records_of_a_pane(1_000, own, queries)
    clocks = [record for record in records if record[0] == "clocks"]
    assert len(clocks) * workers <= 200, "a record and the deletion of the former one"
    assert sum(value is not None for *_, value in clocks) == 1
    progress = [value for topic, _, value in records if topic == "changelog" and value is not None]
    assert [len(value) for value in progress] == [57] * len(own)
    assert not [record for record in records if record[0] == "snapshots"]
    size = sum(len(key) + len(value or b"") for _, key, value in records)
    assert size * workers <= 1_200_000


def test_a_partition_looks_at_one_query_for_each_law_of_closing(monkeypatch):
    """256 partitions with 3,000 queries would look at 768,000 definitions for each pane."""
    looks = []
    closed_through = Versions.closed_through

    def look(self, clock):
        looks.append(clock)
        return closed_through(self, clock)

    counts = []
    for queries in (30, 3_000):
        monkeypatch.setattr(Versions, "closed_through", look)
        looks.clear()
        records_of_a_pane(256, range(4), queries)
        counts.append(len(looks))
    assert counts[0] == counts[1]
