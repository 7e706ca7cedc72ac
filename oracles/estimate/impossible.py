"""A test for impossible counts: those that no crowd has, whatever its people answer, if reports follow the protocol.

Of `n` reports a set of k values has at most r_k supports each, where r_k is 1 if a report supports one value only,
else k. Whatever the answers are, the mean lies between k q and p + (k - 1) q. Chernoff's bound for N independent
reports limits both tails, for the sets of all sizes together. It needs no approximation and no law of the answers.
"""

from math import log

import numpy as np

from oracles.estimate.estimate import Estimate
from oracles.types import Floats

CHANCE = 1e-9
"""The largest chance that the counts of honest people are called impossible, for each table of counts."""


def impossible(estimate: Estimate) -> bool:
    """Whether no crowd has these counts of values.

    >>> from oracles import oracle
    >>> grr = oracle("grr", epsilon=1.0, size=4)
    >>> marks = [0] * 64
    >>> impossible(grr.estimate(grr.zeros() + [700, 100, 90, 110, *marks], 1000))
    True
    >>> impossible(grr.estimate(grr.zeros() + [470, 180, 170, 180, *marks], 1000))
    False
    """
    oracle = estimate.oracle
    independent = estimate.n_independent
    # Levels of numbers are tables of their own, of which no count is that of a value.
    if not independent or oracle.levels:
        return False

    counts = np.sort(estimate.counts.astype(np.int64, copy=False))
    sizes = np.arange(1, len(counts) + 1)
    room = np.ones(len(counts)) if oracle.supports_one else sizes.astype(np.float64)
    most = np.minimum(1.0, (oracle.p + (sizes - 1) * oracle.q) / room)
    least = sizes * oracle.q / room
    # All values together have the same supports in a report that supports one, and never fewer than its own.
    least[-1] = most[-1]

    largest = np.cumsum(counts[::-1]) / (estimate.n * room)
    smallest = np.cumsum(counts) / (estimate.n * room)
    limit = _union(len(counts))
    too_many = (largest > most) & (independent * _divergence(largest, most) > limit)
    too_few = (smallest < least) & (independent * _divergence(smallest, least) > limit)
    return bool(too_many.any() or too_few.any())


def _union(values: int) -> Floats:
    """Return ln of the number of sets of each size, times the number of sizes and sides, over the chance."""
    sizes = np.arange(1, values + 1)
    sets = np.cumsum(np.log((values - sizes + 1) / sizes))
    return np.asarray(sets + log(2 * values / CHANCE))


def _divergence(x: Floats, mean: Floats) -> Floats:
    """Return the divergence of a coin with heads `x` from one with heads `mean`. It is infinite if `mean` forbids x."""
    x = np.clip(x, 0.0, 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        heads = np.where(x > 0.0, x * np.log(x / mean), 0.0)
        tails = np.where(x < 1.0, (1.0 - x) * np.log((1.0 - x) / (1.0 - mean)), 0.0)
    return np.asarray(heads + tails)
