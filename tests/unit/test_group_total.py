"""Weighted totals of groups: their errors, and what they refuse."""

import numpy as np
import pytest

from benchmarks import group_total
from benchmarks.accuracy import groups
from oracles import oracle
from oracles.errors import ParameterError
from oracles.group_total import weighted_total


@pytest.fixture(scope="module")
def fits():
    return [group_total.fit(case, 40) for case in group_total.CASES[:2]]


def test_the_stated_error_fits_the_population(fits):
    """40 windows of 64 and 16 values: a ratio beyond 0.85 to 1.15 happens once in 1e6 runs, if the error is right."""
    for total, plain in fits:
        assert 0.85 < total.ratio < 1.15
        assert plain.ratio > 1.5, "the plain total is wrong, because groups that answer more often differ"


def test_the_intervals_hold_the_truth(fits):
    for total, plain in fits:
        assert total.coverage >= 0.945
        assert plain.coverage < 0.9


@pytest.mark.parametrize(("name", "epsilon", "size"), groups.DIFFERENCES)
def test_the_intervals_of_differences_of_two_groups_hold_the_truth(name, epsilon, size):
    """20 windows of 16 to 64 values: below 0.88 less than once in 1e6 runs, if 95% are right."""
    assert np.mean([np.mean(hits) for hits in groups.differences(name, epsilon, size, 20)]) >= 0.88


def test_most_windows_have_no_conditional_shares_if_the_margin_is_near_zero():
    """200 windows at one standard error and at four, where 83% and 2% are expected."""
    near, far = (groups.small_margin("hr", 1.0, 10_000, margin, 200) for margin in (1.0, 4.0))
    assert near[0].mean > 0.7
    assert far[0].mean < 0.1
    assert far[1].mean > 0.9


def groups_of(*sizes):
    grr = oracle("grr", epsilon=2.0, size=3)
    tallies = []
    for seed, size in enumerate(sizes):
        tally = grr.tally()
        if size:
            tally.add(grr.perturb(np.arange(size) % 3, np.random.default_rng(seed)))
        tallies.append(tally.estimate())
    return tallies


def test_weights_are_divided_by_their_sum_over_groups_with_reports():
    groups = groups_of(5_000, 3_000, 0)
    total = weighted_total(groups, [0.3, 0.3, 0.4])
    assert total.weight == pytest.approx(0.6)
    assert total.shares == pytest.approx((groups[0].shares + groups[1].shares) / 2)
    assert total.n_effective == pytest.approx(1 / (0.25 / 5_000 + 0.25 / 3_000))
    assert weighted_total(groups, [1.0, 0.0, 0.0]).shares == pytest.approx(groups[0].shares)


def test_the_error_of_a_rare_value_in_small_groups_is_not_too_small():
    """Three groups of 50 at epsilon 8: the plain error is 3 times too small. 500 runs are within 15% of theirs."""
    rng = np.random.default_rng(7)
    grr = oracle("grr", epsilon=8.0, size=4)
    law = np.array([0.97, 0.01, 0.01, 0.01])
    ratios = []
    for _ in range(500):
        groups = [grr.tally() for _ in range(3)]
        for tally in groups:
            tally.add(grr.perturb(rng.choice(4, 50, p=law), rng))
        total = weighted_total([tally.estimate() for tally in groups], [1.0, 1.0, 1.0])
        ratios.append((total.shares - law) / total.stderr)
    errors = np.sqrt(np.mean(np.square(ratios), axis=0))
    assert np.all(errors <= 1.15)
    assert np.all(errors >= 0.4)


def test_errors_add_up_if_a_client_may_stand_in_two_groups():
    groups = groups_of(5_000, 5_000)
    alone, twice = (weighted_total(groups, [0.5, 0.5], repeats=repeats) for repeats in (False, True))
    assert twice.stderr == pytest.approx(np.sqrt(2.0) * alone.stderr, rel=0.01)
    assert np.all(twice.high - twice.low > alone.high - alone.low)


@pytest.mark.parametrize("weights", [[1.0], [1.0, -0.5], [1.0, float("nan")], [0.0, 0.0], [1.0, float("inf")]])
def test_wrong_weights_are_refused(weights):
    with pytest.raises(ParameterError):
        weighted_total(groups_of(100, 100), weights)


def test_groups_need_the_same_values_and_a_level_between_0_and_1():
    first_estimate = groups_of(100)[0]
    second_oracle = oracle("grr", epsilon=1.0, size=4)
    other_estimate = second_oracle.estimate(second_oracle.zeros() + 30, 100)
    with pytest.raises(ParameterError):
        weighted_total([first_estimate, other_estimate], [0.5, 0.5])
    with pytest.raises(ParameterError):
        weighted_total([first_estimate], [1.0], level=1.0)
