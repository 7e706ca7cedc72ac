"""Intervals of shares: of one value, of a set, of a difference.

If counts are dense this is the score interval, whose exact coverage is 94.4% or more. If they are sparse it holds all
shares that an exact test does not refute, or a bound if only the variance of a set is known. Their coverage is
95% or more. Tests: enumeration in tests/unit/test_exact.py and test_coverage.py.
"""

from typing import NamedTuple, Protocol

import numpy as np

from oracles.estimate.covariance import Covariance, Noise, quantile
from oracles.estimate.pure import DENSE, Pure, dense
from oracles.kernels.arrays import distinct
from oracles.types import Floats, Ints

LEVEL = 0.95

Ends = tuple[Floats, Floats]


class SetLaw(NamedTuple):
    """The law of a set: trials of a report, and p and q of one trial. See Pure.set_law."""

    trials: int
    p: float
    q: float


class Counted(Protocol):
    """The part of an estimate whose counts give its errors."""

    @property
    def shares(self) -> Floats: ...

    @property
    def n(self) -> int: ...

    @property
    def n_independent(self) -> int: ...

    @property
    def population(self) -> int | None: ...

    @property
    def is_sample(self) -> bool: ...

    @property
    def oracle(self) -> Pure: ...

    @property
    def noise(self) -> Noise: ...

    @property
    def covariance(self) -> Covariance: ...

    @property
    def counts(self) -> Ints: ...

    def scaled(self, counts: Ints, *, up: bool = False) -> Ints: ...

    def set_noise(self, values: int) -> Noise: ...


def listed_level(rows: int, size: int) -> float:
    """Return the level of intervals for `rows` values that are listed because they are large, of `size` values.

    What is listed first is partly there by luck, so intervals of 95% would miss too often. With this level 95% of the
    intervals in a list hold the truth, on average and whatever the true shares are (Benjamini and Yekutieli 2005).
    An empty list has the usual level.

    >>> listed_level(10, 500), listed_level(0, 500)
    (0.999, 0.95)
    """
    if not 0 < rows < size:
        return LEVEL
    return 1.0 - (1.0 - LEVEL) * rows / size


def of_values(estimate: Counted, positions: Ints | slice, level: float, *, cut: bool) -> Ends:
    """Return the interval of each of these values alone, limited to [0, 1] if `cut`."""
    n = estimate.n_independent
    oracle = estimate.oracle
    if not n or dense(n, oracle.p, oracle.q):
        score = estimate.noise.interval(estimate.shares[positions], level)
        return _cut(score) if cut else score

    # A search for each distinct count. Sparse domains have many values and few counts.
    counts, places, _ = distinct(estimate.counts[positions])
    low, high = _of_sparse(estimate, counts, level)
    return low[places], high[places]


def _of_sparse(estimate: Counted, counts: Ints, level: float) -> Ends:
    """Return the intervals of values with these counts."""
    oracle = estimate.oracle
    return _cut(_inverted(estimate, counts, SetLaw(1, oracle.p, oracle.q), (1.0 - level) / 2.0))


def of_set(estimate: Counted, positions: Ints, counts: Ints) -> Ends:
    """Return the interval of the share of a set, for each of these summed counts."""
    n = estimate.n_independent
    oracle = estimate.oracle
    values = len(positions)
    tail = (1.0 - LEVEL) / 2.0

    # The sum of values that reports support together is far from normal, even with a large variance.
    if varied(oracle, values, n) and not oracle.clumped(positions, n):
        shares = (counts / estimate.n - values * oracle.q) / oracle.gap
        return _cut(estimate.set_noise(values).interval(shares, LEVEL))

    # Of a sample (smp) only the law of one trial a report is known: the trials of one client are not independent.
    law = oracle.set_law(values)
    if law is not None and (law[0] == 1 or not estimate.is_sample):
        return _cut(_inverted(estimate, counts, SetLaw(*law), tail))
    return _cut(_bounded(estimate, counts, values, tail))


def varied(oracle: Pure, values: int, n: int) -> bool:
    """Whether the summed count of a set varies by ten or more at every share."""
    # A variance is linear in the share, so its least value is at one of the ends.
    variance = min(oracle.set_variance(n, values, share) for share in (0.0, 1.0))
    return variance * (n * oracle.gap) ** 2 >= DENSE


def of_difference(estimate: Counted, first: Ints, last: Ints) -> tuple[Floats, Floats, Floats, Floats]:
    """Return each difference of two shares (first minus last), its standard error, and both ends.

    If counts are sparse, the ends follow from the intervals of both values. They hold for every dependence of the two
    values, because each interval has half the error.
    """
    n = estimate.n_independent
    oracle = estimate.oracle
    is_same = first == last
    f = estimate.shares[first]
    g = estimate.shares[last]
    share = f - g
    # Rounding would leave a value a small error towards itself.
    stderr = np.where(is_same, 0.0, difference_error(estimate, f, g))

    reach = quantile((1.0 - LEVEL) / 2.0) * stderr
    low = share - reach
    high = share + reach
    if n and not dense(n, oracle.p, oracle.q):
        counts = estimate.counts
        first_low, first_high = _of_sparse(estimate, counts[first], (1.0 + LEVEL) / 2.0)
        last_low, last_high = _of_sparse(estimate, counts[last], (1.0 + LEVEL) / 2.0)
        low = np.where(is_same, low, first_low - last_high)
        high = np.where(is_same, high, first_high - last_low)
    return share, stderr, np.clip(low, -1.0, 1.0), np.clip(high, -1.0, 1.0)


def difference_error(estimate: Counted, f: Floats, g: Floats) -> Floats:
    """Return the standard error of the difference of two shares."""
    f = f.clip(0.0, 1.0)
    g = g.clip(0.0, 1.0)
    variance = estimate.noise.variance(f) + estimate.noise.variance(g) - 2.0 * estimate.covariance.pair(f, g)
    # The law is that of shares within the simplex. Noisy shares can lie outside, where it may be negative.
    error: Floats = np.sqrt(np.maximum(variance, 0.0))
    return error


def _inverted(estimate: Counted, counts: Ints, law: SetLaw, tail: float) -> Ends:
    """Return the shares that the exact test does not refute, with `tail` on either side."""
    from oracles.kernels.exact import interval, rates

    n = estimate.n_independent
    lower_counts = estimate.scaled(counts)
    upper_counts = estimate.scaled(counts, up=True)

    # The clients of a sample (smp) are drawn, so the number that holds a value is random too: one binomial.
    if estimate.is_sample:
        low, high = ((rate - law.q) / (law.p - law.q) for rate in rates(lower_counts, upper_counts, n, tail))
        return low, high
    fewest, most_holders = interval(
        lower_counts, upper_counts, n=n, p=law.p, q=law.q, level=tail, trials=law.trials * n
    )
    return fewest / n, most_holders / n


def _bounded(estimate: Counted, counts: Ints, values: int, tail: float) -> Ends:
    """Return the shares that Bennett's bound does not refute.

    One report can support all values of a set, or none.
    """
    from oracles.kernels.bounds import bennett
    from oracles.kernels.exact import least

    n = estimate.n_independent
    oracle = estimate.oracle
    holders = estimate.population or n
    noise = estimate.set_noise(values)
    full_gain = n * oracle.gap
    # The expected supports of a report: by one that holds no value of the set, and by one that holds a value.
    rate_without = values * oracle.q
    rate_with = oracle.p + (values - 1) * oracle.q

    def bound(count: Ints, holding: Ints, *, below: bool) -> Floats:
        share = holding / holders
        excess = count - n * rate_without - full_gain * share
        variance = full_gain**2 * noise.variance(share)
        return bennett(-excess if below else excess, variance, rate_with if below else values - rate_without)

    lower_counts = estimate.scaled(counts)
    upper_counts = estimate.scaled(counts, up=True)
    low = least(lambda holding: bound(lower_counts, holding, below=False) > tail, len(counts), holders)
    past = least(lambda holding: bound(upper_counts, holding, below=True) <= tail, len(counts), holders)
    return np.minimum(low, holders) / holders, np.maximum(past - 1, 0) / holders


def _cut(interval: Ends) -> Ends:
    return interval[0].clip(0.0, 1.0), interval[1].clip(0.0, 1.0)
