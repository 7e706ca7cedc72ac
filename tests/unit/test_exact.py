"""Exact tests and intervals keep their promises, by enumeration of every outcome, and no promised number is NaN.

Statistical checks have fixed seeds and fail by chance with a probability below 1e-6.
"""

import itertools
import zlib

import numpy as np
import pytest
from scipy import stats

from oracles import ORACLES, Estimate, oracle
from oracles.estimate import change
from oracles.kernels import exact, ranks
from oracles.kernels.arrays import distinct
from oracles.kernels.exact import critical
from oracles.kernels.tails import two_binomials_tail
from oracles.multi import multi


def seeded(*label):
    return np.random.default_rng(zlib.crc32(repr(label).encode()))


def law(k, p, m, q):
    """Return the probabilities of 0..k + m in Bin(k, p) + Bin(m, q)."""
    return np.convolve(stats.binom.pmf(np.arange(k + 1), k, p), stats.binom.pmf(np.arange(m + 1), m, q))


def of_counts(o, counts, n, **more):
    counts = np.asarray(counts)
    return Estimate(o.shares(counts, n), n, o, **more)


def some(n):
    """Return the numbers of holders few, many and all."""
    return sorted({0, 1, 2, 5, n // 100, n // 10, n // 2, n - 1, n} & set(range(n + 1)))


@pytest.mark.parametrize(("n", "q"), [(1, 0.5), (7, 0.25), (50, 0.01), (500, 0.003), (3000, 0.25), (10**6, 1e-5)])
def test_the_critical_count_is_the_least_that_keeps_the_error(n, q):
    for level in (0.05, 0.05 / 64, 0.05 / 10**6):
        tails = stats.binom.sf(np.arange(-1, min(n, 10_000)), n, q)
        counts = np.flatnonzero(tails <= level)
        assert critical(n, q, level) == (int(counts[0]) if len(counts) else None)


@pytest.mark.parametrize("n", [1, 3, 40, 99])
def test_tails_of_few_are_summed_term_by_term(n):
    for k, (p, q) in itertools.product(some(n), [(0.5, 0.27), (0.9, 0.001), (0.4, 0.25)]):
        exact = np.cumsum(law(k, p, n - k, q)[::-1])[::-1]
        counts = np.arange(n + 1)
        assert two_binomials_tail(counts, k, p, n - k, q) == pytest.approx(np.minimum(exact, 1), rel=1e-9, abs=1e-300)
        lower_tail = two_binomials_tail(counts, k, p, n - k, q, below=True)
        assert lower_tail == pytest.approx(np.minimum(np.cumsum(law(k, p, n - k, q)), 1), rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("n", [40, 350, 20_000])
@pytest.mark.parametrize("below", [False, True])
def test_a_test_at_a_threshold_of_zero_has_the_bits_of_an_empty_second_binomial(n, below):
    o = oracle("grr", epsilon=1.0, size=4)
    counts = np.array([0, n // 5, n // 3, n])
    tails = two_binomials_tail(counts, 0, o.p, n, o.q, below=below)
    assert of_counts(o, counts, n).test(0.0, below=below).tolist() == tails.tolist()


CELLS = [("grr", 30, 3.0), ("oue", 12, 1.0), ("olh", 16, 4.0), ("hr", 6, 8.0), ("sue", 5, 16.0), ("ss", 20, 6.0)]
MORE = [
    (name, size, epsilon) for name in ORACLES for size in (2, 9, 200) for epsilon in (0.25, 1.0, 2.0, 4.0, 8.0, 16.0)
]


def least_coverage(o, n):
    """Return the least exact coverage of one value's interval over numbers of holders."""
    counts = np.arange(n + 1)
    e = of_counts(o, counts, n)
    # Ends are rounded in their last bits, so a share exactly at an end counts as covered.
    within = [((e.low <= k / n + 1e-12) & (k / n - 1e-12 <= e.high)) @ law(k, o.p, n - k, o.q) for k in some(n)]
    return min(within)


def least(o, n):
    """Return the promised coverage, 95% for the exact interval, or 94.4% for the score interval with dense counts."""
    # The score interval is an approximation, which may miss the level by a little.
    return 0.944 if min(n * o.q, n * (1 - o.p)) >= 100 else 0.95 - 1e-9


@pytest.mark.parametrize("n", [1, 20, 99, 100, 700, 3000])
@pytest.mark.parametrize(("name", "size", "epsilon"), CELLS)
def test_intervals_cover_exactly(name, size, epsilon, n):
    o = oracle(name, epsilon=epsilon, size=size)
    assert least_coverage(o, n) >= least(o, n)


@pytest.mark.long
@pytest.mark.parametrize("n", [2, 50, 150, 1000, 5000, 20_000])
@pytest.mark.parametrize(("name", "size", "epsilon"), MORE)
def test_intervals_cover_exactly_everywhere(name, size, epsilon, n):
    o = oracle(name, epsilon=epsilon, size=size)
    assert least_coverage(o, n) >= least(o, n)


@pytest.mark.parametrize("n", [5, 150, 1000])
def test_intervals_of_a_sample_cover_exactly_if_counts_are_sparse(n):
    o = oracle("grr", epsilon=4.0, size=300)
    counts = np.arange(n + 1)
    e = of_counts(o, counts, n, population=10 * n)
    for f in (0.0, 0.004, 0.3, 1.0):
        chances = stats.binom.pmf(counts, n, o.q + f * o.gap)
        assert ((e.low <= f + 1e-12) & (f - 1e-12 <= e.high)) @ chances >= 0.95 - 1e-9


@pytest.mark.parametrize("n", [3, 60, 300, pytest.param(4000, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    ("name", "size", "epsilon", "positions"), [("oue", 40, 5.0, 3), ("sue", 12, 8.0, 2), ("grr", 50, 5.0, 4)]
)
def test_intervals_of_sets_cover_exactly(name, size, epsilon, positions, n):
    """The summed count of a set follows the same law for every distribution of its holders."""
    o = oracle(name, epsilon=epsilon, size=size)
    trials, p, q = o.set_law(positions)
    dense = min(trials * n * q, trials * n * (1 - p)) >= 100
    laws = {k: law(k, p, trials * n - k, q) for k in some(n)}
    ends = {}
    # Counts that nearly never occur cost a search each, and together add less than 1e-5.
    for count in np.flatnonzero(np.max(list(laws.values()), axis=0) > 1e-8).tolist():
        counts = np.full(size, round(n * o.q))
        counts[:positions] = 0
        counts[0], counts[1:positions] = count - (positions - 1) * (count // positions), count // positions
        ends[count] = of_counts(o, counts, n).of_set(list(range(positions)))[2:]
    for k, chances in laws.items():
        inside = sum(chances[c] for c, (low, high) in ends.items() if low <= k / n + 1e-12 and k / n - 1e-12 <= high)
        assert inside >= (0.944 if dense else 0.95) - 1e-5


def test_a_large_set_is_computed_from_its_complement():
    o = oracle("oue", epsilon=1.0, size=10)
    e = of_counts(o, seeded("large").binomial(1000, o.q, 10), 1000)
    share, stderr, low, high = e.of_set(list(range(9)))
    rest = e.of_set([9])
    assert share == 1 - rest[0]
    assert stderr == rest[1]
    assert low == 1 - rest[3]
    assert high == 1 - rest[2]
    assert e.of_set(range(10)) == (1.0, 0.0, 1.0, 1.0)


@pytest.mark.parametrize("name", ["oue", "grr", "ss"])
def test_differences_cover(name):
    """In 2,000 windows of real reports 95% are covered, by seven standard errors at most on either side."""
    o = oracle(name, epsilon=2.0, size=4)
    rng = seeded("difference", name)
    n = 1500
    runs = 2000
    values = np.repeat([0, 1, 2, 3], [600, 450, 300, 150])
    reports = o.perturb(np.tile(values, runs), rng)
    inside = 0
    for run in range(runs):
        state = o.zeros()
        o.add(state, reports[run * n : (run + 1) * n])
        _, _, low, high = o.estimate(state, n).difference(0, 1)
        inside += low <= 0.1 <= high
    assert abs(inside / runs - 0.95) < 7 * np.sqrt(0.95 * 0.05 / runs)


def proved_above(e, u, v):
    """Whether u is above v, by the definition."""
    o = e.oracle
    level = 0.05 / (2 * (len(e.shares) - 1))
    if e.n_independent * o.q >= 100:
        share, stderr, _, _ = e.difference(u, v)
        return share > 0 and share >= stats.norm.isf(level) * stderr
    both = e.counts[u] + e.counts[v]
    return stats.binom.sf(e.counts[u] - 1, both, 0.5) <= level


@pytest.mark.parametrize(
    ("name", "epsilon", "n"), [("oue", 1.0, 2000), ("grr", 4.0, 300), ("grr", 1.0, 5000), ("ss", 2.0, 3000)]
)
def test_ranks_follow_their_definition(name, epsilon, n):
    o = oracle(name, epsilon=epsilon, size=12)
    rng = seeded("ranks", name, n)
    true_counts = rng.multinomial(n, rng.dirichlet(np.full(12, 0.3)))
    counts = rng.binomial(true_counts, o.p) + rng.binomial(n - true_counts, o.q)
    # Two equal counts, since neither of them may be above the other.
    counts[5] = counts[6]
    e = of_counts(o, counts, n)
    first_ranks, last_ranks = e.ranks(np.arange(12))
    for v in range(12):
        others = [u for u in range(12) if u != v]
        assert first_ranks[v] == 1 + sum(proved_above(e, u, v) for u in others)
        assert last_ranks[v] == 12 - sum(proved_above(e, v, u) for u in others)


@pytest.mark.parametrize(("name", "epsilon", "n"), [("oue", 1.0, 100_000), ("grr", 6.0, 3000)])
def test_rank_intervals_contain_the_true_rank(name, epsilon, n):
    """Each rank is wrong in at most 5% of windows. This counts errors of the first ten in 100 windows of 64 values."""
    o = oracle(name, epsilon=epsilon, size=64)
    rng = seeded("true ranks", name)
    weights = 1 / np.arange(1, 65)
    own = (n * weights / weights.sum()).astype(int)
    misses = 0
    for _ in range(100):
        first_ranks, last_ranks = of_counts(o, rng.binomial(own, o.p) + rng.binomial(n - own, o.q), n).ranks(
            np.arange(10)
        )
        rank = np.arange(1, 11)
        misses += np.count_nonzero((rank < first_ranks) | (rank > last_ranks))
    # 100 windows of ten ranks.
    assert misses <= stats.binom.isf(1e-6, 1000, 0.05)


def test_a_panel_shows_how_much_of_its_noise_moved():
    """With hr and epsilon 2, one client in ten changes class. The stated error is that much smaller, not too small."""
    o = oracle("hr", epsilon=2.0, size=255)
    rng = seeded("panel")
    n = 40_000
    values = rng.integers(0, 255, n)
    reports = o.perturb(values, rng)
    errors, sizes = [], []
    for _ in range(20):
        is_new = rng.random(n) < 0.1
        later_values = values.copy()
        repeated_reports = reports.copy()
        later_values[is_new] = rng.integers(0, 255, np.count_nonzero(is_new))
        repeated_reports[is_new] = o.perturb(later_values[is_new], rng)
        earlier_estimates, later_estimates = (o.estimate(_tally(o, each), n) for each in (reports, repeated_reports))
        shares, stderr = change(earlier_estimates, later_estimates)
        true = (np.bincount(later_values, minlength=255) - np.bincount(values, minlength=255)) / n
        errors.append((shares - true) / stderr)
        sizes.append(stderr.mean() / change(earlier_estimates, later_estimates, panel=False)[1].mean())
    assert max(sizes) < 0.6
    assert np.mean(np.abs(errors) > 1.96) < 0.06
    assert np.sqrt(np.mean(np.square(errors))) < 1.05


def _tally(o, reports):
    state = o.zeros()
    o.add(state, reports)
    return state


def test_changes_that_a_panel_cannot_show_are_taken_as_independent():
    small_oracle = oracle("oue", epsilon=1.0, size=63)
    large_oracle = oracle("oue", epsilon=1.0, size=64)
    for o in (small_oracle, large_oracle):
        e = of_counts(o, np.full(o.size, 300), 1000)
        _, stderr = change(e, e)  # nothing moved: so small a change cannot be measured
        assert stderr == pytest.approx(np.sqrt(2.0) * e.stderr)


NUMBERS = [0, 1, 5, 99, 100, 1000, 10**9]


@pytest.mark.parametrize("name", ORACLES)
@pytest.mark.parametrize(("size", "epsilon"), [(2, 16.0), (2, 0.01), (3, 16.0), (70, 1.0)])
@pytest.mark.filterwarnings("error")
def test_no_number_that_is_promised_is_missing(name, size, epsilon):
    o = oracle(name, epsilon=epsilon, size=size)
    for n, independent in itertools.product(NUMBERS, (1, 3)):
        for counts in (np.zeros(size, int), np.full(size, n), np.full(size, n // 2), np.eye(size, dtype=int)[0] * n):
            e = of_counts(o, counts, n, n_independent=n // independent)
            numbers = [e.critical(), e.significance(), e.detectable()]
            assert all(number is None or np.isfinite(number) for number in numbers)
            first_ranks, last_ranks = e.ranks([0, 1])
            assert ((first_ranks >= 1) & (first_ranks <= last_ranks) & (last_ranks <= size)).all()
            if not e.n_independent:
                assert numbers == [None] * 3
                assert np.isnan(e.low).all() if n == 0 else True
                continue
            assert np.isfinite([e.low, e.high, e.stderr]).all()
            assert ((e.low >= 0) & (e.low <= e.high) & (e.high <= 1)).all()
            assert np.isfinite([e.of_set([0]), e.difference(0, 1)]).all()
            assert np.isfinite(change(e, e)).all()


def test_an_attribute_of_a_sample_has_all_of_it_too():
    m = multi("smp", sizes=[5, 80], epsilon=2.0, oracle="grr")
    rng = seeded("smp")
    state = m.zeros()
    m.add(state, m.perturb(np.column_stack([rng.integers(0, 5, 4000), rng.integers(0, 3, 4000)]), rng))
    for e in m.estimate(state, 4000):
        assert e.detectable() > e.significance() > 0
        assert (e.low <= e.high).all()
        assert np.isfinite([e.of_set([0, 1]), e.difference(0, 1)]).all()
        assert e.ranks([0])[0][0] >= 1


# --- short cuts for few numbers ---------------------------------------------------------------------------------------


def plain_interval(counts, above, n, p, q, level, trials):
    """Return the interval by a search that has no guess."""
    low = exact.least(lambda k: two_binomials_tail(counts, k, p, trials - k, q) > level, len(counts), n)
    fewer = exact.least(lambda k: two_binomials_tail(above, k, p, trials - k, q, below=True) <= level, len(counts), n)
    return np.minimum(low, n), np.maximum(fewer - 1, 0)


@pytest.mark.parametrize("n", [12, 99, 100, 340, 2_000, 50_000])
@pytest.mark.parametrize("level", [0.4, 0.025, 1e-9])
def test_a_search_around_a_guess_finds_the_same_interval(n, level):
    rng = np.random.default_rng(n)
    for q, trials in itertools.product((0.002, 0.17, 0.4), (n, 2 * n)):
        counts = np.unique(rng.integers(0, min(trials, int(trials * (q + 0.3)) + 3) + 1, 6))
        above = np.minimum(counts + rng.integers(0, 2, len(counts)), trials)
        case = counts, above, n, q + 0.3, q, level, trials
        for end, plain_end in zip(exact.interval(*case), plain_interval(*case), strict=True):
            np.testing.assert_array_equal(end, plain_end)


@pytest.mark.parametrize("size", [0, 1, 5, 64, 65, 300])
@pytest.mark.parametrize("dtype", [np.int64, np.float64])
def test_distinct_numbers_are_those_of_numpy(size, dtype):
    numbers = np.random.default_rng(size).integers(0, 20, size).astype(dtype)
    values, places, times = distinct(numbers)
    expected = np.unique(numbers, return_inverse=True, return_counts=True)
    for result, right in zip((values, places, times), expected, strict=True):
        np.testing.assert_array_equal(result, right)
        assert result.dtype == right.dtype


@pytest.mark.parametrize("size", [1, 2, 7, 16])
def test_few_counts_have_the_ranks_that_a_search_finds(size, monkeypatch):
    rng = np.random.default_rng(size)
    for apart in (0, 1, 3, 30):
        counts = np.unique(rng.integers(0, 40, size))
        many = rng.integers(1, 4, len(counts))
        places = rng.integers(0, len(counts), 5)

        def is_above(u, v, counts=counts, apart=apart):
            return counts[u] - counts[v] > apart

        few_ranks = ranks.ranks(many, places, is_above)
        with monkeypatch.context() as patch:
            # No list is short then, so the search is used for all.
            patch.setattr(ranks, "_FEW_COUNTS", 0)
            np.testing.assert_array_equal(few_ranks, ranks.ranks(many, places, is_above))
