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
GUESS_REACH = 8
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


def interval(
    counts: Ints, upper_counts: Ints, n: int, p: float, q: float, level: float, trials: int
) -> tuple[Ints, Ints]:
    """Return the least and the largest numbers k of 0..n that the counts do not refute, each at `level`.

    Low is the least k with P(Bin(k, p) + Bin(trials - k, q) >= count) > level. High is the largest k with P(...
    <= upper count) > level. A scaled count lies between `counts` and `upper_counts`.
    """
    guesses = _normal(counts, upper_counts, p=p, q=q, level=level, trials=trials)
    # The table of fewer trials takes p and q as numbers, so the two searches cannot share it.
    if trials < FEW:
        low = least(lambda k: two_binomials_tail(counts, k, p, trials - k, q) > level, len(counts), n, guesses[0])
        past = least(
            lambda k: two_binomials_tail(upper_counts, k, p, trials - k, q, below=True) <= level,
            len(counts),
            n,
            guesses[1],
        )
        return np.minimum(low, n), np.maximum(past - 1, 0)

    # Both searches share their calls. The upper one counts the failures upwards.
    is_upper = np.repeat([False, True], len(counts))
    ends = np.concatenate([counts, trials - upper_counts])
    own_rate = np.where(is_upper, 1.0 - p, p)
    other_rate = np.where(is_upper, 1.0 - q, q)
    ends_reached = least(
        lambda k: (two_binomials_tail(ends, k, own_rate, trials - k, other_rate) > level) ^ is_upper,
        len(ends),
        n,
        guesses.reshape(-1),
    )
    return np.minimum(ends_reached[: len(counts)], n), np.maximum(ends_reached[len(counts) :] - 1, 0)


def rates(counts: Ints, upper_counts: Ints, n: int, level: float) -> tuple[Floats, Floats]:
    """Return the least and the largest rates that counts of Bin(n, rate) do not refute, each at `level`."""
    # The beta function has no value for 0 and n. These ends are 0 and 1 by definition (Clopper and Pearson).
    lower = counts.astype(np.float64)
    at_least_one = np.maximum(lower, 1.0)
    low = np.where(lower > 0, special.betaincinv(at_least_one, n - at_least_one + 1.0, level), 0.0)

    upper = upper_counts.astype(np.float64)
    below_n = np.minimum(upper, n - 1.0)
    high = np.where(upper < n, special.betaincinv(below_n + 1.0, n - below_n, 1.0 - level), 1.0)
    return low, high


def _normal(counts: Ints, upper_counts: Ints, *, p: float, q: float, level: float, trials: int) -> Ints:
    """Return about the ends of the intervals, a row of each, by a normal law of Bin(k, p) + Bin(trials - k, q)."""
    z = NormalDist().inv_cdf(level) * np.array([[1.0], [-1.0]])
    own_variance = p * (1.0 - p)
    other_variance = q * (1.0 - q)
    ends = np.array([counts, upper_counts]) - trials * q

    # The variance depends on k. Two steps of the fixed point come near enough for the search around it.
    k = np.minimum(np.maximum(ends / (p - q), 0.0), trials)
    for _ in range(2):
        k = (ends + z * np.sqrt(k * own_variance + (trials - k) * other_variance)) / (p - q)
        k = np.minimum(np.maximum(k, 0.0), trials)
    result: Ints = k.astype(np.int64)
    return result


def least(holds: Callable[[Ints], Flags], size: int, n: int, guesses: Ints | None = None) -> Ints:
    """Return the least k of 0..n for which `holds` is true, for each of `size` places. n + 1 if there is none.

    `holds` gets rows of candidates, one column for each place. Each step divides the range into many parts if there
    are few places, because a call costs far more than a candidate. The first step looks at the numbers around
    `guesses`.
    """
    low = np.full(size, -1, np.int64)
    high = np.full(size, n + 1, np.int64)
    candidates = None if guesses is None else guesses + np.arange(-GUESS_REACH, GUESS_REACH)[:, None]
    width = high - low
    while width.max(initial=0) > 1:
        if candidates is not None:
            k = np.minimum(np.maximum(candidates, 0), high)
            candidates = None
        else:
            steps = np.arange(1, max(1, CANDIDATES // size) + 1)[:, None]
            k = np.minimum(low + np.maximum(width * steps // (len(steps) + 1), 1), high)

        # No candidate is above `high`, and at `high` it is known to hold. n + 1 has no tail.
        is_reached = (k >= high) | holds(np.minimum(k, n))
        new_low = np.where(is_reached, low, k).max(axis=0)
        high = np.where(is_reached, k, high).min(axis=0)
        low = new_low
        width = high - low
    return high
