"""Fits find the law, shares are posterior means, a harmful prior is rejected, and a right one is the best method.

Every statistical check has a fixed seed and fails by chance with a probability below 1e-6.
"""

import zlib
from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pytest
from scipy.special import gammaln, ndtr

from oracles import Estimate, oracle
from oracles.calibrate import FAMILIES, FITS, calibrate
from oracles.consistency import METHODS, apply
from oracles.consistency.fitting import LAWS
from oracles.consistency.laws import Sample
from oracles.errors import ParameterError
from oracles.kernels.posterior import DIRECT_VALUES, STAIRS


def seeded(*label):
    return np.random.default_rng(zlib.crc32(repr(label).encode()))


def seen(o, own, n, rng):
    """Return the estimate of n reports, own[v] of them from clients that hold value v."""
    return Estimate(o.shares(rng.binomial(own, o.p) + rng.binomial(n - own, o.q), n), n, o)


def estimate(shares, n, *, name="oue", epsilon=2.0, independent=None):
    shares = np.asarray(shares, float)
    return Estimate(
        shares, n, oracle(name, epsilon=epsilon, size=len(shares)), n if independent is None else independent
    )


N, SIZE = 4_000_000, 2_000
TRUE = {
    "power_law": {"exponent": 1.6},
    "gaussian": {"mean": 1_500.0, "sd": 400.0},
    "laplace": {"mean": 1_500.0, "scale": 400.0},
    "poisson": {"mean": 1_500.0},
}


@cache
def power_law():
    chances = np.cumsum(np.arange(1.0, N + 1) ** -1.6)
    return chances / chances[-1]


def drawn(family, rng, size=SIZE):
    """Return true counts from a law of this family. They do not sum to n, because a prior ignores sums."""
    if family == "power_law":
        return 1 + np.searchsorted(power_law(), rng.random(size))
    if family == "poisson":
        return rng.poisson(1_500.0, size)
    draw = rng.normal if family == "gaussian" else rng.laplace
    return np.rint(draw(1_500.0, 400.0, size)).clip(0, N).astype(int)


def direct_likelihood(family, parameters, sample):
    """Return the moments of all noisy counts, by sums over all counts of at most n."""
    k = np.arange(1.0 if family == "power_law" else 0.0, sample.n + 1)
    log_p = {
        "power_law": lambda exponent: -exponent * np.log(k),
        "gaussian": lambda mean, sd: -((k - mean) ** 2) / (2 * sd**2),
        "laplace": lambda mean, scale: -abs(k - mean) / scale,
        "poisson": lambda mean: k * np.log(mean) - gammaln(k + 1),
    }[family](**parameters)
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    noise = np.exp(-(((sample.values[:, None] - k) / sample.s) ** 2) / 2) / (sample.s * np.sqrt(2 * np.pi))
    return sample.times @ np.log(noise @ p), p


SMALL = {
    "power_law": [{"exponent": exponent} for exponent in np.linspace(0, 8, 33)],
    "gaussian": [
        {"mean": mean, "sd": sd} for mean, sd in product((0.0, 3.0, 10.0, 30.0), (1.0, 5.0, 20.0, 50.0, 200.0))
    ],
    "laplace": [
        {"mean": mean, "scale": sd} for mean, sd in product((0.0, 3.0, 10.0, 30.0), (1.0, 5.0, 20.0, 50.0, 200.0))
    ],
    "poisson": [{"mean": mean} for mean in np.geomspace(1e-6, 100, 60)],
}


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
@pytest.mark.parametrize("size", [40, 600])
@pytest.mark.parametrize("family", LAWS)
def test_no_other_parameters_are_more_likely(family, size, epsilon):
    rng = seeded(family, size, epsilon)
    true_counts = rng.multinomial(1_000, rng.dirichlet(np.full(size, 0.3)))
    e = seen(oracle("oue", epsilon=epsilon, size=size), true_counts, 1_000, rng)
    prior = calibrate(e, family).prior
    sample = Sample.of(e)
    best, _ = direct_likelihood(family, prior.parameters, sample)
    assert prior.log_likelihood == pytest.approx(best, abs=1e-2)
    assert best >= max(direct_likelihood(family, other_value, sample)[0] for other_value in SMALL[family]) - 1e-2


def many_noisy(epsilon):
    rng = seeded("many", epsilon)
    return seen(oracle("oue", epsilon=epsilon, size=SIZE), drawn("power_law", rng), N, rng)


def many_exact():
    """Return counts with almost no noise. A grid could miss the integers between them."""
    return estimate(np.append(np.arange(700) ** 1.5 / 1e6, 0.9), 1_000_000, name="grr", epsilon=16.0)


@pytest.mark.parametrize("e", [many_noisy(0.5), many_noisy(4.0), many_exact()], ids=["noisy", "clearer", "exact"])
@pytest.mark.parametrize("family", LAWS)
def test_the_likelihood_of_many_values_is_that_of_each(family, e):
    """Many counts use a grid, few do not."""
    sample = Sample.of(e)
    law = calibrate(e, family).prior.law
    assert len(sample.values) > 3 * DIRECT_VALUES
    runs = [slice(start, start + DIRECT_VALUES) for start in range(0, len(sample.values), DIRECT_VALUES)]
    parts = [replace(sample, values=sample.values[run], times=sample.times[run]) for run in runs]
    assert sample.log_likelihood(law) == pytest.approx(sum(part.log_likelihood(law) for part in parts), abs=1e-2)


@pytest.mark.parametrize("fit", FITS)
@pytest.mark.parametrize("family", LAWS)
def test_a_fit_finds_the_law_that_counts_were_drawn_from(family, fit):
    rng = seeded(family, fit)
    true_counts = drawn(family, rng, 20_000)
    prior = calibrate(seen(oracle("oue", epsilon=4.0, size=20_000), true_counts, N, rng), family, fit).prior
    assert prior.family == family
    if (family, fit) == ("power_law", "mean_variance"):
        # With such a heavy tail the sample mean is rarely the mean of the law. The fit finds the sample mean.
        k = np.arange(1.0, N + 1)
        weight = k ** -prior.parameters["exponent"]
        s = N * oracle("oue", epsilon=4.0, size=20_000).noise(N).sigma
        assert weight @ k / weight.sum() == pytest.approx(true_counts.mean(), abs=6 * s / np.sqrt(20_000))
    else:
        assert prior.parameters == pytest.approx(TRUE[family], rel=0.1)  # six standard deviations or more


def test_mean_and_variance_exclude_the_noise():
    rng = seeded("moments")
    e = seen(oracle("oue", epsilon=4.0, size=SIZE), drawn("gaussian", rng), N, rng)
    y = N * e.shares
    mean = y.mean()
    variance = y.var() - (N * e.sigma) ** 2
    parameters = {family: calibrate(e, family, "mean_variance").prior.parameters for family in LAWS}
    assert parameters["gaussian"] == pytest.approx({"mean": mean, "sd": np.sqrt(variance)})
    assert parameters["laplace"] == pytest.approx({"mean": mean, "scale": np.sqrt(variance / 2)})
    assert parameters["poisson"] == pytest.approx({"mean": mean})


def test_a_power_law_has_the_mean_of_the_counts():
    for mean in (1.5, 20.0, 499.0, 500.5, 650.0):
        e = estimate(np.full(4, mean / 1_000), 1_000)
        k = np.arange(1.0, 1_001)
        weight = k ** -calibrate(e, "power_law", "mean_variance").prior.parameters["exponent"]
        assert weight @ k / weight.sum() == pytest.approx(mean, rel=1e-6)


def test_fits_stay_within_their_clamps():
    n = 1_000
    lower_estimate = estimate(np.full(10, -0.01), n)
    upper_estimate = estimate(np.full(10, 0.99), n)
    by_mean = [
        calibrate(e, "power_law", "mean_variance").prior.parameters["exponent"]
        for e in (lower_estimate, upper_estimate)
    ]
    assert by_mean == [20.0, -1.0]
    by_likelihood = [calibrate(e, "power_law").prior.parameters["exponent"] for e in (lower_estimate, upper_estimate)]
    assert by_likelihood == pytest.approx([8.0, 0.0], abs=1e-4)
    for e, mean in (
        (lower_estimate, 0.0),
        (upper_estimate, 990.0),
    ):  # all values are equal: they vary less than the noise alone
        assert calibrate(e, "gaussian", "mean_variance").prior.parameters == pytest.approx({"mean": mean, "sd": 1.0})
        assert calibrate(e, "laplace", "mean_variance").prior.parameters == pytest.approx(
            {"mean": mean, "scale": np.sqrt(0.5)}
        )
    assert 0 < calibrate(lower_estimate, "poisson", "mean_variance").prior.parameters["mean"] <= 1e-6
    estimate_beyond = estimate(np.full(10, 1.5), n)
    assert calibrate(estimate_beyond, "poisson", "mean_variance").prior.parameters == {"mean": n}


@pytest.mark.parametrize("family", ["power_law", "gaussian", "laplace"])
def test_auto_takes_the_family_of_the_highest_likelihood(family):
    """The families must differ. For example, a Poisson law of a large mean is Gaussian."""
    rng = seeded("auto", family)
    e = seen(oracle("oue", epsilon=8.0, size=SIZE), drawn(family, rng), N, rng)
    auto = calibrate(e, "auto")
    by_family = {name: calibrate(e, name) for name in LAWS}
    assert auto.family == auto.prior.family == family
    assert auto.prior.log_likelihood == max(result.prior.log_likelihood for result in by_family.values())
    assert np.array_equal(auto.shares, by_family[family].shares)


@pytest.mark.parametrize("family", LAWS)
def test_the_statistic_is_the_distance_between_the_distributions(family):
    rng = seeded("statistic", family)
    true_counts = rng.multinomial(1_000, rng.dirichlet(np.full(300, 0.3)))
    e = seen(oracle("oue", epsilon=2.0, size=300), true_counts, 1_000, rng)
    prior = calibrate(e, family).prior
    sample = Sample.of(e)
    _, p = direct_likelihood(family, prior.parameters, sample)
    k = np.arange(1_001 - len(p), 1_001)
    y = np.sort(1_000 * e.shares)
    expected = ndtr((y[:, None] - k) / sample.s) @ p
    ranks = np.arange(1, 301) / 300
    distance = max((ranks - expected).max(), (expected - ranks + 1 / 300).max())
    assert prior.kolmogorov_smirnov == pytest.approx(distance, abs=1e-4)


@pytest.mark.parametrize("independent", [500, 50])
def test_shares_are_the_posteriors_with_its_deviation_and_probabilities(independent):
    """Clients that repeat themselves widen the noise and move no count."""
    rng = seeded("posterior")
    o = oracle("oue", epsilon=1.0, size=50)
    e = seen(o, rng.multinomial(500, rng.dirichlet(np.full(50, 0.3))), 500, rng)
    calibrated = calibrate(replace(e, n_independent=independent))
    k = np.arange(1.0, 501)
    y = 500 * e.shares
    s = 500 * np.sqrt(o.variance(independent))
    p = k ** -calibrated.prior.parameters["exponent"] * np.exp(-(((y[:, None] - k) / s) ** 2) / 2)
    p /= p.sum(axis=1)[:, None]
    mean = p @ k
    assert calibrated.shares == pytest.approx(mean / 500, rel=1e-4)
    assert calibrated.stdev == pytest.approx(np.sqrt(p @ k**2 - mean**2) / 500, rel=1e-4)
    for threshold in (0.0, 0.0019, 0.002, 0.1, 0.998):  # 0.002 is one report: exceeding it takes two
        chance = p[:, k > round(500 * threshold, 6)].sum(axis=1)
        assert calibrated.above(threshold) == pytest.approx(chance, abs=1e-6)
    assert (calibrated.above(-0.5) == 1).all()
    assert (calibrated.above(1.0) == 0).all()


@pytest.mark.parametrize("fit", FITS)
@pytest.mark.parametrize("family", LAWS)
def test_equal_values_get_equal_shares_at_every_position(family, fit):
    rng = seeded("permuted", family, fit)
    e = seen(
        oracle("grr", epsilon=6.0, size=3_000), rng.multinomial(20_000, rng.dirichlet(np.ones(3_000))), 20_000, rng
    )
    order = rng.permutation(3_000)
    calibrated, reordered = (calibrate(sample, family, fit) for sample in (e, replace(e, shares=e.shares[order])))
    assert np.array_equal(calibrated.shares[order], reordered.shares)
    assert np.array_equal(calibrated.stdev[order], reordered.stdev)
    by_shares = np.argsort(e.shares)
    assert (np.diff(calibrated.shares[by_shares]) >= 0).all()
    assert len(np.unique(calibrated.shares)) <= len(np.unique(e.shares)) < 3_000


@pytest.mark.parametrize(("n", "independent"), [(0, 0), (1, 0)])
@pytest.mark.parametrize("family", [*FAMILIES, "auto", "best"])
def test_without_independent_reports_all_shares_are_equal(family, n, independent):
    shares = np.full(4, np.nan) if n == 0 else np.array([1.5, -0.5, 0.0, 0.0])
    calibrated = calibrate(estimate(shares, n, independent=independent), family)
    assert np.array_equal(calibrated.shares, np.full(4, 0.25))
    assert np.array_equal(calibrated.above(0.5), np.full(4, 0.25))
    assert np.array_equal(calibrated.above(-0.5), np.ones(4))
    assert calibrated.stdev == pytest.approx(np.sqrt(0.25 * 0.75))
    assert not calibrated.rejected
    assert calibrated.prior.parameters == {}
    assert "without independent reports" in calibrated.prior.note


def test_a_power_law_notes_a_mean_out_of_its_range():
    rng = seeded("note")
    true_counts = rng.multinomial(50, np.full(100, 0.01))
    e = seen(oracle("oue", epsilon=1.0, size=100), true_counts, 50, rng)
    for fit in FITS:
        assert "more values (100) than reports (50)" in calibrate(e, "power_law", fit).prior.note
        assert calibrate(e, "gaussian", fit).prior.note is None
    enough = seen(oracle("oue", epsilon=1.0, size=50), true_counts[:50], 50, rng)
    assert calibrate(enough).prior.note is None


EDGES = {
    "two values": ([0.9, 0.1], 1_000, 1.0),
    "three values": ([0.9, 0.1, 0.0], 1_000, 1.0),
    "one report": ([1.6, -0.4, 0.3, -0.2], 1, 1.0),
    "two reports": ([1.6, -0.4, 0.3, -0.2], 2, 1.0),
    "all equal": ([0.01] * 100, 1_000, 1.0),
    "all zero": ([0.0] * 100, 1_000, 1.0),
    "all far below": ([-0.5] * 100, 1_000, 1.0),
    "all far above": ([1.7] * 100, 1_000, 1.0),
    "more values than reports": (np.linspace(-0.5, 0.9, 1_000), 20, 1.0),
    "hardly any noise": ([0.0, 0.001, 0.002, 0.5, 0.497], 1_000, 16.0),
    "hardly any noise, many values": (np.append(np.arange(300) / 1e6, 0.95), 1_000_000, 16.0),
    "nothing but noise": (np.linspace(-4e3, 4e3, 500), 1_000, 1e-4),
}


@pytest.mark.parametrize("edge", EDGES)
def test_nothing_surprises_at_the_edges(edge):
    shares, n, epsilon = EDGES[edge]
    e = estimate(shares, n, epsilon=epsilon)
    order = np.argsort(e.shares, kind="stable")
    for family in FAMILIES:
        for fit in FITS if family in LAWS else FITS[:1]:
            calibrated = calibrate(e, family, fit)
            for values in (calibrated.shares, calibrated.above(0.1)):
                assert ((values >= 0) & (values <= 1)).all()
                assert (np.diff(values[order]) >= 0).all()
            assert ((calibrated.stdev >= 0) & (calibrated.stdev <= 1)).all()
            assert np.isfinite(calibrated.prior.log_likelihood)
            assert 0 <= calibrated.prior.kolmogorov_smirnov <= 1
            assert calibrated.rejected in (True, False)


def test_with_almost_no_noise_counts_stay_unchanged():
    e = many_exact()
    assert e.n * e.sigma < STAIRS
    for family in ("power_law", "gaussian", "laplace"):  # no Poisson law has this variance
        assert calibrate(e, family).shares[1:] == pytest.approx(e.shares[1:], abs=3 * e.sigma)


def test_unknown_names_are_refused():
    e = estimate([0.5, 0.5], 10)
    for wrong_value in ({"family": "zipf"}, {"fit": "moments"}, {"fallback": "nothing"}):
        with pytest.raises(ParameterError, match=next(iter(wrong_value.values()))):
            calibrate(e, **wrong_value)


def test_a_prior_that_hurts_is_rejected():
    """All values are equally common. The statistic is 30 of its standard deviations above the bound."""
    o = oracle("oue", epsilon=4.0, size=1_024)
    rng = seeded("uniform")
    true_counts = np.full(1_024, 976)
    runs = [calibrate(seen(o, true_counts, int(true_counts.sum()), rng)).rejected for _ in range(20)]
    assert np.mean(runs) >= 0.95


def heavy(size, n, exponent):
    weights = np.arange(3.0, size + 3) ** -exponent
    return np.diff(np.rint(n * np.cumsum(weights) / weights.sum()), prepend=0).astype(int)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 4.0])
@pytest.mark.parametrize(
    "own", [heavy(16_470, 908_576, 1.1), heavy(1_024, 1_000_000, 1.5)], ids=["like sales in shops", "zipf"]
)
def test_a_helpful_prior_is_not_rejected(own, epsilon):
    """The statistic is 3 standard deviations below the bound. By chance one of a thousand runs crosses it."""
    o = oracle("oue", epsilon=epsilon, size=len(own))
    rng = seeded("heavy", len(own), epsilon)
    assert sum(calibrate(seen(o, own, int(own.sum()), rng)).rejected for _ in range(8)) <= 2


def test_the_prior_is_rejected_in_favour_of_the_fallback_alone():
    """Values are uniform again. There calibrate is worse than norm_sub, but better than zero."""
    rng = seeded("fallback")
    e = seen(oracle("oue", epsilon=4.0, size=1_024), np.full(1_024, 976), 999_424, rng)
    assert calibrate(e).rejected
    assert calibrate(e, fallback="norm_hyb").rejected
    assert not calibrate(e, fallback="zero").rejected


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
@pytest.mark.parametrize("family", LAWS)
def test_no_method_has_a_smaller_error_on_data_from_the_prior(family, epsilon):
    """The least mean squared error of the other methods is larger by 15% or more, seven standard deviations.

    The mean is over all values and runs. A power law is so heavy that the difference needs many values.
    """
    size = 20_000 if family == "power_law" else SIZE
    o = oracle("oue", epsilon=epsilon, size=size)
    rng = seeded("prior", family, epsilon)
    errors = dict.fromkeys(METHODS, 0.0)
    for _ in range(5):
        true_counts = drawn(family, rng, size)
        e = seen(o, true_counts, N, rng)
        calibrated = calibrate(e, family)
        assert not calibrated.rejected
        for method in METHODS:
            errors[method] += np.mean((apply(method, e, calibrated=calibrated) - true_counts / N) ** 2)
    assert min(errors, key=errors.get) == "calibrate"
