"""A record that is too large: it keeps its first values and their hitters, and its bytes follow from a fixed rule."""

import json
from functools import cache
from itertools import chain

import numpy as np
import pytest

from aggregator.publishing.finals.final import final_metrics
from aggregator.records import cut
from aggregator.records.decoder import decode
from aggregator.records.size import ENVELOPE, RECORD
from aggregator.records.span import Span
from aggregator.tallies.snapshot import Snapshot
from aggregator.topics.sizes import sizes
from oracles.query.settings import Window
from tests import schemas
from tests.queries import make_query
from tests.results import window_result

# A record takes seconds, and only one process remembers it.
pytestmark = pytest.mark.xdist_group("test_cut")
START = 1_700_000_000
COLUMNS = ("values", "stderr", "low", "high")


def query(domain, **settings):
    return make_query({"domain": domain, "oracle": "grr", "epsilon": 16.0, "budget": 1e9}, **settings)


def records(q, counts):
    """The records of a window in which each value has this many reports."""
    state = q.oracle.zeros()
    state[: len(counts)] = counts
    total = Snapshot(int(np.sum(counts)), 0, 0, 0, state)
    return window_result(q, Span(Window("tumbling", 10, 10), START, START + 10), total)


def proved(size):
    """Counts that prove every value, and differ. Each exceeds what the noise of the others adds to it."""
    return 200 + size // 10 + np.random.default_rng(size).permutation(size)


@cache
def largest(size, publish):
    """Return a record that is cut, and the flags in its metrics. It takes seconds, so tests share it."""
    result = records(query(size, publish=publish, methods=["norm_sub"]), proved(size))
    [(_, value)] = result.window.records
    return value, final_metrics(result)[0].flags


@pytest.mark.parametrize(
    ("size", "publish"), [(65_536, 100), (65_536, "all"), pytest.param(1_000_000, 100, marks=pytest.mark.long)]
)
def test_a_record_with_every_value_proved_is_cut_at_eight_mebibytes(size, publish):
    q = query(size, publish=publish, methods=["norm_sub"])
    counts = proved(size)
    value, flags = largest(size, publish)
    record = json.loads(value)
    assert RECORD - ENVELOPE - 2_000 < len(value) <= RECORD - ENVELOPE == cut.LARGEST
    assert sizes([q]).estimates == RECORD
    count = len(record["values"])
    first = list(map(str, np.argsort(-counts, kind="stable")[:count].tolist()))
    assert record["values"] == first
    assert {len(record[column]) for column in COLUMNS} | {len(each) for each in record["shares"].values()} == {count}
    assert all({row["value"] for row in rows} == {*first} for rows in record["hitters"].values())
    assert all(row["decided"] for row in chain.from_iterable(record["hitters"].values()))
    assert record["quality"]["flags"] == ["cut"]
    assert flags == ("cut",)
    assert decode(value).flags == ("cut",)


def test_a_record_that_is_cut_has_the_schema_of_records():
    value, _ = largest(65_536, 100)
    schemas.record(value)


def test_one_value_more_would_not_fit():
    value, _ = largest(65_536, 100)
    record = json.loads(value)
    more = [record[column][-1] for column in COLUMNS]
    more += [rows[-1] for rows in chain.from_iterable(record[lists].values() for lists in ("shares", "hitters"))]
    assert len(value) + len(json.dumps(more, separators=(",", ":"))) > cut.LARGEST


def test_values_that_are_not_proved_are_cut_first():
    """With publish = "all" every value is in the record. Of 300,000 values a hundred are proved."""
    q = query(300_000, publish="all", epsilon=8.0)
    counts = np.random.default_rng(1).poisson(20, 300_000)
    counts[1_000:1_100] = 500
    record = json.loads(records(q, counts).window.records[0][1])
    assert {*record["values"][:100]} == {str(value) for value in range(1_000, 1_100)}
    assert len(record["hitters"]["unbiased"]) == 100
    assert 100 < len(record["values"]) < 300_000
    assert record["quality"]["flags"][-1] == "cut"


def test_a_record_that_fits_is_whole():
    q = query(4_096)
    window = records(q, proved(4_096)).window
    record = json.loads(window.records[0][1])
    assert len(record["values"]) == len(record["hitters"]["unbiased"]) == 4_096
    assert record["quality"]["flags"] == []
    assert window.cuts == (False,)
