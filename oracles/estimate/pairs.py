"""Shares of one value among those with another, from an estimate of all pairs of two attributes.

A ratio of two uncertain shares has no normal interval. Fieller's interval holds all ratios that the two shares allow.
"""

from dataclasses import dataclass

import numpy as np

from oracles.errors import ParameterError
from oracles.estimate.covariance import quantile
from oracles.estimate.estimate import Estimate
from oracles.estimate.intervals import LEVEL
from oracles.estimate.pure import DENSE
from oracles.types import Floats, Ints


@dataclass(frozen=True, eq=False)
class ConditionalShares:
    """The share of each value of one attribute among those with one value of the other. NaN if it is not known."""

    share: Floats
    low: Floats
    high: Floats


def given(estimate: Estimate, row: Ints, *, level: float = LEVEL) -> ConditionalShares:
    """Return the share of each cell of a row in the row, with its interval. `row` has the positions of the cells.

    The row's own share must differ from zero, or no ratio is known. With few people in a row and sparse counts no ratio
    is known either, because Fieller's interval needs normal errors.

    >>> from oracles import oracle
    >>> pairs = oracle("grr", epsilon=4.0, size=4)   # two values of each attribute
    >>> state = pairs.zeros()
    >>> _ = pairs.add(state, pairs.perturb([0] * 3000 + [1] * 1000 + [2] * 4000, np.random.default_rng(1)))
    >>> result = given(pairs.estimate(state, 8000), np.array([0, 1]))
    >>> result.low.round(2), result.high.round(2)
    (array([0.75, 0.24]), array([0.76, 0.25]))
    """
    if not 0.0 < level < 1.0:
        raise ParameterError(f"level must be above 0 and below 1, got {level!r}")
    unknown = np.full(len(row), np.nan)
    n = estimate.n_independent
    cells = estimate.shares[row]
    total = float(cells.sum())
    # With two people a cell and almost no noise the interval held the truth in 80% of windows only.
    q = estimate.oracle.q
    if not n or (n * q * (1.0 - q) < DENSE and n * total < DENSE):
        return ConditionalShares(unknown, unknown, unknown)

    zz = quantile((1.0 - level) / 2.0) ** 2
    of_cells, of_total, covariances = _errors(estimate, cells, total)
    # If the row itself may be empty, every ratio is possible.
    square = total**2 - zz * of_total
    if not square > 0.0:
        return ConditionalShares(unknown, unknown, unknown)

    centre = cells * total - zz * covariances
    half = np.sqrt(np.maximum(centre**2 - square * (cells**2 - zz * of_cells), 0.0))
    ends = (np.clip((centre + sign * half) / square, 0.0, 1.0) for sign in (-1.0, 1.0))
    return ConditionalShares(np.clip(cells / total, 0.0, 1.0), *ends)


def _errors(estimate: Estimate, cells: Floats, total: float) -> tuple[Floats, float, Floats]:
    """Return the variance of each cell, that of their sum, and the covariance of each cell with the sum."""
    law = estimate.covariance
    size = len(cells)
    noise = estimate.noise
    f = np.clip(cells, 0.0, 1.0)
    # The sum of noisy cells can be below one of them, which no true shares are.
    f_total = float(np.clip(total, float(f.max()), 1.0))
    with_others = law.flat * (size - 1) + law.tilt * ((size - 2) * f + f_total)
    covariances = noise.a + noise.b * f + with_others + noise.c * f * (1.0 - f_total)
    of_total = float(estimate.set_noise(size).variance(f_total))
    return noise.variance(f), of_total, covariances
