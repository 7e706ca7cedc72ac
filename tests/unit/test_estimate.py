"""The errors of estimates. Intervals cover as often as they state, tests keep their level, and sets state their error.

Every statistical check has a fixed seed. The coverage of a cell is pooled over at least 50,000
(value, run) pairs. Its own standard deviation is about 0.1%, so a bound of 0.5% fails by chance
less than once in a million.
"""

import zlib

import numpy as np
import pytest
from scipy import stats

from oracles import ORACLES, Estimate, oracle
from oracles.errors import ParameterError, ReportError
from oracles.estimate import Noise, quantile
from oracles.estimate.pure import dense
from oracles.kernels.tails import binomial_tail, two_binomials_tail
from oracles.multi import multi

PAIRS = 50_000


def population(rng, size, n):
    """Draw n values. One or two are common and most are rare. The common share varies from run to run."""
    common = rng.random()
    weights = (1.0 - common) * rng.dirichlet(np.full(size, 0.2))
    weights[rng.integers(size)] += common
    return rng.choice(size, n, p=weights / weights.sum())


def coverage(views_of, size, n, runs, rng, perturb, zeros, add):
    """Return the share of (value, run) pairs whose interval, not limited, covers the true share."""
    hits = pairs = 0
    batch = max(1, min(runs, 400_000 // n))
    for start in range(0, runs, batch):
        count = min(batch, runs - start)
        values = np.concatenate([population(rng, size, n) for _ in range(count)])
        reports = perturb(values)
        for k in range(count):
            part = slice(k * n, (k + 1) * n)
            state = zeros()
            add(state, reports[part])
            estimate = views_of(state)
            low, high = estimate.interval(cut=False)
            true = np.bincount(values[part], minlength=size) / n
            hits += np.count_nonzero((low <= true) & (true <= high))
            pairs += size
    return hits / pairs


def bound(n, view):
    """Return the tolerance around 95%, half a percent, or two percent if counts are too few."""
    return 0.005 if dense(n, view.p, view.q) else 0.02


@pytest.mark.parametrize("epsilon", [1.0, 3.0])
@pytest.mark.parametrize("name", ORACLES)
def test_intervals_cover_as_stated(name, epsilon):
    """Perturb, count and decode reports, run by run."""
    rng = np.random.default_rng(zlib.crc32(f"{name}{epsilon}".encode()))
    o = oracle(name, epsilon=epsilon, size=256)
    n = min(20_000, int(np.ceil(250 / min(o.q, 1 - o.p))))
    covered = coverage(
        lambda s: o.estimate(s, n), 256, n, PAIRS // 256 + 1, rng, lambda v: o.perturb(v, rng), o.zeros, o.add
    )
    assert abs(covered - 0.95) <= bound(n, o)


@pytest.mark.parametrize("n", [1_000, 10_000, 1_000_000])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0, 8.0])
@pytest.mark.parametrize("size", [2, 3, 37, 256, 1024, 41_270])
@pytest.mark.parametrize("name", ORACLES)
def test_intervals_cover_as_stated_if_counts_follow_their_law(name, size, epsilon, n):
    """Draw counts from Bin(nf, p) + Bin(n - nf, q). The conformance suite shows that they follow this law."""
    rng = np.random.default_rng(zlib.crc32(f"{name}{size}{epsilon}{n}".encode()))
    o = oracle(name, epsilon=epsilon, size=size)
    # A skewed population: a few common values, many rare ones, and many absent ones.
    own = np.where(rng.random(PAIRS) < 0.3, rng.integers(0, n + 1, PAIRS), rng.geometric(min(1, 30 / n), PAIRS) - 1)
    own[rng.random(PAIRS) < 0.2] = 0
    own = np.minimum(own, n)
    counts = rng.binomial(own, o.p) + rng.binomial(n - own, o.q)
    low, high = o.noise(n).interval(o.shares(counts, n))
    covered = np.mean((low <= own / n) & (own / n <= high))
    if bound(n, o) < 0.02:
        assert abs(covered - 0.95) <= 0.005
    else:
        assert covered >= 0.93


@pytest.mark.parametrize("name", ["grr", pytest.param("oue", marks=pytest.mark.long), "olh"])
@pytest.mark.parametrize(
    ("size", "epsilon"), [(37, 1.0), (256, 1.0), pytest.param(37, 4.0, marks=pytest.mark.long), (256, 4.0)]
)
def test_intervals_of_smp_cover_as_stated(name, size, epsilon):
    """The clients that answer are a sample. Without this term the variance at epsilon 4 is a factor 5 too small."""
    rng = np.random.default_rng(zlib.crc32(f"smp{name}{size}{epsilon}".encode()))
    m = multi("smp", sizes=[size, 4, 4], epsilon=epsilon, oracle=name)
    view = m.attributes[0]
    n = min(60_000, max(600, int(np.ceil(330 / min(view.q, 1 - view.p)))))

    def perturb(values):
        return m.perturb(np.column_stack([values, np.zeros((len(values), 2), int)]), rng)

    covered = coverage(lambda s: m.estimate(s, n)[0], size, n, PAIRS // size + 1, rng, perturb, m.zeros, m.add)
    assert abs(covered - 0.95) <= bound(n / 3, view)


@pytest.mark.parametrize("name", ["grr", "oue_z", "oue_r", "sue_z"])
def test_intervals_of_rsfd_cover_as_stated(name):
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    m = multi("rsfd", sizes=[37, 4], epsilon=1.0, oracle=name)
    view = m.attributes[0]
    n = max(600, int(np.ceil(100 / min(view.q, 1 - view.p))))

    def perturb(values):
        return m.perturb(np.column_stack([values, values % 4]), rng)

    covered = coverage(lambda s: m.estimate(s, n)[0], 37, n, PAIRS // 37 + 1, rng, perturb, m.zeros, m.add)
    assert abs(covered - 0.95) <= bound(n, view)


def convolved(k, p, m, q):
    """Return the exact law of Bin(k, p) + Bin(m, q)."""
    return np.convolve(stats.binom.pmf(np.arange(k + 1), k, p), stats.binom.pmf(np.arange(m + 1), m, q))


@pytest.mark.parametrize(
    ("k", "p", "m", "q"),
    [(5, 0.5, 995, 0.02), (300, 0.6, 700, 0.3), (20, 0.9, 2000, 0.01), (50, 0.27, 50, 0.26), (999, 0.5, 1, 0.1)],
)
def test_saddlepoint_tails_match_the_convolution(k, p, m, q):
    law = convolved(k, p, m, q)
    counts = np.arange(k + m + 1)
    above = np.cumsum(law[::-1])[::-1]
    below = np.cumsum(law)
    for exact, ours in (
        (above, two_binomials_tail(counts, k, p, m, q)),
        (below, two_binomials_tail(counts, k, p, m, q, below=True)),
    ):
        for minimum, error in ((1e-6, 0.03), (1e-12, 0.1)):
            telling = (exact > minimum) & (exact < 0.5)
            assert np.abs(ours[telling] / exact[telling] - 1).max() < error
        assert np.abs(ours - exact).max() < 0.01
        assert ours.min() >= 0
        assert ours.max() <= 1


def test_saddlepoint_tails_of_a_handful_of_counts_are_within_a_tenth():
    law = convolved(1, 0.9, 2000, 0.001)
    exact = np.cumsum(law[::-1])[::-1]
    ours = two_binomials_tail(np.arange(2002), 1, 0.9, 2000, 0.001)
    telling = (exact > 1e-12) & (exact < 0.5)
    assert np.abs(ours[telling] / exact[telling] - 1).max() < 0.1


def test_tails_are_exact_for_one_binomial_and_at_the_ends():
    counts = np.arange(-1, 53)
    for p in (1e-4, 0.3, 0.999):
        assert np.allclose(binomial_tail(counts, 50, p), stats.binom.sf(counts - 1, 50, p), rtol=1e-11)
        assert np.allclose(binomial_tail(counts, 50, p, below=True), stats.binom.cdf(counts, 50, p), rtol=1e-11)
        assert np.array_equal(two_binomials_tail(counts, 0, 0.9999, 50, p), binomial_tail(counts, 50, p))
    ends = two_binomials_tail(np.array([-5, 0, 51, 60]), 20, 0.5, 30, 0.1)
    assert ends.tolist() == [1.0, 1.0, 0.0, 0.0]
    assert two_binomials_tail(np.array([50]), 20, 0.5, 30, 0.1)[0] == pytest.approx(0.5**20 * 0.1**30, rel=0.05)


def test_the_middle_of_the_saddlepoint_is_smooth():
    """The formula is 0/0 around the mean. The result must not jump there."""
    tail = two_binomials_tail(np.arange(30_000, 33_001), 40_000, 0.5, 40_000, 0.2874)
    assert (np.diff(tail) <= 0).all()
    assert np.abs(np.diff(tail, 2)).max() < 1.5e-5  # for the normal density it is 1.33e-5 here


@pytest.mark.parametrize("name", ORACLES)
@pytest.mark.parametrize("threshold", [0.0, 0.05])
def test_a_true_share_at_the_threshold_is_rejected_as_rarely_as_stated(name, threshold):
    """On both sides, at most alpha of all p-values of true hypotheses may be below alpha."""
    rng = np.random.default_rng(3)
    o = oracle(name, epsilon=1.0, size=20)
    n, runs, alpha = 400, 4_000, 0.05
    values = np.tile(np.where(np.arange(n) < threshold * n, 7, 3), runs)
    reports = o.perturb(values, rng)
    above = below = 0
    for k in range(runs):
        state = o.zeros()
        o.add(state, reports[k * n : (k + 1) * n])
        e = o.estimate(state, n)
        above += e.test(threshold)[7] <= alpha
        below += e.test(threshold, below=True)[7] <= alpha
    maximum = stats.binom.ppf(1 - 1e-7, runs, alpha * 1.02)
    assert above <= maximum
    assert below <= maximum
    assert above + below > 0.02 * runs, "a test that never rejects proves nothing"


def test_tests_detect_true_differences():
    o = oracle("oue", epsilon=2.0, size=50)
    rng = np.random.default_rng(1)
    values = np.where(rng.random(20_000) < 0.3, 4, rng.integers(0, 50, 20_000))
    state = o.zeros()
    o.add(state, o.perturb(values, rng))
    e = o.estimate(state, 20_000)
    assert e.test(0.2)[4] < 1e-12
    assert e.test(0.4)[4] > 0.99
    assert e.test(0.4, below=True)[4] < 1e-12
    assert (np.delete(e.test(0.2), 4) > 0.5).all()
    with pytest.raises(ParameterError, match="between 0 and 1"):
        e.test(1.5)


def test_repeated_reports_widen_the_errors_but_not_the_shares():
    o = oracle("grr", epsilon=1.0, size=4)
    rng = np.random.default_rng(1)
    state = o.zeros()
    o.add(state, np.tile(o.perturb(rng.integers(0, 4, 1000), rng), (10, 1)))
    e = o.estimate(state, 10_000)
    honest = o.estimate(state, 10_000, n_independent=1_000)
    assert np.array_equal(e.shares, honest.shares)
    assert np.allclose(honest.stderr, e.stderr * np.sqrt(10))
    assert (honest.test(0.0) >= e.test(0.0)).all()
    with pytest.raises(ParameterError, match="n_independent"):
        o.estimate(state, 10_000, n_independent=10_001)
    with pytest.raises(ParameterError, match="whole number"):
        o.estimate(state, -1)
    nothing = o.estimate(state, 10, n_independent=0)
    assert np.isnan(nothing.stderr).all()
    assert (nothing.test(0.1) == 1).all()


def spread(subject, sets, runs, rng):
    """Return (observed variance of a set's share) / (stated variance), for each set of the first attribute."""
    n = 2_000
    size = subject.size if hasattr(subject, "size") else subject.sizes[0]
    column = np.where(np.arange(n) % 4 == 0, 0, 1 + np.arange(n) % (size - 1))
    values = np.tile(column, runs)
    if hasattr(subject, "size"):
        reports = subject.perturb(values, rng)
        read = lambda s: subject.estimate(s, n)
    else:
        reports = subject.perturb(np.column_stack([values, values % 3]), rng)
        read = lambda s: subject.estimate(s, n)[0]
    variances = []
    for k in range(runs):
        state = subject.zeros()
        subject.add(state, reports[k * n : (k + 1) * n])
        estimate = read(state)
        variances.append([estimate.answer(s)[0] for s in sets])
    true = [np.isin(column, s).mean() for s in sets]
    squares = [answer_with(estimate, s, f) ** 2 for s, f in zip(sets, true, strict=True)]
    return ((np.array(variances) - true) ** 2).mean(axis=0) / np.array(squares)


def answer_with(estimate, positions, share):
    """Return the stated error of a set of this share."""
    shares = np.zeros_like(estimate.shares)
    shares[positions[0]] = share
    repeated_estimate = Estimate(shares, estimate.n, estimate.oracle, estimate.n_independent, estimate.population)
    return repeated_estimate.answer(positions)[1]


SETS = [[0], [1, 2], [0, 3, 5, 7], list(range(12)), list(range(2, 20))]


@pytest.mark.parametrize("name", ORACLES)
def test_the_error_of_a_set_is_as_stated(name):
    runs = 1_500
    ratio = spread(oracle(name, epsilon=1.0, size=20), SETS, runs, np.random.default_rng(5))
    assert np.abs(ratio - 1).max() < 7 * np.sqrt(2 / runs)


@pytest.mark.parametrize("name", ["smp:grr", "smp:ss", "smp:olh", "rsfd:grr", "rsfd:oue_z", "rsfd:oue_r", "spl:grr"])
def test_the_error_of_a_set_of_one_of_several_attributes(name):
    runs = 1_500
    solution, inner = name.split(":")
    m = multi(solution, sizes=[20, 3], epsilon=2.0, oracle=inner)
    ratio = spread(m, SETS, runs, np.random.default_rng(6))
    margin = 7 * np.sqrt(2 / runs)
    assert ratio.max() < 1 + margin
    assert ratio.min() > (0.75 if inner == "oue_r" else 1) - margin, "for oue_r the stated error is an upper bound"


def test_a_set_is_a_list_of_distinct_positions():
    e = oracle("grr", epsilon=1.0, size=4).estimate(np.arange(68), 6)
    for bad_value in ([], [4], [-1], [1, 1], [0.5], [[0]], "ab"):
        with pytest.raises(ReportError, match=r"set|position"):
            e.answer(bad_value)
    assert e.answer([0, 1, 2, 3])[0] == pytest.approx(1.0)


def test_the_error_law_in_numbers():
    """Values computed by hand from the formulas, at n = 10^6, oue, epsilon 1."""
    o = oracle("oue", epsilon=1.0, size=1024)
    e = np.e
    sigma = np.sqrt(4 * e / (e - 1) ** 2 / 1e6)
    noise = o.noise(1_000_000)
    assert noise.sigma == pytest.approx(sigma, rel=1e-12)
    assert o.variance(1_000_000, 0.3) == pytest.approx(sigma**2 + 0.3 / 1e6, rel=1e-12)
    threshold = stats.norm.isf(0.05 / 1024) * sigma
    assert noise.significance(1024) == pytest.approx(threshold, rel=1e-12)
    assert noise.significance(4, family_error=2.0) == 0.0
    detectable = o.detectable(1_000_000)
    stderr = np.sqrt(noise.a + noise.b * detectable)
    assert detectable - 1.2816 * stderr == pytest.approx(threshold, rel=0.01), "tails are nearly normal at a million"
    assert o.detectable(10) is None
    low, high = Noise(noise.a, noise.b, 3e-7).interval(np.array([0.2]))
    z = 1.959964
    for edge in (low[0], high[0]):  # at an edge the estimate is z standard errors away
        stderr = np.sqrt(noise.a + noise.b * edge + 3e-7 * edge * (1 - edge))
        assert abs(0.2 - edge) == pytest.approx(z * stderr, rel=1e-6)
    assert quantile(1e-300) == pytest.approx(37.0471, abs=1e-3)
