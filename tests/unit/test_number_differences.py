"""Differences of numbers between two windows have honest intervals, and a proof of a change is seldom false."""

from itertools import chain

import numpy as np
import pytest

from oracles import oracle
from oracles.errors import ParameterError
from oracles.numbers import Numbers, Scale
from oracles.numbers.number_differences import NumberDifferences

SCALE, HAAR = Scale(1.0, 60_000.0, 256, "log"), oracle("haar", epsilon=2.0, size=256)
SHARES = (0.5, 0.9, 0.95, 0.99)
RUNS, CLIENTS = 60, 10_000


def window(draw, rng, n=CLIENTS):
    tally = HAAR.zeros()
    HAAR.add(tally, HAAR.perturb(SCALE.positions(draw(rng, n)), rng))
    return Numbers(HAAR.estimate(tally, n), SCALE)


def smooth(rng, n, middle=6.3):
    return rng.lognormal(middle, 0.8, n)


def lumps(rng, n):
    return rng.choice([1.0, 50.0, 51.0, 20_000.0], n, p=[0.6, 0.2, 0.1, 0.1])


def all_changes(changes):
    means = (changes.mean(), changes.geometric_mean(), changes.range(1000, 60_000))
    return [*map(changes.quantile, SHARES), *means]


@pytest.mark.parametrize("draw", [smooth, lumps])
def test_windows_of_one_population_seldom_differ(draw):
    """Of 420 intervals 5% may miss and of 420 tests 5% may reject: more than 53 come by chance in less than 1e-6.

    The answers of one window are not independent. The bound takes seven answers as one with seven times the weight.
    """
    rng = np.random.default_rng(1)
    rows = [all_changes(NumberDifferences(window(draw, rng), window(draw, rng))) for _ in range(RUNS)]
    misses = sum(not difference.low - 1e-9 <= 0.0 <= difference.high + 1e-9 for difference in chain.from_iterable(rows))
    rejections = sum(difference.p_value < 0.05 for difference in chain.from_iterable(rows))
    assert misses <= 53
    assert rejections <= 53


def test_a_true_change_is_within_the_interval_and_is_proved():
    rng = np.random.default_rng(2)
    changes = NumberDifferences(window(smooth, rng, 100_000), window(lambda rng, n: smooth(rng, n, 6.8), rng, 100_000))
    for share in SHARES[:3]:
        true = [np.quantile(smooth(np.random.default_rng(3), 10**6, middle), share) for middle in (6.3, 6.8)]
        change = changes.quantile(share)
        assert change.low < true[1] - true[0] < change.high
        assert change.low < change.difference < change.high
        assert change.p_value < 1e-3
    assert changes.geometric_mean().p_value < 1e-6
    assert changes.range(1000, 60_000).low > 0.1


def test_people_who_repeat_their_answers_may_bring_the_opposite_noise():
    """All move from one half to the other, and answer by a table: the errors are twice as large as those of strangers.

    100 intervals of 95%: more than 18 miss by chance in less than 1e-6.
    """
    rng = np.random.default_rng(7)
    misses = {True: 0, False: 0}
    haar = oracle("haar", epsilon=1.0, size=16, table=2)
    scale, n = Scale(0.0, 16.0, 16), 4_000
    for _ in range(100):
        rows = haar.rows(n, rng)
        low, high = (haar.classify(np.full(n, value), rows) for value in (2, 13))
        first_reports = haar.answer(low, rows, rng)
        second = first_reports.copy()
        second[:, 0] ^= (low != high).astype(np.uint8)
        windows = []
        for reports in (first_reports, second):
            tally = haar.zeros()
            haar.add(tally, reports)
            windows.append(Numbers(haar.estimate(tally, n), scale))
        for panel in (True, False):
            change = NumberDifferences(*windows, panel).mean()
            misses[panel] += not change.low <= 11.0 <= change.high
    assert misses[True] <= 18
    assert misses[True] < misses[False]


def test_a_quantile_within_one_bin_has_not_moved():
    """93% and 60% of zeros: the median is in the same bin, so nothing is proved of it."""
    rng = np.random.default_rng(4)

    def zeros(share):
        return lambda rng, n: np.where(rng.random(n) < share, 1.0, 5_000.0)

    changes = NumberDifferences(window(zeros(0.93), rng, 50_000), window(zeros(0.6), rng, 50_000))
    assert changes.quantile(0.5).p_value == 1.0
    assert changes.quantile(0.8).p_value < 1e-6


def test_both_windows_together_are_the_estimate_of_all_reports():
    rng = np.random.default_rng(5)
    tallies = []
    for n in (4_000, 9_000):
        tallies.append(HAAR.zeros())
        HAAR.add(tallies[-1], HAAR.perturb(SCALE.positions(smooth(rng, n)), rng))
    first_estimate, second_estimate, both = (
        HAAR.estimate(t, n) for t, n in ((tallies[0], 4_000), (tallies[1], 9_000), (sum(tallies), 13_000))
    )
    pooled = first_estimate.pooled(second_estimate)
    assert pooled.shares == pytest.approx(both.shares, abs=1e-12)
    assert pooled.answering == both.answering
    assert pooled.n == both.n
    assert pooled.n_independent == both.n_independent


def test_windows_that_cannot_be_compared_are_refused():
    rng = np.random.default_rng(6)
    one = window(smooth, rng)
    none = Numbers(HAAR.estimate(HAAR.zeros(), 0), SCALE)
    other_numbers = Numbers(one.estimate, Scale(1.0, 50_000.0, 256, "log"))
    for after, text in ((none, "need reports"), (other_numbers, "same scale")):
        with pytest.raises(ParameterError, match=text):
            NumberDifferences(one, after)
