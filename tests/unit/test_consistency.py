"""The promises of every method, and each method against its definition in plain code.

Statistical checks use fixed seeds. Each fails by chance with probability below 1e-6.
"""

import functools
import zlib
from dataclasses import replace
from itertools import chain
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from oracles import ORACLES, Estimate, oracle
from oracles.calibrate import calibrate
from oracles.consistency import METHODS, answer, apply
from oracles.consistency.method import TASKS
from oracles.errors import HubbubError, ParameterError, QueryError, ReportError
from oracles.kernels.simplex import project
from oracles.multi import multi
from tests.queries import make_queries, make_table

FALSE_ALARM = 1e-6
PROMISES = {
    "base": (False, "no", True),
    "base_pos": (True, "no", True),
    "post_pos": (True, "no", True),
    "base_cut": (True, "no", True),
    "norm": (False, "yes", True),
    "norm_mul": (True, "yes", True),
    "norm_sub": (True, "yes", True),
    "norm_cut": (True, "at most", True),
    "norm_hyb": (True, "yes", False),
    "mle_apx": (True, "yes", True),
    "calibrate": (True, "no", True),
    "calibrate_norm_sub": (True, "yes", True),
    "zero": (True, "no", True),
}
"""Promises of the methods of the papers: never negative, sums to one, keeps the order."""
TABLE = {name: (row.non_negative, row.sums_to_one, row.keeps_order) for name, row in METHODS.items()}
CALIBRATED = [name for name, row in METHODS.items() if row.fits_a_prior]
PLAIN = [name for name in TABLE if name not in CALIBRATED]
OURS = [name for name in PROMISES if name not in CALIBRATED]
SUMMING = [name for name, (_, sums, _) in TABLE.items() if sums == "yes"]


def seeded(*label):
    return np.random.default_rng(zlib.crc32(repr(label).encode()))


def of(shares, n=1000, name="oue", epsilon=1.0):
    """Return an estimate with these shares, even if no reports could give them."""
    return Estimate(np.array(shares, float), n, oracle(name, epsilon=epsilon, size=len(shares)))


def counted(o, n, counts):
    return Estimate(o.shares(np.array(counts), n), n, o)


@functools.cache
def known(name, epsilon, size):
    return oracle(name, epsilon=epsilon, size=size)


oracles = st.builds(
    known,
    st.sampled_from(list(ORACLES)),
    st.sampled_from([0.1, 1.0, 4.0, 12.0]),
    st.integers(2, 12),
)


@st.composite
def estimates(draw, least=0):
    """Return estimates of any possible support counts, with ties."""
    o = draw(oracles)
    n = draw(st.sampled_from([n for n in (0, 1, 2, 7, 1000, 10**9) if n >= least]))
    some = draw(st.lists(st.integers(0, n), min_size=1, max_size=6))
    near = [min(int(n * o.q) + step, n) for step in (0, 1, 2)]
    return counted(o, n, draw(st.lists(st.sampled_from([*some, *near]), min_size=o.size, max_size=o.size)))


@st.composite
def wild(draw):
    """Return shares that no reports could give. They are very large, very small or all negative."""
    scale = draw(st.sampled_from([1e-300, 1e-12, 1e-3, 1.0, 1e6, 1e150]))
    some = draw(st.lists(st.floats(-1.0, 1.0), min_size=1, max_size=6))
    o = draw(oracles)
    shares = draw(st.lists(st.sampled_from(some), min_size=o.size, max_size=o.size))
    return Estimate(scale * np.array(shares), draw(st.sampled_from([1, 1000, 10**9])), o)


def check_promises(name, estimate):
    non_negative, sums, keeps_order = TABLE[name]
    x = estimate.shares
    shares = apply(name, estimate)
    assert shares.shape == x.shape
    assert shares.dtype == np.float64
    assert np.isfinite(shares).all()
    large = max(1.0, np.abs(x).max())
    if non_negative:
        assert shares.min() >= 0.0
    if sums == "yes":
        assert abs(shares.sum() - 1.0) < 1e-9 * large
    if sums == "at most":
        assert shares.sum() <= 1.0 + 1e-9
    for equal in np.unique(x):
        assert np.ptp(shares[x == equal]) == 0.0, "equal values have equal shares"
    if keeps_order:
        assert (np.diff(shares[np.argsort(x)]) >= 0.0).all()


def test_the_table_lists_the_promises_of_each_method():
    assert {name: TABLE[name] for name in PROMISES} == PROMISES
    assert set(CALIBRATED) >= {"calibrate", "calibrate_norm_sub"}
    assert all(name == method.name for name, method in METHODS.items())
    assert set(chain.from_iterable(method.good_for for method in METHODS.values())) == set(TASKS)
    assert "single" in METHODS["base_cut"].good_for
    assert "top" in METHODS["norm"].good_for
    assert set(METHODS["norm_hyb"].good_for) == {"top", "sets"}


def test_a_query_can_ask_for_each_and_fall_back_on_each_that_fits_no_prior():
    def accepted(**settings):
        table = make_table({"domain": 3, "oracle": "grr"}, **settings)
        try:
            return bool(make_queries({"q": table}))
        except QueryError:
            return False

    assert [name for name in TABLE if not accepted(methods=[name])] == ["base"]
    assert [name for name in TABLE if not accepted(fallback=name)] == ["base", *CALIBRATED]


@settings(max_examples=150, deadline=None, derandomize=True)
@given(estimate=estimates(least=1))
def test_methods_keep_their_promises(estimate):
    for name in PLAIN:
        check_promises(name, estimate)


@pytest.mark.parametrize("name", CALIBRATED)
@settings(max_examples=25, deadline=None, derandomize=True)
@given(estimate=estimates(least=1))
def test_methods_keep_their_promises_under_a_prior(name, estimate):
    check_promises(name, estimate)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(estimate=wild())
def test_methods_keep_their_promises_for_all_shares(estimate):
    for name in PLAIN:
        check_promises(name, estimate)


@pytest.mark.parametrize("name", TABLE)
def test_missing_promises_have_a_counterexample(name):
    non_negative, sums, keeps_order = TABLE[name]
    estimate = of([0.62, 0.3, 0.25, -0.1, -0.4, 0.02], n=100)
    if not non_negative:
        assert apply(name, estimate).min() < 0.0
    if sums != "yes":
        assert abs(apply(name, estimate).sum() - 1.0) > 1e-3
    if not keeps_order:  # an unchanged share may end below a distributed one
        shares = apply(name, of([0.3, 0.29, -0.5, -0.5]), top=1)
        assert shares[1] > shares[0]


@pytest.mark.parametrize(("names", "examples"), [(PLAIN, 100), (CALIBRATED, 12)])
def test_the_order_of_the_domain_has_no_effect(names, examples):
    @settings(max_examples=examples, deadline=None, derandomize=True)
    @given(estimate=estimates(least=1), data=st.data())
    def check(estimate, data):
        order = np.array(data.draw(st.permutations(range(len(estimate.shares)))))
        reordered = replace(estimate, shares=estimate.shares[order])
        for name in names:
            assert apply(name, reordered) == pytest.approx(apply(name, estimate)[order], rel=1e-9, abs=1e-12)

    check()


DISTRIBUTIONS = st.lists(st.integers(0, 40), min_size=2, max_size=12).filter(any)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(weights=DISTRIBUTIONS)
def test_methods_leave_a_distribution_unchanged(weights):
    shares = np.array(weights) / sum(weights)
    for name in set(OURS) - {"base_cut", "zero"}:
        assert apply(name, of(shares)) == pytest.approx(shares, abs=1e-12)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(estimate=estimates(least=1))
def test_methods_are_idempotent(estimate):
    for name in set(OURS) - {"norm_hyb"}:
        once = apply(name, estimate)
        assert apply(name, replace(estimate, shares=once)) == pytest.approx(once, rel=1e-9, abs=1e-9)


# The definitions, one value after another.


def cut_at(x, threshold):
    return np.array([value if value >= threshold else 0.0 for value in x])


def whole_groups(x, fits):
    """Return the largest values whose sum fits, with equal ones together."""
    positions = set()
    total = 0.0
    for value in sorted({value for value in x if value > 0.0}, reverse=True):
        total += value * np.count_nonzero(x == value)
        if not fits(total):
            break
        positions.add(value)
    return np.array([value in positions for value in x])


def simplex_point(x, total):
    """Return the projection. Try every number of positive values."""
    down = np.sort(x)[::-1]
    for count in range(len(x), 0, -1):
        level = (down[:count].sum() - total) / count
        if down[count - 1] > level:
            return np.maximum(x - level, 0.0)
    raise AssertionError


def hybrid(x, positive):
    positive = positive & (x > 0.0)
    if x[positive].sum() > 1.0:
        positive &= whole_groups(np.where(positive, x, 0.0), lambda total: total < 1.0)
    if positive.all() or not positive.any():
        return simplex_point(x, 1.0)
    shares = x.copy()
    shares[~positive] = simplex_point(x[~positive], 1.0 - x[positive].sum())
    return shares


def likeliest(estimate):
    """Return the result of MLE-Apx as in the paper, which removes negative counts until there are none."""
    o, n = estimate.oracle, estimate.n
    y, p, q = estimate.counts / n, o.p, o.q
    inside = np.ones(o.size, bool)
    while True:
        t = (y[inside].sum() - q * inside.sum() - (p - q)) / ((p - q) * (1 - p - q) + inside.sum() * q * (1 - q))
        shares = np.where(inside, (y - q - q * (1 - q) * t) / (p - q + (p - q) * (1 - p - q) * t), 0.0)
        if (shares >= 0.0).all():
            return shares
        inside &= shares > 0.0


DEFINITIONS = {
    "base": lambda e: e.shares,
    "base_pos": lambda e: np.array([max(value, 0.0) for value in e.shares]),
    "post_pos": lambda e: np.array([max(value, 0.0) for value in e.shares]),
    "base_cut": lambda e: cut_at(e.shares, quantile(2.0, e)),
    "zero": lambda e: cut_at(e.shares, quantile(0.05, e)),
    "norm": lambda e: e.shares + (1.0 - e.shares.sum()) / len(e.shares),
    "norm_mul": lambda e: np.maximum(e.shares, 0.0) / np.maximum(e.shares, 0.0).sum(),
    "norm_sub": lambda e: simplex_point(e.shares, 1.0),
    "norm_cut": lambda e: np.where(whole_groups(e.shares, lambda total: total <= 1.0), e.shares, 0.0),
    "norm_hyb": lambda e: hybrid(e.shares, e.shares > quantile(2.0, e)),
    "mle_apx": likeliest,
}


def quantile(alpha, estimate):
    size = len(estimate.shares)
    return 0.0 if alpha >= size / 2 else stats.norm.isf(alpha / size) * estimate.sigma


@settings(max_examples=200, deadline=None, derandomize=True)
@given(estimate=estimates(least=1))
def test_each_method_follows_its_definition(estimate):
    assume((estimate.shares > 0.0).any())
    total = np.cumsum(np.sort(np.maximum(estimate.shares, 0.0))[::-1])
    assume((np.abs(total - 1.0) > 1e-9).all())  # a sum of 1 fits, up to rounding
    for name, definition in DEFINITIONS.items():
        assert apply(name, estimate) == pytest.approx(definition(estimate), rel=1e-7, abs=1e-9)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(estimate=estimates(least=1), alpha=st.floats(1e-6, 8.0), top=st.integers(1, 15))
def test_alpha_and_top_select_the_unchanged_shares(estimate, alpha, top):
    x = estimate.shares
    assume((x > 0.0).any())
    assume(abs(x[x > 0.0].sum() - 1.0) > 1e-9)
    expected = cut_at(x, quantile(alpha, estimate))
    assert np.array_equal(apply("base_cut", estimate, alpha=alpha), expected)
    assert np.array_equal(apply("zero", estimate, alpha=alpha), expected)
    by_alpha = hybrid(x, x > quantile(alpha, estimate))
    assert apply("norm_hyb", estimate, alpha=alpha) == pytest.approx(by_alpha, rel=1e-7, abs=1e-9)
    by_top = hybrid(x, x >= np.sort(x)[::-1][min(top, len(x)) - 1])
    assert apply("norm_hyb", estimate, top=top) == pytest.approx(by_top, rel=1e-7, abs=1e-9)
    assert np.array_equal(apply("norm_sub", estimate, alpha=alpha, top=top), apply("norm_sub", estimate))


def nearest_distribution(distance, slope, size):
    """Return the least point of a convex function among all distributions, by quadratic programming."""
    result = optimize.minimize(
        distance,
        np.full(size, 1.0 / size),
        jac=slope,
        bounds=[(0.0, 1.0)] * size,
        constraints={"type": "eq", "fun": lambda f: f.sum() - 1.0, "jac": np.ones_like},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    return result.x


@settings(max_examples=60, deadline=None, derandomize=True)
@given(x=st.lists(st.floats(-2.0, 2.0), min_size=2, max_size=6).filter(lambda x: max(x) > 0.0))
def test_norm_sub_is_the_nearest_distribution(x):
    x = np.array(x)
    nearest = nearest_distribution(lambda f: ((f - x) ** 2).sum(), lambda f: 2.0 * (f - x), len(x))
    assert apply("norm_sub", of(x)) == pytest.approx(nearest, abs=1e-6)


def unlikely(estimate, f):
    noise = estimate.oracle.noise(1)
    return float(((estimate.shares - f) ** 2 / (noise.a + noise.b * f)).sum())


@settings(max_examples=200, deadline=None, derandomize=True)
@given(estimate=estimates(least=1))
def test_mle_apx_is_at_least_as_likely_as_norm_sub(estimate):
    ours = apply("mle_apx", estimate)
    other_shares = apply("norm_sub", estimate)
    assert unlikely(estimate, ours) <= unlikely(estimate, other_shares) * (1.0 + 1e-9) + 1e-12


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("name", ["grr", "oue", "hr"])
def test_mle_apx_is_the_most_likely_distribution(name, seed):
    rng = np.random.default_rng(seed)
    o = oracle(name, epsilon=1.0, size=5)
    estimate = counted(o, 500, rng.binomial(500, np.where(np.arange(5) < 2, (o.p + o.q) / 2, o.q)))
    noise = o.noise(1)
    x = estimate.shares

    def slope(f):
        r = (x - f) / (noise.a + noise.b * f)
        return -2.0 * r - noise.b * r * r

    found = nearest_distribution(lambda f: unlikely(estimate, f), slope, 5)
    assert apply("mle_apx", estimate) == pytest.approx(found, abs=1e-4)


@pytest.mark.parametrize("tail", ["flat", "steep", "one value", "ties", "above one"])
@pytest.mark.parametrize("lean", [0.0, 0.7, -0.9])
def test_a_large_vector_finds_the_same_level_as_a_sort(tail, lean):
    rng = seeded(tail)
    size = 200_000
    noise = rng.normal(0.0, 1e-4, size)
    x = {
        "flat": noise + 1 / size,
        "steep": noise + np.arange(1.0, size + 1) ** -1.2 / 5,
        "one value": noise + (np.arange(size) == 12_345) * 0.9,
        "ties": np.round(noise, 4),
        "above one": noise + (np.arange(size) % 50_001 == 0) * 1.05,
    }[tail]
    down = np.sort(x)[::-1]
    levels = (np.cumsum(down) - 1.0) / (np.arange(1, size + 1) + lean)
    last_position = np.flatnonzero(down > levels)[-1]
    assert np.abs(project(x, lean=lean) - np.maximum(x - levels[last_position], 0.0)).max() < 1e-12


# Bias.


def bias_scores(name, runs=2000):
    """Return the distance of each value's mean error from 0, in standard errors."""
    rng = seeded("bias")
    n = 20_000
    o = oracle("oue", epsilon=1.0, size=32)
    true_counts = np.zeros(32, int)
    true_counts[:6] = 9_000, 5_000, 3_000, 2_000, 800, 200
    support = rng.binomial(true_counts, o.p, (runs, 32)) + rng.binomial(n - true_counts, o.q, (runs, 32))
    errors = np.array([apply(name, counted(o, n, counts)) - true_counts / n for counts in support])
    return true_counts, errors.mean(axis=0) / (errors.std(axis=0) / np.sqrt(runs))


def test_norm_has_no_bias():
    _, scores = bias_scores("norm")
    assert np.abs(scores).max() < stats.norm.isf(FALSE_ALARM / 64)


def test_base_pos_is_too_high_for_rare_values_and_for_none_too_low():
    true_counts, scores = bias_scores("base_pos")
    assert (scores[true_counts == 0] > 20.0).all()
    assert scores.min() > -stats.norm.isf(FALSE_ALARM / 64)


# Edges.


@pytest.mark.parametrize("size", [2, 3, 4])
@pytest.mark.parametrize("name", ORACLES)
def test_the_smallest_domains_have_exact_results(name, size):
    o = oracle(name, epsilon=1.0, size=size)
    rng = seeded(name, size)
    for n in (1, 2, 50):
        state = o.zeros()
        o.add(state, o.perturb(rng.integers(0, size, n), rng))
        for counts in (o.support(state, n), [0] * size, [n] * size):
            for method in TABLE if name == "oue" else PLAIN:
                check_promises(method, counted(o, n, counts))


@pytest.mark.parametrize("name", ORACLES)
@pytest.mark.parametrize("method", TABLE)
def test_without_reports_methods_that_sum_to_one_give_equal_shares(method, name):
    estimate = oracle(name, epsilon=1.0, size=4).estimate(oracle(name, epsilon=1.0, size=4).zeros(), 0)
    shares = apply(method, estimate)
    assert (shares == 0.25).all() if method in SUMMING else np.isnan(shares).all()
    share, stderr = answer(method, estimate, [0, 2])
    assert share == 0.5 if method in SUMMING else np.isnan(share)
    assert stderr is None if method not in ("base", "norm") else np.isnan(stderr)


@pytest.mark.parametrize("method", TABLE)
def test_without_independent_reports_no_value_is_significant_and_promises_hold(method):
    estimate = replace(of([0.7, 0.4, -0.1, 0.2, 0.1]), n_independent=0)
    check_promises(method, estimate)
    if method in ("base_cut", "zero"):
        assert not apply(method, estimate).any()


@pytest.mark.parametrize("shares", [[0.0, 0.0, 0.0], [-0.5, -0.1, -0.1], [-1e-300] * 3, [-1e150, -1.0, 0.0]])
@pytest.mark.parametrize("method", PLAIN)
def test_without_positive_values_all_shares_are_equal_or_zero(method, shares):
    result = apply(method, of(shares))
    if method in SUMMING:
        assert result == pytest.approx(np.full(3, 1 / 3))
    elif TABLE[method][0]:
        assert not result.any()


@pytest.mark.parametrize("method", SUMMING)
@pytest.mark.parametrize("count", [0, 400, 1000])
def test_equal_values_share_the_sum(method, count):
    estimate = counted(oracle("oue", epsilon=1.0, size=5), 1000, [count] * 5)
    assert apply(method, estimate) == pytest.approx(np.full(5, 0.2))


@pytest.mark.parametrize("method", TABLE)
def test_methods_do_not_change_the_estimate(method):
    estimate = of([0.7, 0.4, -0.1, 0.2])
    earlier_shares = estimate.shares.copy()
    shares = apply(method, estimate)
    shares += 1.0
    assert np.array_equal(estimate.shares, earlier_shares)


def test_a_sampled_attribute_takes_every_method():
    smp = multi("smp", sizes=[3, 5], epsilon=1.0, oracle="adaptive")
    rng = seeded("smp")
    state = smp.zeros()
    smp.add(state, smp.perturb(np.column_stack([rng.integers(0, 3, 400), rng.integers(0, 5, 400)]), rng))
    for estimate in smp.estimate(state, 400):
        for method in TABLE:
            check_promises(method, estimate)


def test_unbiased_is_another_name_for_base():
    estimate = of([0.7, 0.4, -0.1])
    assert np.array_equal(apply("unbiased", estimate), estimate.shares)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda e: apply("norm_sup", e), "unknown method 'norm_sup'.*norm_sub"),
        (lambda e: apply("base_cut", e, alpha=0.0), "alpha must be a number above 0"),
        (lambda e: apply("zero", e, alpha=float("nan")), "alpha must be a number above 0"),
        (lambda e: apply("norm_hyb", e, top=0), "top must be at least 1"),
        (lambda e: apply("norm_hyb", e, top=1.5), "top must be a whole number"),
    ],
)
def test_a_wrong_option_is_refused(call, message):
    with pytest.raises(ParameterError, match=message) as error:
        call(of([0.7, 0.4, -0.1]))
    assert isinstance(error.value, HubbubError)


def test_a_given_calibration_is_used_unchanged():
    estimate = of([0.7, 0.4, -0.1, 0.2])
    calibration = SimpleNamespace(shares=np.array([0.5, 0.4, 0.0, 0.2]))
    assert np.array_equal(apply("calibrate", estimate, calibrated=calibration), calibration.shares)
    assert apply("calibrate_norm_sub", estimate, calibrated=calibration) == pytest.approx(project(calibration.shares))
    assert np.array_equal(apply("calibrate", estimate), calibrate(estimate).shares)


# Sets.


@pytest.mark.parametrize("method", TABLE)
@settings(max_examples=8, deadline=None, derandomize=True)
@given(estimate=estimates(least=1), data=st.data())
def test_a_set_is_answered_by_the_rule_of_its_method(method, estimate, data):
    size = len(estimate.shares)
    positions = data.draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=size, unique=True))
    share, stderr = answer(method, estimate, positions)
    total = estimate.shares[positions].sum()
    expected = max(total, 0.0) if method == "post_pos" else apply(method, estimate)[positions].sum()
    assert share == pytest.approx(expected, rel=1e-12, abs=1e-15)
    assert (stderr is not None) == (method in ("base", "norm"))
    if method == "base":
        assert stderr == estimate.answer(positions)[1]


def test_post_pos_clips_the_answer_and_not_the_values():
    estimate = of([0.5, -0.2, -0.4, 0.1])
    assert answer("post_pos", estimate, [0, 1])[0] == pytest.approx(0.3)
    assert answer("post_pos", estimate, [1, 3])[0] == 0.0
    assert answer("base_pos", estimate, [0, 1])[0] == 0.5


def test_given_shares_are_not_computed_again():
    estimate = of([0.5, -0.2, -0.4, 0.1])
    assert answer("norm_hyb", estimate, [0, 3], shares=np.array([0.4, 0.1, 0.2, 0.3]))[0] == pytest.approx(0.7)


@pytest.mark.parametrize("positions", [[], [4], [-1], [1, 1], [0.5]])
@pytest.mark.parametrize("method", ["base", "post_pos", "norm_sub"])
def test_a_set_of_wrong_positions_is_refused(method, positions):
    with pytest.raises(ReportError):
        answer(method, of([0.5, -0.2, -0.4, 0.1]), positions)


def simulated(o, own, runs, rng):
    values = np.repeat(np.arange(o.size), own)
    for _ in range(runs):
        state = o.zeros()
        o.add(state, o.perturb(values, rng))
        yield o.estimate(state, len(values))


@pytest.mark.parametrize("name", ["grr", "oue", "ss"])
def test_norm_states_the_error_of_a_set(name):
    """The variance over runs follows chi-square around the stated one."""
    o = oracle(name, epsilon=1.0, size=8)
    runs = 400
    true_counts = np.array([300, 200, 60, 20, 10, 5, 5, 0])
    estimates = list(simulated(o, true_counts, runs, seeded("norm", name)))
    for positions in ([0], [7], [0, 2, 4, 6], list(range(1, 8))):
        answers = [answer("norm", estimate, positions)[0] for estimate in estimates]
        truth = true_counts[positions].sum() / true_counts.sum()
        variance = estimates[0].covariance.contrast(len(positions), 8, truth)
        spread = (runs - 1) * np.var(answers, ddof=1) / variance
        assert stats.chi2.isf(1 - FALSE_ALARM, runs - 1) < spread < stats.chi2.isf(FALSE_ALARM, runs - 1)
        share, stderr = answer("norm", estimates[0], positions)
        at_share = estimates[0].covariance.contrast(len(positions), 8, min(max(share, 0.0), 1.0))
        assert stderr == pytest.approx(np.sqrt(at_share))


@pytest.mark.parametrize("population", [None, 5_000])
@pytest.mark.parametrize("name", ORACLES)
def test_the_error_of_a_set_minus_its_share_of_the_total_is_that_of_its_weights(name, population):
    truth = np.array([0.5, 0.25, 0.15, 0.1, 0.0, 0.0])
    estimate = Estimate(truth, 1_000, oracle(name, epsilon=1.0, size=6), population=population)
    covariance = estimate.covariance
    for positions in ([0], [5], [0, 2, 4], [1, 2, 3, 4, 5]):
        weights = np.isin(np.arange(6), positions) - len(positions) / 6
        expected = weights @ covariance.times(weights, truth)
        assert covariance.contrast(len(positions), 6, truth[positions].sum()) == pytest.approx(expected)


def test_norm_states_no_error_for_the_whole_domain():
    for name in ORACLES:
        share, stderr = answer("norm", of([0.5, 0.1, -0.4, 0.1], name=name), range(4))
        assert share == pytest.approx(1.0)
        assert stderr == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("name", ["grr", "ss"])
def test_errors_of_values_correlate_by_the_covariance(name):
    """Over runs, the covariance with a weighted sum of errors equals the product with the matrix, value by value."""
    o = oracle(name, epsilon=1.0, size=6)
    runs = 1000
    true_counts = np.array([250, 100, 30, 15, 5, 0])
    weights = np.array([1.0, -0.5, 2.0, 0.3, 0.0, 1.0])
    estimates = list(simulated(o, true_counts, runs, seeded("covariance", name)))
    errors = np.array([estimate.shares for estimate in estimates]) - true_counts / true_counts.sum()
    products = errors * (errors @ weights)[:, None]
    law = estimates[0].covariance.times(weights, true_counts / true_counts.sum())
    scores = (products.mean(axis=0) - law) / (products.std(axis=0) / np.sqrt(runs))
    assert np.abs(scores).max() < stats.norm.isf(FALSE_ALARM / 12)
