"""The prior `free`: a law of shares without a family, and the posterior under any law that is given as atoms."""

from dataclasses import dataclass

import numpy as np

from oracles.estimate import Estimate
from oracles.kernels import saddlepoint
from oracles.kernels.atoms import AtomPosterior, Atoms, Coordinate, Scene, fit
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
    n = estimate.n
    noise = estimate.noise
    is_exact = not estimate.is_sample and estimate.n_independent == n
    law = ExactNoise(n, estimate.oracle.p, estimate.oracle.q) if is_exact else NormalNoise(n, noise.a, noise.b)
    return Scene.of(estimate.shares, Coordinate(noise.a, noise.b), law)


@dataclass(frozen=True)
class ExactNoise:
    """The law of a sum of two binomials. It is a value, and no closure, because findings go between processes."""

    n: int
    p: float
    q: float

    def __call__(self, noisy_share: Floats, true_share: Floats) -> Floats:
        gap = self.p - self.q
        counts = self.n * (self.q + gap * noisy_share)
        densities = saddlepoint.log_density(counts, self.n * true_share, n=self.n, p=self.p, q=self.q)
        result: Floats = densities + float(np.log(gap))
        return result


@dataclass(frozen=True)
class NormalNoise:
    """The law for samples of people and for repeated answers, whose counts are no sums of two binomials."""

    n: int
    a: float
    b: float

    def __call__(self, noisy_share: Floats, true_share: Floats) -> Floats:
        scale = np.log(self.n) + 0.5 * np.log(2.0 * np.pi)
        variance = self.a + self.b * true_share
        result: Floats = -0.5 * ((noisy_share - true_share) ** 2 / variance + np.log(variance)) - scale
        return result
