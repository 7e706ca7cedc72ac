"""Differences of records allow for the tables by which people answer, in each attribute too."""

from fractions import Fraction

import numpy as np
import pytest

from aggregator.records.decoder import decode
from aggregator.records.kinds import kind_of
from aggregator.records.span import Span
from aggregator.tallies.snapshot import Snapshot
from oracles import oracle
from oracles.estimate import Estimate, quantile
from oracles.mechanisms.entropy import Seeded
from oracles.mechanisms.record_oracle import RecordOracle
from producers.client.respondents import Respondents
from tests.queries import make_query
from tests.results import build

PANE = 10
PANELS, PEOPLE = 60, 500
LIFE = {
    "answers": "life",
    "noise": "table",
    "oracle": "grr",
    "epsilon": 2.0,
    "crowd": 1,
    "windows": ["10s"],
    "publish": "all",
    "methods": ["norm_sub"],
}


@pytest.mark.parametrize(
    ("name", "size", "options"),
    [("grr", 2, {"table": 2}), ("grr", 5, {"table": 2}), ("full", 8, {"buckets": 4, "table": 2}), ("olh", 9, {})],
)
def test_a_record_tells_the_covariance_of_its_oracle(name, size, options):
    o = oracle(name, epsilon=1.0, size=size, **options)
    record_oracle = RecordOracle(name, size, Fraction(o.p), Fraction(o.q), has_table=True)
    shares = np.full(size, 1.0 / size)
    exact, record_law = (Estimate(shares, 1_000, each).covariance for each in (o, record_oracle))
    assert [record_law.flat, record_law.tilt] == pytest.approx([exact.flat, exact.tilt], rel=1e-9, abs=1e-15)
    assert record_oracle.excludes


def records_of(query, crowd, windows):
    """Return the first records of windows in which a crowd answers."""
    records = []
    for place, values in enumerate(windows):
        state = query.oracle.zeros()
        query.oracle.add(state, crowd.reports(values))
        span = Span(query.windows[0], PANE * place, PANE * (place + 1))
        window = build(query, span, Snapshot(len(values), 0, 0, 0, state))
        records.append(decode(window.records[0][1]))
    return records


def test_changes_of_everybody_have_the_stated_error():
    """60 panels in which everybody changes. A correct error fails here with a chance below 1e-6."""
    query = make_query(LIFE | {"domain": 2})
    rng = np.random.default_rng(13)
    scores = []
    for _ in range(PANELS):
        crowd = Respondents(query.oracle, PEOPLE, lambda *_: Seeded(rng))
        values = rng.integers(0, 2, PEOPLE)
        before, after = records_of(query, crowd, (values, 1 - values))
        (row,) = kind_of(after).differences(before, after, 2, 0.05, ["0"]).rows
        truth = (np.count_nonzero(values == 1) - np.count_nonzero(values == 0)) / PEOPLE
        scores.append((row.difference - truth) / row.stderr)
    assert np.mean(np.square(scores)) < 1.0 + quantile(1e-6) * np.sqrt(2.0 / PANELS)


@pytest.mark.parametrize("solution", ["spl", "smp"])
def test_changes_of_an_attribute_have_the_error_of_its_tables(solution):
    query = make_query(LIFE | {"attributes": {"age": 2, "sex": 3}, "solution": solution})
    rng = np.random.default_rng(14)
    crowd = Respondents(query.oracle, PEOPLE, lambda *_: Seeded(rng))
    windows = [np.column_stack([rng.integers(0, size, PEOPLE) for size in (2, 3)]) for _ in range(2)]
    before, after = records_of(query, crowd, windows)
    rows = kind_of(after).differences(before, after, 2, 0.05, ["0", "1"]).rows

    encoder = query.oracle.encoders[0]
    assert encoder.excludes
    for row in rows:
        n, m = before.n_independent, after.n_independent
        law = Estimate(np.array([row.before, row.after]), min(n, m), encoder).covariance
        least = np.hypot(*(record.stderr[list(record.values).index(row.value)] for record in (before, after)))
        extra = -2.0 * (law.flat + law.tilt * np.clip([row.before, row.after], 0.0, 1.0).sum())
        assert row.stderr == pytest.approx(np.sqrt(least**2 + extra), rel=1e-5)
        assert row.stderr > 1.1 * least


def test_two_groups_share_no_table():
    query = make_query(LIFE | {"domain": 2})
    rng = np.random.default_rng(15)
    crowd = Respondents(query.oracle, PEOPLE, lambda *_: Seeded(rng))
    before, after = records_of(query, crowd, [rng.integers(0, 2, PEOPLE) for _ in range(2)])
    for are_groups in (True, False):
        (row,) = kind_of(after).differences(before, after, 2, 0.05, ["0"], apart=are_groups).rows
        least = np.hypot(*(record.stderr[list(record.values).index("0")] for record in (before, after)))
        assert (row.stderr == pytest.approx(least, rel=1e-5)) == are_groups
