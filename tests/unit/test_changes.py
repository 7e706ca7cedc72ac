"""Differences of two windows have honest intervals, and a proof of a change is seldom false."""

import numpy as np
import pytest

from oracles import oracle
from oracles.errors import ParameterError
from oracles.estimate.changes import compare

RUNS = 300
FALSE_ALARM = 1e-5
"""The chance that a test of a correct comparison fails: the limits are 4.3 standard deviations away."""


def window(o, shares, n, rng):
    """Return the estimate of a window of independent clients, and the true shares of those who answered."""
    values = rng.choice(o.size, n, p=shares)
    state = o.zeros()
    o.add(state, o.perturb(values, rng))
    return o.estimate(state, n), np.bincount(values, minlength=o.size) / n


def zipf(size, exponent=1.1):
    weights = np.arange(1, size + 1) ** -exponent
    return weights / weights.sum()


CASES = [("olh", 1.0, 64, 4_000), ("oue", 1.0, 32, 3_000), ("grr", 4.0, 16, 2_000), ("grr", 2.0, 200, 1_000)]


@pytest.mark.parametrize(("name", "epsilon", "size", "n"), CASES)
def test_intervals_hold_the_true_differences_and_proofs_are_true(name, epsilon, size, n):
    o = oracle(name, epsilon=epsilon, size=size)
    rng = np.random.default_rng(5)
    shares = zipf(size)
    inside, proofs = 0, 0
    for _ in range(RUNS):
        (earlier_estimate, first_reports), (later_estimate, second_reports) = (
            window(o, shares, count, rng) for count in (n, 2 * n)
        )
        result = compare(earlier_estimate, later_estimate)
        inside += np.count_nonzero(
            (result.low <= second_reports - first_reports) & (second_reports - first_reports <= result.high)
        )
        proofs += bool(result.proved.any())
    spread = 4.3 * np.sqrt(0.05 * 0.95 / RUNS)
    assert inside / (RUNS * size) > 0.945 - 0.005
    assert proofs / RUNS < 0.05 + spread, "at rest a proof is false"


@pytest.mark.parametrize(("name", "epsilon", "size", "n"), CASES)
def test_a_large_change_is_proved_in_its_direction(name, epsilon, size, n):
    o = oracle(name, epsilon=epsilon, size=size)
    rng = np.random.default_rng(6)
    shares = zipf(size)
    later_shares = shares.copy()
    later_shares[size // 2] += 0.5
    later_shares /= later_shares.sum()
    for _ in range(20):
        (earlier_estimate, _), (later_estimate, _) = (
            window(o, shares, 10 * n, rng),
            window(o, later_shares, 10 * n, rng),
        )
        result = compare(earlier_estimate, later_estimate)
        assert result.proved[size // 2]
        assert result.low[size // 2] > 0
        backward = compare(later_estimate, earlier_estimate)
        np.testing.assert_allclose(backward.difference, -result.difference)
        np.testing.assert_allclose([-backward.high, -backward.low], [result.low, result.high])
        np.testing.assert_allclose(backward.p_values, result.p_values)


def test_the_error_is_that_of_both_windows():
    o = oracle("olh", epsilon=1.0, size=50)
    rng = np.random.default_rng(7)
    (earlier_estimate, _), (later_estimate, _) = (window(o, zipf(50), n, rng) for n in (4_000, 9_000))
    result = compare(earlier_estimate, later_estimate)
    np.testing.assert_allclose(result.stderr, np.hypot(earlier_estimate.stderr, later_estimate.stderr))
    np.testing.assert_allclose(result.difference, later_estimate.shares - earlier_estimate.shares)


def test_holm_counts_the_whole_domain():
    o = oracle("oue", epsilon=1.0, size=4)
    rng = np.random.default_rng(8)
    (before, _), (after, _) = window(o, [0.25] * 4, 30_000, rng), window(o, [0.34, 0.22, 0.22, 0.22], 30_000, rng)
    few_comparison = compare(before, after)
    minimum = few_comparison.p_values.min()
    edge = int(0.05 / minimum)
    assert few_comparison.proved[0]
    assert compare(before, after, size=edge).proved.any()
    assert not compare(before, after, size=edge + 2).proved.any()
    assert compare(before, after, family_error=minimum * 3.9).proved.sum() == 0


def test_a_panel_shows_small_changes():
    """The same clients repeat their answers, so only those who changed bring noise."""
    o = oracle("olh", epsilon=1.0, size=128)
    rng = np.random.default_rng(9)
    values = rng.choice(128, 40_000, p=zipf(128))
    reports = o.perturb(values, rng)
    state = o.zeros()
    o.add(state, reports)
    changes = rng.random(len(values)) < 0.01
    later_reports = reports.copy()
    later_reports[changes] = o.perturb(np.full(changes.sum(), 77), rng)
    other_state = o.zeros()
    o.add(other_state, later_reports)
    before = o.estimate(state, len(values))
    later_estimate = o.estimate(other_state, len(values))
    assert compare(before, later_estimate, panel=True).stderr.max() < 0.5 * compare(before, later_estimate).stderr.max()


def test_windows_that_do_not_fit_are_refused():
    a = oracle("grr", epsilon=1.0, size=3)
    b = oracle("grr", epsilon=1.0, size=4)
    rng = np.random.default_rng(1)
    with pytest.raises(ParameterError, match="same values"):
        compare(window(a, [1 / 3] * 3, 100, rng)[0], window(b, [0.25] * 4, 100, rng)[0])
    with pytest.raises(ParameterError, match="need reports"):
        compare(window(a, [1 / 3] * 3, 100, rng)[0], a.estimate(a.zeros(), 0))
