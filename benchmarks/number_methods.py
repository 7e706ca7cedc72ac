"""Other ways to estimate a distribution of numbers, to compare HAAR with: each returns shares of the bins."""

import numpy as np
from scipy.optimize import isotonic_regression

from oracles import oracle
from oracles.kernels.simplex import project
from oracles.mechanisms.entropy import Source
from oracles.types import Floats, Ints

Generator = np.random.Generator
FAN = 4
ROUNDS = 200


def haar(positions: Ints, bins: int, epsilon: float, rng: Generator) -> Floats:
    """Return the cumulative shares by HAAR, after isotonic regression."""
    from oracles.numbers import Numbers, Scale

    o = oracle("haar", epsilon=epsilon, size=bins)
    tally = o.zeros()
    o.add(tally, o.perturb(positions, rng))
    return Numbers(o.estimate(tally, len(positions)), Scale(0.0, 1.0, bins)).cdf


def flat(positions: Ints, bins: int, epsilon: float, rng: Generator) -> Floats:
    """Return the cumulative shares by Hadamard response over the bins, after norm_sub."""
    return np.cumsum(project(_shares(positions, bins, epsilon, rng)))


def hierarchy(positions: Ints, bins: int, epsilon: float, rng: Generator) -> Floats:
    """Return the cumulative shares by a tree with four children a node, after least squares and isotonic regression."""
    sizes = [FAN]
    while sizes[-1] < bins:
        sizes.append(sizes[-1] * FAN)
    levels = rng.integers(0, len(sizes), len(positions))
    estimates = [_shares(positions[levels == j] * size // bins, size, epsilon, rng) for j, size in enumerate(sizes)]
    weights, sums = 1.0, estimates[-1]
    averages = [sums]
    for own in reversed(estimates[:-1]):
        below = sums.reshape(-1, FAN).sum(axis=1)
        variance = FAN * weights
        sums = (own * variance + below) / (variance + 1.0)
        weights = variance / (variance + 1.0)
        averages.insert(0, sums)
    shares = averages[0] + (1.0 - averages[0].sum()) / FAN
    for finer in averages[1:]:
        parts = finer.reshape(-1, FAN)
        shares = (parts + (shares - parts.sum(axis=1))[:, None] / FAN).reshape(-1)
    return np.clip(isotonic_regression(np.cumsum(shares)).x, 0.0, 1.0)


def square_wave(positions: Ints, bins: int, epsilon: float, rng: Generator) -> Floats:
    """Return the cumulative shares by the square wave mechanism with smoothed expectation maximisation."""
    e = np.exp(epsilon)
    half = (epsilon * e - e + 1.0) / (2.0 * e * (e - 1.0 - epsilon))
    near = 2.0 * half * e / (2.0 * half * e + 1.0)
    values = (positions + 0.5) / bins
    is_near = rng.random(len(values)) < near
    spot = rng.random(len(values))
    far = np.where(spot < values, spot - half, spot + half)
    reports = np.where(is_near, values + half * (2.0 * spot - 1.0), far)
    edges = np.linspace(-half, 1.0 + half, bins + 1)
    counts = np.histogram(reports, edges)[0]
    middles = (np.arange(bins) + 0.5) / bins
    inside = np.clip(
        np.minimum(edges[1:, None], middles + half) - np.maximum(edges[:-1, None], middles - half), 0, None
    )
    density = (np.diff(edges)[:, None] + (e - 1.0) * inside) / (2.0 * half * e + 1.0)
    shares = np.full(bins, 1.0 / bins)
    for _ in range(ROUNDS):
        shares = shares * (density.T @ (counts / np.maximum(density @ shares, 1e-300)))
        shares = np.convolve(np.pad(shares / shares.sum(), 1, "edge"), [0.25, 0.5, 0.25], "valid")
        shares /= shares.sum()
    return np.cumsum(shares)


def _shares(positions: Ints, size: int, epsilon: float, rng: "Generator | Source") -> Floats:
    o = oracle("hr", epsilon=epsilon, size=size)
    tally = o.zeros()
    o.add(tally, o.perturb(positions, rng))
    return o.estimate(tally, len(positions)).shares


METHODS = {
    "haar": haar,
    "flat hr, norm_sub": flat,
    "tree of four, least squares": hierarchy,
    "square wave, EM": square_wave,
}
