"""Rehearsals: a truth that could have produced an estimate, and fresh estimates of that truth.

They show the effect of a method if no formula does: for shares that jump, for the most frequent values, for
sets.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from oracles.estimate import Estimate
from oracles.kernels.simplex import project
from oracles.types import Floats

_FINENESS = 4
"""Steps of the grids for each standard error at zero."""
_FAR = 8.0
"""Standard errors above which a share counts as it is, since luck does not explain it."""
_ROUNDS = 1000
_LEAST_DENSITY = 1e-300
_VALUES = 1 << 16
_FEWEST_REHEARSALS = 4
_MOST_REHEARSALS = 256


def likely_truth(estimate: Estimate) -> Floats:
    """Return shares, the largest first, whose estimates would be spread like these.

    Maximum likelihood removes the spread of the noise, without a family of priors.
    """
    x = np.sort(estimate.shares)[::-1]
    clear_count = int(np.count_nonzero(x > _FAR * estimate.sigma))
    if clear_count < len(x):
        remaining = max(1.0 - float(x[:clear_count].sum()), 0.0)
        x[clear_count:] = _without_noise(estimate, x[clear_count:], remaining / (len(x) - clear_count))
    return project(x)


def _without_noise(estimate: Estimate, x: Floats, equal: float) -> Floats:
    """Return true shares, the largest first, that make the noisy x most likely, by expectation maximisation.

    All are `equal` unless the law makes x more likely by more than a factor of the number of values.
    """
    # Bins of a quarter of a standard error: the work does not grow with the domain.
    step = estimate.sigma / _FINENESS
    atoms = np.union1d(np.arange(_FAR * _FINENESS + 1.0) * step, equal)
    bins = np.rint(np.maximum(x, -_FAR * estimate.sigma) / step).astype(np.int64)
    centres, times = np.unique(bins, return_counts=True)

    # A value lies anywhere in its bin, which adds the variance of a uniform law, step^2/12.
    spread = np.sqrt(estimate.noise.stderr(atoms) ** 2 + step**2 / 12.0)
    kernel = np.exp(-0.5 * ((centres[:, None] * step - atoms) / spread) ** 2) / spread
    weights = np.full(len(atoms), 1.0 / len(atoms))
    for _ in range(_ROUNDS):
        weights *= (times / (kernel @ weights)) @ kernel / len(x)

    uniform = np.maximum(kernel[:, np.searchsorted(atoms, equal)], _LEAST_DENSITY)
    if times @ np.log((kernel @ weights) / uniform) < np.log(len(x)):
        return np.full(len(x), equal)
    ranks = (np.arange(len(x), 0, -1) - 0.5) / len(x)
    places = np.searchsorted(np.cumsum(weights), ranks)
    return atoms[np.minimum(places, len(atoms) - 1)]


def rehearse(estimate: Estimate, truth: Floats, seed: int = 0) -> Iterator[Estimate]:
    """Yield estimates of `truth` with fresh noise: fewer of them if they are large."""
    rng = np.random.default_rng(seed)
    spread = estimate.noise.stderr(truth)
    variance = spread**2
    free = float(variance.sum())
    together = estimate.oracle.set_variance(estimate.n_independent, len(truth), 1.0)
    # If reports hold a fixed number of values, the sum of all errors is fixed too: 0 for grr.
    common_part = (1.0 - np.sqrt(min(max(together / free, 0.0), 1.0))) / free
    for _ in range(min(max(_VALUES // len(truth), _FEWEST_REHEARSALS), _MOST_REHEARSALS)):
        noise = rng.standard_normal(len(truth)) * spread
        noise -= common_part * float(noise.sum()) * variance
        yield replace(estimate, shares=truth + noise)
