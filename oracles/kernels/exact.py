"""Inverted exact tests of support counts: critical counts, detectable numbers, intervals."""

from collections.abc import Callable
from functools import lru_cache
from statistics import NormalDist

import numpy as np

from oracles.errors import extra
from oracles.kernels.tails import FEW, binomial_tail, two_binomials_tail
from oracles.types import Flags, Floats, Ints

with extra("stats"):
    from scipy import special

POWER = 0.9
"""Probability of finding a detectable value."""
AROUND = 8
"""Candidates on either side of a number at which a search begins."""
CANDIDATES = 128
"""Candidates that a step of a search tests at once, of all places together."""


@lru_cache(maxsize=1 << 12)  # queries often share their settings, and windows their n
def critical(n: int, q: float, level: float) -> int | None:
    """Return the least count c with P(Bin(n, q) >= c) <= level, or None if not even n is rare enough.

    >>> critical(10, 0.5, 0.05), critical(4, 0.5, 0.05)
    (9, None)
    """
    c = int(least(lambda counts: binomial_tail(counts, n, q) <= level, 1, n)[0])
    return c if c <= n else None


@lru_cache(maxsize=1 << 12)
def detectable(n: int, c: int, p: float, q: float) -> int | None:
    """Return how many of n must hold a value so that its count reaches c with probability 0.9.

    None means that n holders do not suffice.

    >>> detectable(100, 60, 0.75, 0.25)
    81
    """
    k = int(least(lambda k: two_binomials_tail(np.array([c]), k, p, n - k, q) >= POWER, 1, n)[0])
    return k if k <= n else None


def power(n: int, k: int, c: int, p: float, q: float) -> float:
    """Return P(Bin(k, p) + Bin(n - k, q) >= c)."""
    return float(two_binomials_tail(np.array([c]), k, p, n - k, q)[0])


def rate_reaching(n: int, c: int) -> float:
    """Return the rate of a sample at which Bin(n, rate) reaches c with probability 0.9."""
    return float(special.betaincinv(c, n - c + 1.0, POWER)) if c else 0.0


def interval(counts: Ints, above: Ints, n: int, p: float, q: float, level: float, trials: int) -> tuple[Ints, Ints]:
    """Return the least and the largest numbers k of 0..n that the counts do not refute, each at `level`.

    Low is the least k with P(Bin(k, p) + Bin(trials - k, q) >= count) > level. High is the largest k with P(...
    <= above) > level. A scaled count lies between `counts` and `above`.
    """
    near = _normal(counts, above, p, q, level, trials)
    if trials < FEW:
        low = least(lambda k: two_binomials_tail(counts, k, p, trials - k, q) > level, len(counts), n, near[0])
        fewer = least(
            lambda k: two_binomials_tail(above, k, p, trials - k, q, below=True) <= level, len(counts), n, near[1]
        )
        return np.minimum(low, n), np.maximum(fewer - 1, 0)
    # Both searches share their calls. The upper one counts the failures upwards.
    is_upper = np.repeat([False, True], len(counts))
    ends, own, other = (
        np.concatenate([counts, trials - above]),
        np.where(is_upper, 1.0 - p, p),
        np.where(is_upper, 1.0 - q, q),
    )
    both = least(
        lambda k: (two_binomials_tail(ends, k, own, trials - k, other) > level) ^ is_upper,
        len(ends),
        n,
        near.reshape(-1),
    )
    return np.minimum(both[: len(counts)], n), np.maximum(both[len(counts) :] - 1, 0)


def rates(counts: Ints, above: Ints, n: int, level: float) -> tuple[Floats, Floats]:
    """Return the least and the largest rates that counts of Bin(n, rate) do not refute, each at `level`."""
    c, u = counts.astype(np.float64), above.astype(np.float64)
    low = np.where(c > 0, special.betaincinv(np.maximum(c, 1.0), n - np.maximum(c, 1.0) + 1.0, level), 0.0)
    high = np.where(
        u < n, special.betaincinv(np.minimum(u, n - 1.0) + 1.0, n - np.minimum(u, n - 1.0), 1.0 - level), 1.0
    )
    return low, high


def _normal(counts: Ints, above: Ints, p: float, q: float, level: float, trials: int) -> Ints:
    """Return about the ends of the intervals, a row of each, by a normal law of Bin(k, p) + Bin(trials - k, q)."""
    z = NormalDist().inv_cdf(level) * np.array([[1.0], [-1.0]])
    own, other, ends = p * (1.0 - p), q * (1.0 - q), np.array([counts, above]) - trials * q
    k = np.minimum(np.maximum(ends / (p - q), 0.0), trials)
    for _ in range(2):
        k = (ends + z * np.sqrt(k * own + (trials - k) * other)) / (p - q)
        k = np.minimum(np.maximum(k, 0.0), trials)
    result: Ints = k.astype(np.int64)
    return result


def least(holds: Callable[[Ints], Flags], size: int, n: int, near: Ints | None = None) -> Ints:
    """Return the least k of 0..n for which `holds` is true, for each of `size` places. n + 1 if there is none.

    `holds` gets rows of candidates, one column for each place. A call costs far more than a candidate. So each step
    divides the range into many parts if there are few places. The first step looks at the numbers around `near`.
    """
    low, high = np.full(size, -1, np.int64), np.full(size, n + 1, np.int64)
    around = None if near is None else near + np.arange(-AROUND, AROUND)[:, None]
    while (width := high - low).max(initial=0) > 1:
        if around is not None:
            k, around = np.minimum(np.maximum(around, 0), high), None
        else:
            steps = np.arange(1, max(1, CANDIDATES // size) + 1)[:, None]
            k = np.minimum(low + np.maximum(width * steps // (len(steps) + 1), 1), high)
        yes = (k >= high) | holds(np.minimum(k, n))  # no candidate is above `high`
        below = np.where(yes, low, k).max(axis=0)
        high = np.where(yes, k, high).min(axis=0)
        low = below
    return high
