"""Heavy hitters, with few wrong decisions, valid ranks and expectations, and lists that follow their rule.

Every statistical check has a fixed seed. It fails by chance with a probability below 1e-6, even if the promise only
just holds.
"""

import zlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from oracles import Estimate, oracle
from oracles.calibrate import calibrate
from oracles.errors import ParameterError
from oracles.heavy import Evidence, Expected, heavy_hitters
from oracles.multi import multi
from oracles.query.settings import Threshold

FAMILY_ERROR = 0.05
FALSE_ALARM = 1e-6


def seeded(*label):
    return np.random.default_rng(zlib.crc32(repr(label).encode()))


def windows(o, own, runs, rng):
    """Return estimates of `runs` windows in which own[v] clients hold value v."""
    n = int(own.sum())
    if o.name in ("sue", "oue"):  # bits are independent, so this is the exact law
        for _ in range(runs):
            yield Estimate(o.shares(rng.binomial(own, o.p) + rng.binomial(n - own, o.q), n), n, o)
        return
    # The rows of these oracles tie the values of a report together, so only real reports have the right law.
    values = np.repeat(np.arange(o.size), own)
    for _ in range(runs):
        state = o.zeros()
        o.add(state, o.perturb(values, rng))
        yield o.estimate(state, n)


def rare_and_common(size, n):
    """A few common values, a tail of rare ones, and as many values without holders."""
    # Half of the values have no holders, since a wrong decision is about one of them.
    weights = np.where(np.arange(size) < size // 2, np.arange(1, size + 1) ** -1.1, 0.0)
    return np.bincount(np.searchsorted(np.cumsum(weights) / weights.sum(), (np.arange(n) + 0.5) / n), minlength=size)


def at_the_threshold(size, n, count):
    """The largest number of values with exactly `count` reports, and one value with the others."""
    true_counts = np.zeros(size, np.int64)
    true_counts[: min(size - 1, n // (2 * count))] = count
    true_counts[-1] = n - true_counts.sum()
    return true_counts


CASES = {
    "rare and common": lambda size, n: (rare_and_common(size, n), "significance", 0),
    "nobody holds most": lambda size, n: (at_the_threshold(size, n, n), "significance", 0),
    "at a share": lambda size, n: (at_the_threshold(size, n, n // 50), 0.02, n // 50),
    "at a count": lambda size, n: (at_the_threshold(size, n, 3), Threshold("count", 3), 3),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(
    ("size", "n", "runs"), [(2, 500, 300), (37, 2_000, 250), (1024, 2_000, 100), (41_270, 5_000, 15)]
)
@pytest.mark.parametrize("name", ["grr", "oue", "olh"])
def test_a_window_decides_a_wrong_value_as_rarely_as_stated(name, size, n, runs, case):
    o = oracle(name, epsilon=1.0, size=size)
    own, threshold, maximum = CASES[case](size, n)
    wrong_runs = 0
    for estimate in windows(o, own, runs, seeded(name, size, case)):
        decided = Evidence(estimate, threshold, FAMILY_ERROR).decided
        wrong_runs += (own[decided] <= maximum).any()
    assert wrong_runs <= stats.binom.ppf(1 - FALSE_ALARM, runs, FAMILY_ERROR)


@pytest.mark.long
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("epsilon", [0.5, 4.0])
@pytest.mark.parametrize("name", ["grr", "oue", "olh", "hr", "ss"])
def test_a_window_decides_a_wrong_value_as_rarely_as_stated_over_many_windows(name, epsilon, case):
    o = oracle(name, epsilon=epsilon, size=256)
    own, threshold, maximum = CASES[case](256, 2_000)
    runs = 4_000
    wrong_runs = 0
    for estimate in windows(o, own, runs, seeded(name, epsilon, case)):
        wrong_runs += (own[Evidence(estimate, threshold, FAMILY_ERROR).decided] <= maximum).any()
    assert wrong_runs <= stats.binom.ppf(1 - FALSE_ALARM, runs, FAMILY_ERROR)


def test_the_family_error_is_used_up():
    """A procedure without any decision would pass the tests above."""
    o = oracle("oue", epsilon=1.0, size=1024)
    true_counts = at_the_threshold(1024, 200_000, 200_000)
    runs = 1_000
    decisions = [Evidence(e).decided for e in windows(o, true_counts, runs, seeded("used up"))]
    wrong_count = sum(len(decided) > 1 for decided in decisions)
    assert all(1023 in decided for decided in decisions)
    # Tails are whole numbers of reports, so a correct procedure may use a little less than the whole error.
    assert stats.binom.cdf(wrong_count, runs, 0.8 * FAMILY_ERROR) > FALSE_ALARM


def test_repeated_reports_add_no_certainty():
    """Ten panes of the same answers prove no more than one pane."""
    o = oracle("olh", epsilon=1.0, size=256)
    true_counts = at_the_threshold(256, 2_000, 2_000)
    runs = 400
    wrong_runs = naive = 0
    for e in windows(o, true_counts, runs, seeded("repeated")):
        with_repeats = Estimate(e.shares, 20_000, o, n_independent=2_000)
        wrong_runs += len(Evidence(with_repeats).decided) > 1
        naive += len(Evidence(replace(with_repeats, n_independent=20_000)).decided) > 1
    assert wrong_runs <= stats.binom.ppf(1 - FALSE_ALARM, runs, FAMILY_ERROR)
    # Without the number of independent reports, noise alone would prove values in most windows.
    assert naive > runs / 2


def test_attributes_of_a_sample_decide_as_rarely_as_stated():
    """With smp the answering clients are random. A share at the threshold is above it in half of all samples."""
    m = multi("smp", sizes=[20, 4], epsilon=4.0, oracle="grr")
    runs, n, rng = 800, 2_000, seeded("smp")
    values = np.column_stack([np.minimum(np.arange(n) // (n // 50), 19), np.zeros(n, int)])
    wrong_runs = 0
    for _ in range(runs):
        state = m.zeros()
        m.add(state, m.perturb(values, rng))
        wrong_runs += (Evidence(m.estimate(state, n)[0], 0.02).decided < 19).any()
    assert 0 < wrong_runs <= stats.binom.ppf(1 - FALSE_ALARM, runs, FAMILY_ERROR)


class Exact:
    """A posterior by direct summation, for shares from a prior over counts and the constant noise of SUE."""

    def __init__(self, estimate, prior):
        self.prior = prior
        self.counts = np.arange(len(prior))
        self.n = estimate.n
        distance = (estimate.n * estimate.shares[:, None] - self.counts) / (estimate.n * estimate.sigma)
        weight = prior * np.exp(-(distance**2) / 2)
        self.weight = weight / weight.sum(axis=1, keepdims=True)

    def above(self, threshold):
        return self.weight[:, self.counts > self.n * threshold].sum(axis=1)


@pytest.mark.parametrize("threshold", ["significance", 0.02])
def test_expected_precision_and_recall_match_the_true_ones_on_data_from_the_prior(threshold):
    o = oracle("sue", epsilon=2.0, size=200)
    n, rng = 50_000, seeded("prior", threshold)
    # A power law with a heavy tail, so that true shares lie near the threshold, where expectations can err.
    prior = np.arange(1.0, 4_001.0) ** -1.2
    prior /= prior.sum()
    listed = hits = true = 0.0
    variance = spread = expected_hits = said_all = 0.0
    for _ in range(60):
        own_values = rng.choice(len(prior), o.size, p=prior)
        e = Estimate(o.shares(rng.binomial(own_values, o.p) + rng.binomial(n - own_values, o.q), n), n, o)
        posterior = Exact(e, prior)
        hitters = heavy_hitters(e, threshold=threshold, posterior=posterior)
        heavy = own_values > n * hitters.threshold
        likely = posterior.above(hitters.threshold)
        assert np.array_equal(hitters.probabilities, likely[hitters.positions])
        listed += len(hitters)
        hits += heavy[hitters.positions].sum()
        true += heavy.sum()
        expected_hits += hitters.expected.precision * len(hitters)
        said_all += hitters.expected.precision * len(hitters) / hitters.expected.recall
        spread += (likely[hitters.positions] * (1 - likely[hitters.positions])).sum()
        variance += (likely * (1 - likely)).sum()
    # Five standard errors of so many values are passed by chance with a probability below 1e-6.
    assert listed > 500
    assert 0.5 < hits / listed < 0.99
    assert abs(expected_hits - hits) < 5 * np.sqrt(spread)
    assert abs(said_all - true) < 5 * np.sqrt(variance)


def test_expectations_by_a_fitted_prior_match_too():
    """With data of a power law and oue, calibrate fits a prior near the true one."""
    o = oracle("oue", epsilon=2.0, size=1_000)
    n, rng = 200_000, seeded("fitted")
    prior = np.arange(1.0, n // 4) ** -1.5
    prior /= prior.sum()
    listed = hits = heavy = precise = by_recall = 0.0
    for _ in range(30):
        own = rng.choice(len(prior), o.size, p=prior) + 1
        e = Estimate(o.shares(rng.binomial(own, o.p) + rng.binomial(n - own, o.q), n), n, o)
        calibrated = calibrate(e)
        hitters = heavy_hitters(e, calibrated.shares, posterior=calibrated)
        true = own > n * hitters.threshold
        listed += len(hitters)
        hits += true[hitters.positions].sum()
        heavy += true.sum()
        precise += hitters.expected.precision * len(hitters)
        by_recall += hitters.expected.recall * true.sum()
    for of, sum_of_expectations in ((listed, precise), (heavy, by_recall)):
        assert abs(hits - sum_of_expectations) < 5 * np.sqrt(sum_of_expectations * (1 - sum_of_expectations / of))


@pytest.mark.parametrize(("name", "size", "n"), [("grr", 50, 20_000), ("oue", 50, 2_000), ("olh", 200, 5_000)])
@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_rank_intervals_hold_the_true_rank_of_a_value_as_often_as_stated(name, size, n, epsilon):
    o = oracle(name, epsilon=epsilon, size=size)
    own = rare_and_common(size, n)
    first = 1 + (own[:, None] < own).sum(axis=1)
    last = size - (own[:, None] > own).sum(axis=1)
    runs = 200
    errors, narrow = np.zeros(size), 0
    for e in windows(o, own, runs, seeded("ranks", name, epsilon)):
        hitters = heavy_hitters(e, np.ones(size), threshold=0.5)
        assert len(hitters) == size
        low, high = hitters.ranks.T
        errors[hitters.positions] += (low > last[hitters.positions]) | (high < first[hitters.positions])
        narrow += (high - low < size - 1).any()
    # Each of the values is looked at, so each has its part of the false alarm.
    assert errors.max() <= stats.binom.ppf(1 - FALSE_ALARM / size, runs, 0.05)
    # Intervals over all ranks would always hold the true one.
    assert narrow > runs / 2


@st.composite
def estimates(draw):
    """Return small estimates with few reports, ties, shares below 0 and above 1, repeats, or samples."""
    o = oracle(
        draw(st.sampled_from(["grr", "sue", "oue", "blh", "olh", "hr", "ss"])),
        epsilon=1.5,
        size=draw(st.integers(2, 12)),
    )
    n = draw(st.integers(1, 300))
    counts = np.array(draw(st.lists(st.integers(0, n), min_size=o.size, max_size=o.size)))
    independent = draw(st.integers(1, n))
    population = draw(st.sampled_from([None, 2 * n]))
    return Estimate(o.shares(counts, n), n, o, independent, population)


THRESHOLDS = st.sampled_from(["significance", 0.0, 0.1, 0.9, 5, 100, Threshold("count", 20), Threshold("share", 0.3)])


def holm(p, error):
    """Holm 1979, step by step."""
    decided = np.zeros(len(p), bool)
    for step, v in enumerate(np.argsort(p, kind="stable")):
        # The first value that fails ends the procedure, though later ones may be below their own limit.
        if p[v] > error / (len(p) - step):
            break
        decided[v] = True
    return decided


@settings(max_examples=150, deadline=None)
@given(estimates(), THRESHOLDS, st.sampled_from([0.01, 0.05, 0.4, 0.9]))
def test_holm_p_values_and_ranks_follow_their_definition(e, threshold, error):
    evidence = Evidence(e, threshold, error)
    p = e.test(evidence.proved_above) if evidence.proved_above < 1 else np.ones(e.oracle.size)
    hitters = evidence.hitters(np.full(e.oracle.size, 1e9))
    proved = np.flatnonzero(holm(p, error)).tolist()
    significance = threshold == "significance"
    assert hitters.positions.tolist() == (proved if significance else list(range(e.oracle.size)))
    assert np.array_equal(hitters.p_values, p[hitters.positions])
    assert np.array_equal(hitters.decided, holm(p, error)[hitters.positions])
    assert evidence.decided.tolist() == proved
    if significance and e.critical(error) is not None:
        significant = np.flatnonzero(e.counts * e.n_independent >= e.critical(error) * e.n)
        assert set(significant.tolist()) <= set(proved)


@settings(max_examples=100, deadline=None)
@given(estimates(), THRESHOLDS, st.randoms(use_true_random=False), st.data())
def test_a_list_follows_its_rule_in_every_order_of_the_domain(e, threshold, random, data):
    shares = np.array(
        data.draw(
            st.lists(st.sampled_from([-0.1, 0.0, 0.05, 0.3, 0.35, 1.2]), min_size=len(e.shares), max_size=len(e.shares))
        )
    )
    hitters = heavy_hitters(e, shares, threshold=threshold)
    proved = set(Evidence(e, threshold).decided.tolist())
    above = set() if threshold == "significance" else set(np.flatnonzero(shares >= hitters.threshold).tolist())
    assert set(hitters.positions.tolist()) == proved | above
    paper = heavy_hitters(e, shares, threshold=threshold, rule="paper")
    assert sorted(paper.positions) == np.flatnonzero(shares > paper.threshold).tolist()
    assert hitters.shares.tolist() == shares[hitters.positions].tolist()
    keys = [(-hitter.share, hitter.position) for hitter in hitters]
    assert keys == sorted(keys)
    ranks = [(1 + (e.shares > x).sum(), len(e.shares) - (e.shares < x).sum()) for x in e.shares[hitters.positions]]
    assert all(h.ranks[0] <= first and last <= h.ranks[1] for h, (first, last) in zip(hitters, ranks, strict=True))

    order = list(range(len(e.shares)))
    random.shuffle(order)
    reordered = heavy_hitters(replace(e, shares=e.shares[order]), shares[order], threshold=threshold)
    before = {h.position: (h.share, h.decided, h.p_value, h.ranks) for h in hitters}
    assert {order[h.position]: (h.share, h.decided, h.p_value, h.ranks) for h in reordered} == before


def test_a_list_of_sparse_counts_names_no_false_value_more_often_than_stated():
    """With grr, epsilon 8 and 300 equal values, the rule of the papers lists a false value in most windows."""
    o, rng, runs = oracle("grr", epsilon=8.0, size=300), seeded("sparse"), 200
    true_counts = np.zeros(300, int)
    true_counts[0] = 300
    wrong_runs = {"decided": 0, "paper": 0}
    for e in windows(o, true_counts, runs, rng):
        for rule in wrong_runs:
            wrong_runs[rule] += bool((heavy_hitters(e, rule=rule).positions != 0).any())
    assert wrong_runs["decided"] <= stats.binom.ppf(1 - FALSE_ALARM, runs, 0.05)
    assert wrong_runs["paper"] > runs / 2


def grr(counts, n=None, **options):
    o = oracle("grr", epsilon=2.0, size=len(counts))
    n = sum(counts) if n is None else n
    return Estimate(o.shares(np.array(counts), n), n, o, **options)


def test_a_threshold_is_significance_a_share_or_a_count():
    e = grr([600, 200, 100, 100])
    assert heavy_hitters(e).threshold == e.significance()
    assert heavy_hitters(e, family_error=0.2).threshold == e.significance(0.2)
    assert heavy_hitters(e, rule="paper").threshold == e.noise.significance(4, 0.05)
    with pytest.raises(ParameterError, match="rule must be one of decided, paper"):
        heavy_hitters(e, rule="mine")
    assert heavy_hitters(e, threshold=0.2).threshold == heavy_hitters(e, threshold=200).threshold == 0.2
    assert heavy_hitters(e, threshold=Threshold("count", 200)).threshold == 0.2
    assert len(heavy_hitters(e, threshold=1_000_000)) == 0
    for wrong_value in ("often", -0.1, float("nan"), float("inf")):
        with pytest.raises(ParameterError, match="threshold"):
            heavy_hitters(e, threshold=wrong_value)
    for wrong_value in (0.0, 1.0):
        with pytest.raises(ParameterError, match="family_error"):
            heavy_hitters(e, family_error=wrong_value)
    with pytest.raises(ParameterError, match="must have shape"):
        heavy_hitters(e, [0.1, 0.2])


def test_no_share_is_proved_to_exceed_one():
    e = grr([1000, 0, 0, 0])
    assert e.shares[0] > 1
    hitters = heavy_hitters(e, [3.0, 0.0, 0.0, 0.0], threshold=1_500)
    assert [(h.position, h.decided, h.p_value) for h in hitters] == [(0, False, 1.0)]


def test_nothing_is_listed_without_reports():
    nothing = grr([0, 0, 0, 0], n=0)
    for threshold in ("significance", 0.1, 5):
        assert len(heavy_hitters(nothing, np.full(4, 0.25), threshold=threshold)) == 0


def test_nothing_is_decided_without_independent_reports():
    hitters = heavy_hitters(grr([5, 1, 1, 1], n_independent=0), threshold=0.2)
    assert [(h.position, h.decided, h.p_value, h.ranks) for h in hitters] == [(0, False, 1.0, (1, 4))]


def test_expectations_of_an_empty_list_and_of_an_empty_crowd_of_heavy_hitters():
    class Sure:
        def __init__(self, *above):
            self.above = lambda threshold: np.array(above)

    e = grr([400, 300, 200, 100])
    everything, nothing = np.ones(4), np.zeros(4)
    assert heavy_hitters(e, everything, threshold=0.5).expected is None
    assert heavy_hitters(e, everything, threshold=0.5, posterior=Sure(1, 0.5, 0, 0)).expected == Expected(0.375, 1.0)
    assert heavy_hitters(e, nothing, threshold=0.5, posterior=Sure(1, 0.5, 0, 0)).expected == Expected(None, 0.0)
    assert heavy_hitters(e, nothing, threshold=0.5, posterior=Sure(0, 0, 0, 0)).expected == Expected(None, None)
    assert heavy_hitters(e, [1, 0, 0, 0], threshold=0.5, posterior=Sure(1, 1, 0, 0)).expected == Expected(1.0, 0.5)


def test_a_million_values_are_handled_at_once():
    o = oracle("olh", epsilon=1.0, size=1_000_000)
    n, rng = 8_000_000, seeded("million")
    true_counts = np.zeros(o.size, np.int64)
    true_counts[:3] = 3_000_000, 2_000_000, 100_000
    e = Estimate(o.shares(rng.binomial(true_counts, o.p) + rng.binomial(n - true_counts, o.q), n), n, o)
    hitters = heavy_hitters(e)
    assert [(h.position, h.decided, h.ranks) for h in hitters][:3] == [
        (0, True, (1, 1)),
        (1, True, (2, 2)),
        (2, True, (3, 3)),
    ]
    assert len(heavy_hitters(e, threshold=1e-7)) > 400_000
