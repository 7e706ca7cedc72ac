"""The posterior equals the direct sum over all counts, at any size, and keeps the order of noisy counts.

The laws are defined again here, so a wrong law is not compared with itself.
"""

import numpy as np
import pytest
from scipy.special import gammaln, ndtr

from oracles.kernels.curves import Curve
from oracles.kernels.posterior import DIRECT_VALUES, STAIRS, Posterior, distribution, moments
from oracles.kernels.priors import Gaussian, Laplace, Poisson, PowerLaw

WEIGHTS = {
    PowerLaw: lambda law, k: -law.exponent * np.log(k),
    Gaussian: lambda law, k: -((k - law.mean) ** 2) / (2 * law.sd**2),
    Laplace: lambda law, k: -abs(k - law.mean) / law.scale,
    Poisson: lambda law, k: k * np.log(law.mean) - gammaln(k + 1),
}


def laws(n):
    for exponent in (-1.0, 0.7, 1.0, 1.5, 8.0, 20.0):
        yield PowerLaw(n, exponent)
    for mean, sd in ((0.0, 1.0), (0.0, n / 3), (n / 50, n / 500), (n / 3, 2.0), (n, 2.0 * n)):
        yield Gaussian(n, mean, sd)
        yield Laplace(n, mean, sd)
    for mean in (1e-6, 0.5, n / 20, float(n)):
        yield Poisson(n, mean)


def name(law):
    return f"{type(law).__name__}-{'-'.join(f'{value:g}' for value in law.parameters.values())}"


def every_law(n):
    return pytest.mark.parametrize("law", list(laws(n)), ids=name)


def normalised(log_weights):
    """Normalise weights in place, and return the logarithm of their sum. There may be millions."""
    top = log_weights.max()
    log_weights -= top
    weights = np.exp(log_weights, out=log_weights)
    total = weights.sum()
    weights /= total
    return weights, top + np.log(total)


class Direct:
    """Return all possible counts with their probabilities."""

    def __init__(self, law):
        self.k = np.arange(1 if isinstance(law, PowerLaw) else 0, law.n + 1, dtype=float)
        self.log_p = WEIGHTS[type(law)](law, self.k)
        self.log_p -= normalised(self.log_p.copy())[1]

    def moments(self, y, s, split):
        """Return the density of y, mean, standard deviation and P(count > split), by sums over all counts."""
        p, total = normalised(self.log_p - (y - self.k) ** 2 / (2 * s * s))
        mean = p @ self.k
        sd = np.sqrt(p @ (self.k - mean) ** 2)
        return total - np.log(s * np.sqrt(2 * np.pi)), mean, sd, p[self.k > split].sum()

    def below(self, y, s):
        return np.exp(self.log_p) @ ndtr((y - self.k) / s)


def noisy(n, s, size, rng):
    """Counts in and beyond the range, enough of them for a grid."""
    ends = rng.normal(0, 3 * s, size), rng.normal(n, 3 * s, size), [-8 * s, 0, n, n + 8 * s]
    # Beyond 10 s a steep law may still outweigh the noise.
    return np.unique(np.concatenate([*ends, rng.uniform(0, n, size), rng.uniform(8 * s, 30 * s, size)]))


def assert_is_direct(law, s, values, places, split):
    posterior = Posterior(law, s, values)
    direct = Direct(law)
    expected = np.array([direct.moments(y, s, split) for y in values[places]]).T
    assert moments(law, s, values[places]).log_density == pytest.approx(expected[0], rel=1e-6, abs=1e-6)
    assert posterior.mean()[places] == pytest.approx(expected[1], rel=1e-4, abs=1e-290)
    # A deviation below a thousandth of a report is rounding.
    assert np.sqrt(posterior.variance()[places]) == pytest.approx(expected[2], rel=1e-3, abs=1e-6)
    assert posterior.above(split)[places] == pytest.approx(expected[3], abs=1e-4)


@pytest.mark.parametrize("s", [0.05, 1.4, 1.6, 25.0, 400.0, 20_000.0])
@every_law(4_000)
def test_it_is_that_of_the_direct_sum(law, s):
    rng = np.random.default_rng(1)
    values = noisy(law.n, s, 2 * DIRECT_VALUES, rng)
    places = np.linspace(0, len(values) - 1, 30).astype(int)
    assert_is_direct(law, s, values, places, split=int(rng.integers(0, law.n)))


EIGHT_MILLION = 8_000_000


@pytest.mark.parametrize(
    ("law", "s"),
    [
        (PowerLaw(EIGHT_MILLION, 1.2), 5_300.0),
        (Gaussian(EIGHT_MILLION, 300.0, 2_000.0), 900.0),
        (Laplace(EIGHT_MILLION, 190.0, 2_000.0), 5_300.0),
        (Poisson(EIGHT_MILLION, 194.0), 900.0),
    ],
    ids=lambda case: f"{case:g}" if isinstance(case, float) else name(case),
)
def test_it_is_that_of_the_direct_sum_over_8_million_counts(law, s):
    rng = np.random.default_rng(2)
    values = np.sort(np.concatenate([rng.normal(0, 3 * s, 20_000), noisy(law.n, s, 1_000, rng)]))
    near_n = np.searchsorted(values, law.n - s)
    places = np.append(rng.integers(0, len(values), 2), near_n)
    assert_is_direct(law, s, values, places, split=1_000)


@pytest.mark.parametrize("n", [1, 2, 3, 300])
def test_it_is_that_of_the_direct_sum_over_few_counts(n):
    rng = np.random.default_rng(3)
    for law in laws(n):
        for s in (0.3, 2.0, 50.0):
            values = noisy(n, s, DIRECT_VALUES, rng)
            assert_is_direct(law, s, values, rng.integers(0, len(values), 5), split=n // 2)


@pytest.mark.parametrize("s", [0.4, 300.0])
@every_law(100_000)
def test_order_holds_across_every_seam(law, s):
    """Counts that are dense near the ends of exact sums (range and middle of a law), and spread elsewhere."""
    rng = np.random.default_rng(4)
    places = np.concatenate([law.turns(s), [0.0, law.n, law.centre], law.centre + s * np.array([-10.0, 10.0])])
    near_counts = np.concatenate([place + s * rng.normal(0, 8, 600) for place in places])
    values = np.unique(np.concatenate([near_counts, rng.uniform(-8 * s, law.n + 8 * s, 4_000)]))
    values = np.unique(np.concatenate([values, np.nextafter(values, np.inf)]))
    posterior = Posterior(law, s, values)
    mean = posterior.mean()
    assert (np.diff(mean) >= 0).all()
    assert law.lowest <= mean[0] <= mean[-1] <= law.n
    for split in (0, int(law.centre), law.n // 2):
        chance = posterior.above(split)
        assert (np.diff(chance) >= 0).all()
        assert 0 <= chance[0] <= chance[-1] <= 1


def test_a_rising_curve_rises_between_its_points():
    points = np.array([0.0, 1.0, 2.0, 3.0]), np.array([0.0, 0.0, 1.0, 4.0]), np.array([0.0, 5.0, 0.5, 20.0])
    x = np.linspace(0, 3, 1_000)
    assert (np.diff(Curve(*points)(x)) < 0).any()
    rising = Curve(*points).rising()
    assert (np.diff(rising(x)) >= 0).all()
    assert rising(points[0]) == pytest.approx(points[1])


@pytest.mark.parametrize("law", [PowerLaw(50_000, 1.4), Laplace(50_000, 700.0, 90.0)], ids=name)
@pytest.mark.parametrize("s", [STAIRS - 0.01, STAIRS, 80.0])
def test_it_does_not_matter_how_many_are_asked_at_once(law, s):
    values = noisy(law.n, s, 2 * DIRECT_VALUES, np.random.default_rng(5))
    few_values = values[:: len(values) // 50]
    assert len(few_values) <= DIRECT_VALUES < len(values)
    places = np.searchsorted(values, few_values)
    many_posterior = Posterior(law, s, values)
    alone = Posterior(law, s, few_values)
    assert many_posterior.mean()[places] == pytest.approx(alone.mean(), rel=1e-4)
    assert many_posterior.variance()[places] == pytest.approx(alone.variance(), rel=1e-3)
    assert many_posterior.above(3)[places] == pytest.approx(alone.above(3), abs=1e-4)


def test_all_counts_lie_within_the_range_of_the_law():
    posterior = Posterior(PowerLaw(1000, 1.5), 10.0, np.linspace(-50, 1050, 300))
    assert (posterior.above(0) == 1).all()
    assert (posterior.above(1000) == 0).all()
    assert (posterior.above(2) < 1).any()
    assert (Posterior(Poisson(1000, 3.0), 10.0, posterior.values).above(0) < 1).any()


@pytest.mark.parametrize("s", [0.5, 20.0, 3_000.0])
@every_law(100_000)
def test_the_distribution_of_noisy_counts_is_the_direct_one(law, s):
    """Most of a law may be far from its beginning, and much narrower than its range."""
    rng = np.random.default_rng(6)
    values = np.sort(np.concatenate([noisy(law.n, s, 100, rng), law.centre + s * rng.normal(0, 3, 60)]))
    probabilities = distribution(law, s, values)
    places = np.searchsorted(values, law.centre + s * np.linspace(-3, 3, 5)).clip(0, len(values) - 1)
    places = np.concatenate([places, rng.integers(0, len(values), 10), [0, -1]])
    direct = Direct(law)
    assert probabilities[places] == pytest.approx([direct.below(y, s) for y in values[places]], abs=1e-5)
    assert (np.diff(probabilities) >= 0).all()
    assert 0 <= probabilities[0] <= probabilities[-1] <= 1
