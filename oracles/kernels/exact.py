"""Inverted exact tests of support counts: critical counts, detectable numbers, intervals."""

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from oracles.errors import extra
from oracles.kernels.tails import binomial_tail, two_binomials_tail
from oracles.types import Flags, Floats, Ints

with extra("stats"):
    from scipy import special

POWER = 0.9
"""Probability of finding a detectable value."""


@lru_cache(maxsize=1024)  # the queries of a file often share their settings
def critical(n: int, q: float, level: float) -> int | None:
    """Return the least count c with P(Bin(n, q) >= c) <= level, or None if not even n is rare enough.

    >>> critical(10, 0.5, 0.05), critical(4, 0.5, 0.05)
    (9, None)
    """
    low, high = -1, n + 1  # P(X >= 0) is 1 and P(X > n) is 0
    while high - low > 1:
        middle = (low + high) // 2
        rare = float(binomial_tail(np.array([middle]), n, q)[0]) <= level
        low, high = (low, middle) if rare else (middle, high)
    return high if high <= n else None


@lru_cache(maxsize=1024)
def detectable(n: int, c: int, p: float, q: float) -> int | None:
    """Return how many of n must hold a value so that its count reaches c with probability 0.9.

    None means that n holders do not suffice.

    >>> detectable(100, 60, 0.75, 0.25)
    81
    """
    if power(n, n, c, p, q) < POWER:
        return None
    low, high = -1, n
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if power(n, middle, c, p, q) >= POWER else (middle, high)
    return high


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
    low = least(lambda k: two_binomials_tail(counts, k, p, trials - k, q) > level, len(counts), n)
    fewer = least(lambda k: two_binomials_tail(above, k, p, trials - k, q, below=True) <= level, len(counts), n)
    return np.minimum(low, n), np.maximum(fewer - 1, 0)


def rates(counts: Ints, above: Ints, n: int, level: float) -> tuple[Floats, Floats]:
    """Return the least and the largest rates that counts of Bin(n, rate) do not refute, each at `level`."""
    c, u = counts.astype(np.float64), above.astype(np.float64)
    low = np.where(c > 0, special.betaincinv(np.maximum(c, 1.0), n - np.maximum(c, 1.0) + 1.0, level), 0.0)
    high = np.where(
        u < n, special.betaincinv(np.minimum(u, n - 1.0) + 1.0, n - np.minimum(u, n - 1.0), 1.0 - level), 1.0
    )
    return low, high


def least(holds: Callable[[Ints], Flags], size: int, n: int) -> Ints:
    """Return the least k of 0..n for which `holds` is true, for each of `size` places. n + 1 if there is none."""
    low, high = np.full(size, -1, np.int64), np.full(size, n + 1, np.int64)
    while (high - low > 1).any():
        middle = np.clip((low + high) // 2, 0, n)
        yes = holds(middle)
        open_ = high - low > 1
        high = np.where(open_ & yes, middle, high)
        low = np.where(open_ & ~yes, middle, low)
    return high
