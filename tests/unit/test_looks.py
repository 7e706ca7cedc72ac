"""A comparison that is read at each final keeps its family error, and its interval holds the truth at every look."""

import numpy as np
import pytest
from scipy import stats

from oracles import oracle
from oracles.estimate.changes import compare
from oracles.estimate.looks import EVERY_LOOK, ONE_LOOK, LookLaw, Looks
from oracles.numbers import Numbers, Scale
from oracles.numbers.number_differences import NumberDifferences

FALSE_ALARM = 1e-6
"""The chance that a test of a correct law fails."""
PATHS, LOOKS = 4_000, 300


@pytest.mark.parametrize(
    ("x", "width"), [(0.1, 3.88), (1.0, 1.70), (3.0, 1.43), (10.0, 1.36), (100.0, 1.41), (1e3, 1.51), (1e4, 1.61)]
)
def test_an_interval_for_every_look_has_a_known_width(x, width):
    assert LookLaw(x).width(1.0 - 0.05 / 8) == pytest.approx(width, abs=0.005)
    assert EVERY_LOOK.law(round(1_000 * x), round(1_000 * x)).information == pytest.approx(x)


def distances(rng, reports):
    """Return the distance from zero at each look of many comparisons without a difference, in standard errors."""
    looks = np.arange(1, LOOKS + 1)
    sums = np.cumsum(rng.normal(size=(PATHS, LOOKS)), axis=1)
    return np.abs(sums / np.sqrt(looks)), looks * reports


@pytest.mark.parametrize("reports", [50, 1_000, 20_000])
def test_all_looks_together_have_the_error_of_one(reports):
    """More than 5% of 4,000 paths are false by chance in less than 1e-6 above the limit."""
    z, counts = distances(np.random.default_rng(1), reports)
    false, false_once, misses = np.zeros(PATHS, bool), np.zeros(PATHS, bool), np.zeros(PATHS, bool)
    for look, count in enumerate(counts.tolist()):
        law = EVERY_LOOK.law(count, count)
        false |= law.p_values(z[:, look]) <= 0.05
        misses |= z[:, look] > law.reach(0.95)
        false_once |= ONE_LOOK.law(count, count).p_values(z[:, look]) <= 0.05
    most = stats.binom.ppf(1.0 - FALSE_ALARM, PATHS, 0.05)
    assert false.sum() == misses.sum() <= most
    assert false_once.mean() > 0.4, "one look is not meant to be read often"


def test_the_smaller_arm_has_the_say():
    assert EVERY_LOOK.law(10**9, 500).information == pytest.approx(1.0, rel=1e-5)
    assert EVERY_LOOK.law(500, 10**9) == EVERY_LOOK.law(10**9, 500)


def test_looks_of_a_day_share_the_family_error_and_leave_p_values_and_intervals():
    o = oracle("oue", epsilon=1.0, size=4)
    before = o.estimate(np.array([10_000, 10_000, 10_000, 10_000]), 30_000)
    after = o.estimate(np.array([10_300, 10_000, 10_000, 10_000]), 30_000)
    one = compare(before, after)
    assert one.proved.tolist() == [True, False, False, False]
    hourly = compare(before, after, looks=Looks.in_a_day(3600))
    assert not hourly.proved.any()
    for name in ("p_values", "low", "high"):
        np.testing.assert_array_equal(getattr(hourly, name), getattr(one, name))
    assert compare(before, after, looks=Looks.in_a_day(7 * 86_400)).proved[0]


@pytest.mark.parametrize(("epsilon", "n"), [(1.0, 20_000), (6.0, 20_000), (6.0, 20)], ids=["dense", "sparse", "few"])
def test_an_interval_for_every_look_holds_that_of_one(epsilon, n):
    o = oracle("oue", epsilon=epsilon, size=8)
    windows = []
    for seed in (1, 2):
        state = o.zeros()
        rng = np.random.default_rng(seed)
        o.add(state, o.perturb(rng.choice(8, n), rng))
        windows.append(o.estimate(state, n))
    one, always = compare(*windows), compare(*windows, looks=EVERY_LOOK)
    assert (always.low < one.low).all()
    assert (always.high > one.high).all()
    assert (always.p_values >= one.p_values).all()
    assert (np.abs([always.low, always.high]) <= 1.0).all()


def test_numbers_have_the_same_law():
    scale, haar = Scale(1.0, 1_000.0, 64, "log"), oracle("haar", epsilon=2.0, size=64)

    def window(seed, n):
        rng = np.random.default_rng(seed)
        tally = haar.zeros()
        haar.add(tally, haar.perturb(scale.positions(rng.lognormal(3.0 + seed / 100, 1.0, n)), rng))
        return Numbers(haar.estimate(tally, n), scale)

    for n in (60, 20_000):
        windows = window(1, n), window(2, n)
        one, always = NumberDifferences(*windows), NumberDifferences(*windows, looks=EVERY_LOOK)
        for narrow, wide in (
            (one.quantile(0.5), always.quantile(0.5)),
            (one.mean(), always.mean()),
            (one.geometric_mean(), always.geometric_mean()),
            (one.range(10, 100), always.range(10, 100)),
        ):
            assert wide.difference == narrow.difference
            assert wide.low <= narrow.low
            assert wide.high >= narrow.high
            assert wide.p_value >= narrow.p_value
        factor = (always.mean().high - always.mean().low) / (one.mean().high - one.mean().low)
        assert factor == pytest.approx(EVERY_LOOK.law(n, n).width(0.95))
