"""The prior `free`: a law of shares without a family, and the posterior under any law that is given as atoms."""

import numpy as np

from oracles.estimate import Estimate
from oracles.kernels import saddlepoint
from oracles.kernels.atoms import AtomPosterior, Atoms, Coordinate, LogDensity, Scene, fit
from oracles.types import Floats


def fitted(estimate: Estimate) -> AtomPosterior:
    """Return the posterior of all shares under the law that makes them most likely."""
    scene = scene_of(estimate)
    return AtomPosterior(scene, fit(scene))


def under(atoms: Atoms, estimate: Estimate) -> AtomPosterior:
    """Return the posterior of all shares under this law."""
    return AtomPosterior(scene_of(estimate), atoms)


def scene_of(estimate: Estimate) -> Scene:
    """Return what the estimate knows, with the exact law of the noise if all reports have noise of their own.

    Densities are those of n x, as for the families, so that likelihoods can be compared.
    """
    noise = estimate.noise
    is_exact = not estimate.is_sample and estimate.n_independent == estimate.n
    return Scene.of(
        estimate.shares,
        Coordinate(noise.a, noise.b),
        _exact(estimate) if is_exact else _normal(estimate),
    )


def _exact(estimate: Estimate) -> LogDensity:
    n = estimate.n
    p = estimate.oracle.p
    q = estimate.oracle.q
    scale = float(np.log(p - q))

    def log_density(noisy_share: Floats, true_share: Floats) -> Floats:
        counts = n * (q + (p - q) * noisy_share)
        result: Floats = saddlepoint.log_density(counts, n * true_share, n=n, p=p, q=q) + scale
        return result

    return log_density


def _normal(estimate: Estimate) -> LogDensity:
    """Return the law for samples of people and for repeated answers, whose counts are no sums of two binomials."""
    noise = estimate.noise
    scale = np.log(estimate.n) + 0.5 * np.log(2.0 * np.pi)

    def log_density(noisy_share: Floats, true_share: Floats) -> Floats:
        variance = noise.a + noise.b * true_share
        result: Floats = -0.5 * ((noisy_share - true_share) ** 2 / variance + np.log(variance)) - scale
        return result

    return log_density
