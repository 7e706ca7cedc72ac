"""A proved change has no interval that holds 0: of shares, ranges, means, geometric means and quantiles."""

from itertools import product

import numpy as np
import pytest

from aggregator.records.decoder import decode
from aggregator.records.kinds import kind_of
from aggregator.records.span import Span
from aggregator.tallies.snapshot import Snapshot
from oracles.query.settings import Window
from tests.queries import make_query, make_table
from tests.results import build

PANE = 10
SIZE = 64
SCALES = {
    "log": {"low": 1, "high": 10_000, "bins": SIZE, "scale": "log"},
    "linear": {"low": 0, "high": 100, "bins": SIZE},
}
FACTORS = (1.0, 1.03, 1.1, 1.5)
PAIRS = 8
"""Pairs of windows of each cell, of which there are ten."""
EXPECTED = ("p50", "p90", "p99", "mean", "fast")


def query_of(scale):
    ranges = {"fast": [SCALES[scale]["low"], 50]}
    quantiles = [0.5, 0.9, 0.99]
    table = make_table(domain=SCALES[scale], oracle="haar", budget=1e9, crowd=1, windows=["10s"])
    return make_query(table, quantiles=quantiles, ranges=ranges)


def record_of(query, values, rng, start):
    oracle = query.oracle
    state = oracle.zeros()
    oracle.add(state, oracle.perturb(values, rng))
    span = Span(Window("tumbling", PANE, PANE), start, start + PANE)
    ((_, value),) = build(query, span, Snapshot(len(values), 0, 0, 0, state)).records
    return decode(value)


def numbers_of(scale, factor, rng, n):
    if scale == "log":
        return np.clip(factor * rng.lognormal(4.0, 1.0, n), 1.0, 10_000.0)
    return np.clip(factor * rng.normal(45.0, 12.0, n), 0.0, 100.0)


def assert_one_side(row, most):
    assert -most <= row.low <= row.high <= most
    if row.proved:
        assert row.difference != 0.0
        assert row.low >= 0.0 if row.difference > 0.0 else row.high <= 0.0


@pytest.mark.parametrize(("scale", "factor"), [*product(SCALES, FACTORS)])
def test_the_interval_of_a_proved_change_of_numbers_does_not_hold_zero(scale, factor):
    query = query_of(scale)
    bins = query.domain.scale
    proofs = 0
    for seed in range(PAIRS):
        rng = np.random.default_rng(seed)
        windows = [bins.positions(numbers_of(scale, f, rng, 20_000)) for f in (1.0, factor)]
        before, after = (record_of(query, values, rng, PANE * place) for place, values in enumerate(windows))
        result = kind_of(after).differences(before, after, SIZE, 0.05)
        names = [row.value for row in result.rows]
        assert set(EXPECTED) <= set(names)
        for row in result.rows:
            assert_one_side(row, 1.0 if row.measure == "share" else bins.high - bins.low)
        proofs += result.proofs
        assert result.proofs == sum(row.proved for row in result.rows)
    assert proofs > 0 or factor < 1.5


def test_the_interval_of_a_proved_change_of_a_share_does_not_hold_zero():
    query = make_query(make_table(domain=8, oracle="grr", budget=1e9, crowd=1, windows=["10s"], epsilon=1.0))
    proofs = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        shares = np.array([0.3, 0.2, 0.1, 0.1, 0.1, 0.1, 0.05, 0.05])
        moved = shares + np.array([0.04, -0.04, *[0.0] * 6])
        windows = [rng.choice(8, 20_000, p=p) for p in (shares, moved)]
        before, after = (record_of(query, values, rng, PANE * place) for place, values in enumerate(windows))
        for names in (None, ["0", "1"]):
            for row in kind_of(after).differences(before, after, 8, 0.05, names).rows:
                assert_one_side(row, 1.0)
                proofs += row.proved
    assert proofs > 0
