"""The prior without a family: its posterior, its errors, the choice `best`, and priors from elsewhere.

Every statistical check has a fixed seed and fails by chance with a probability below 1e-6.
"""

import json
import os
import pickle
import subprocess
import sys
import zlib
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

from oracles import Estimate, oracle
from oracles.calibrate import Prior, calibrate
from oracles.errors import ParameterError
from oracles.kernels.simplex import project

N, SIZE = 1_000_000, 1_024


def seeded(*label):
    return np.random.default_rng(zlib.crc32(repr(label).encode()))


def counts_of(weights, n=N):
    shares = np.asarray(weights, float) / np.sum(weights)
    counts = np.floor(n * shares).astype(int)
    counts[0] += n - counts.sum()
    return counts


def seen(own, epsilon, rng, name="oue"):
    o = oracle(name, epsilon=epsilon, size=len(own))
    n = int(own.sum())
    return Estimate(o.shares(rng.binomial(own, o.p) + rng.binomial(n - own, o.q), n), n, o)


RANKS = np.arange(1, SIZE + 1)
POPULATIONS = {
    "equal": np.ones(SIZE),
    "48 equal": np.ones(48),
    "64 hold 60%": np.where(RANKS <= 64, 0.6 / 64, 0.4 / (SIZE - 64)),
    "half empty": np.where(RANKS <= 512, 1.0, 0.0),
}


@pytest.mark.parametrize("epsilon", [2.0, 4.0])
@pytest.mark.parametrize("name", POPULATIONS)
def test_where_no_family_fits_the_free_prior_is_far_better(name, epsilon):
    """The error is a mean of six windows. It lies seven of its standard deviations and more below the bound."""
    own = counts_of(POPULATIONS[name])
    rng = seeded(name, epsilon)
    errors = {"free": 0.0, "power_law": 0.0, "best": 0.0}
    for _ in range(6):
        e = seen(own, epsilon, rng)
        for family in errors:
            shares = project(calibrate(e, family).shares)
            errors[family] += float(np.mean((shares - own / own.sum()) ** 2)) / e.sigma**2 / 6
    bound = 0.9 if (name, epsilon) == ("half empty", 2.0) else 0.35
    assert errors["free"] < bound * errors["power_law"]
    assert errors["best"] == errors["free"]


def test_best_takes_the_power_law_where_it_fits():
    rng = seeded("power law")
    own = counts_of(np.arange(3.0, SIZE + 3) ** -1.5)
    families = {calibrate(seen(own, 0.5, rng), "best").prior.family for _ in range(5)}
    assert "power_law" in families
    with pytest.raises(ParameterError, match="mean and variance"):
        calibrate(seen(own, 0.5, rng), "best", "mean_variance")


@pytest.mark.parametrize("n", [600, 2_000])
def test_the_posterior_is_that_of_two_binomials(n):
    """Bins and the saddlepoint move a mean by less than a hundredth of the noise, and a probability by 0.003."""
    rng = seeded("direct", n)
    e = seen(counts_of(rng.dirichlet(np.full(40, 0.3)), n), 2.0, rng)
    calibrated = calibrate(e, "free")
    atoms = calibrated.prior.atoms
    p, q = e.oracle.p, e.oracle.q
    counts = np.rint(n * (q + (p - q) * e.shares)).astype(int)

    # Atoms between two integers: each side's law, weighted by the distance.
    lower = np.floor(n * atoms.shares).astype(int)
    part = n * atoms.shares - lower
    laws = {
        k: np.convolve(binom.pmf(range(k + 1), k, p), binom.pmf(range(n - k + 1), n - k, q))
        for k in range(n + 1)
        if k in lower or k in lower + 1
    }
    at_lower = np.array([laws[k][counts] for k in lower])
    at_upper = np.array([laws[min(k + 1, n)][counts] for k in lower])
    joint = atoms.weights[:, None] * (at_lower + part[:, None] * (at_upper - at_lower))
    joint /= joint.sum(axis=0)

    assert np.abs(calibrated.shares - atoms.shares @ joint).max() < 0.01 * e.sigma
    chance = joint[atoms.shares > 0.05].sum(axis=0)
    assert np.abs(calibrated.above(0.05) - chance).max() < 0.01


def test_weights_are_a_law_and_no_small_change_of_them_is_more_likely():
    rng = seeded("likely")
    e = seen(counts_of(rng.dirichlet(np.full(300, 0.3)), 100_000), 2.0, rng)
    prior = calibrate(e, "free").prior
    assert prior.parameters == {}
    assert prior.atoms.weights.sum() == pytest.approx(1.0, abs=1e-7)
    assert (prior.atoms.weights > 0).all()
    assert (np.diff(prior.atoms.shares) > 0).all()

    for other in (1.0, 0.0):
        moved = prior.atoms.weights * rng.choice([0.5, 2.0], len(prior.atoms.weights)) ** other
        if not other:
            moved = np.ones(len(moved))
        moved_prior = replace(prior, atoms=replace(prior.atoms, weights=moved / moved.sum()))
        assert calibrate(e, prior=moved_prior).prior.log_likelihood < prior.log_likelihood


def test_repeated_answers_and_samples_of_people_take_the_normal_law():
    """Four equal answers of each person say what one says, and so does a half of twice as many people."""
    rng = seeded("normal")
    e = seen(counts_of(POPULATIONS["64 hold 60%"]), 2.0, rng)
    once = calibrate(e, "free").shares
    four_times = calibrate(Estimate(e.shares, 4 * N, e.oracle, N), "free").shares
    assert np.abs(four_times - once).max() < 0.1 * e.sigma

    sample = Estimate(e.shares, N, e.oracle, N, population=2 * N)
    assert np.abs(calibrate(sample, "free").shares - once).max() < 0.2 * e.sigma


@pytest.mark.parametrize("family", ["power_law", "gaussian", "laplace", "poisson"])
def test_a_law_of_counts_means_the_same_as_a_prior_from_elsewhere(family):
    """The families take normal noise of one variance. From elsewhere the exact law stands in its place."""
    rng = seeded("law", family)
    weights = np.arange(3.0, SIZE + 3) ** -1.5 if family == "power_law" else rng.gamma(100.0, size=SIZE)
    e = seen(counts_of(weights), 1.0, rng)
    own = calibrate(e, family)
    elsewhere = calibrate(e, prior=own.prior)
    assert elsewhere.family == family
    assert np.abs(elsewhere.shares - own.shares).max() < 0.02 * e.sigma


def test_a_value_far_from_all_atoms_takes_the_nearest_one():
    rng = seeded("far")
    e = seen(counts_of([0.5, 0.3, 0.2]), 4.0, rng)
    prior = Prior.of_counts([1, 1, 98])
    assert calibrate(e, prior=prior).shares == pytest.approx([0.98, 0.01, 0.01])


def test_a_prior_from_elsewhere_serves_few_reports():
    """Open answers and a window of a million reports both know what 2,000 reports cannot."""
    rng = seeded("elsewhere")
    own = counts_of(np.arange(1.0, 65) ** -1.2)
    truth = own / N
    few = counts_of(own, 2_000)
    many = calibrate(seen(own, 2.0, rng), "free").prior
    errors = np.zeros(3)
    for _ in range(40):
        e = seen(few, 1.0, rng)
        priors = (None, many, Prior.of_counts(own))
        errors += [np.mean((calibrate(e, prior=prior).shares - truth) ** 2) for prior in priors]
    assert (errors[1:] < errors[0]).all()
    assert calibrate(e, prior=Prior.of_counts(own)).rejected in (True, False)
    for wrong in ([], [[1]], [0, 0], [1, -1], [float("nan")]):
        with pytest.raises(ParameterError, match="counts of a prior"):
            Prior.of_counts(wrong)
    with pytest.raises(ParameterError, match="leave out family"):
        calibrate(e, "free", prior=many)
    with pytest.raises(ParameterError, match="without independent reports"):
        calibrate(e, prior=calibrate(replace(e, n_independent=0)).prior)


SCRIPT = """
import json, sys
import numpy as np
from oracles import Estimate, oracle
from oracles.calibrate import calibrate
e = Estimate(np.array(json.load(sys.stdin)), 1_000_000, oracle("oue", epsilon=2.0, size=300))
c = calibrate(e, "free")
print(json.dumps([[f"{x:.7g}" for x in part.tolist()] for part in (c.shares, c.stdev, c.above(0.01))]))
"""


def test_seven_digits_are_the_same_without_the_vectors_of_the_processor():
    rng = seeded("digits")
    e = seen(counts_of(np.arange(1.0, 301) ** -1.1), 2.0, rng)
    shares = json.dumps(e.shares.tolist())
    outputs = set()
    for features in ("", "AVX2 FMA3 AVX512F AVX512_SKX"):
        environment = {**os.environ, "NPY_DISABLE_CPU_FEATURES": features, "OMP_NUM_THREADS": "1" if features else "8"}
        command = [sys.executable, "-W", "ignore", "-c", SCRIPT]
        outputs.add(
            subprocess.run(command, input=shares, env=environment, capture_output=True, text=True, check=True).stdout
        )
    assert len(outputs) == 1


@pytest.mark.parametrize("people", [None, 2 * N])
def test_a_calibration_goes_from_process_to_process(people):
    """The estimator sends findings to its worker, for reports of their own and for samples of people."""
    e = seen(counts_of(POPULATIONS["64 hold 60%"]), 2.0, seeded("pickle"))
    calibrated = calibrate(Estimate(e.shares, N, e.oracle, N, population=people), "best")
    copy = pickle.loads(pickle.dumps(calibrated))  # noqa: S301 - the test made it
    assert copy.prior.family == "free"
    assert (copy.shares == calibrated.shares).all()
    assert (copy.above(0.005) == calibrated.above(0.005)).all()
