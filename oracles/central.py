"""Crowd privacy: what a person reveals to somebody who sees only the estimates of one window.

The tally of a window depends on the multiset of its reports only, so a reader of the estimates sees shuffled reports.
The crowd hides each of them, because every honest report can stand for that of any other person with some
probability.

The bound is that of clones (Feldman, McMillan and Talwar 2021), with the exact sum in place of a closed formula. The
second bound uses the common part of an oracle's reports.
"""

import math
from functools import cache, lru_cache

import numpy as np

from oracles.errors import ParameterError
from oracles.types import Floats

DELTA = 1e-6
"""Probability with which the guarantee may fail, if the crowd is not larger than a tenth of its inverse."""
MOST = 1_000_000
"""Most honest reports that count. The guarantee of fewer holds for more, and the sum over more takes seconds."""
_SPREAD = 9.0
"""Standard deviations of the sum that are added up."""
_PRECISION = 1e-5
"""Relative error of a goal, before it is rounded up."""
_CACHE_SIZE = 1 << 12


def honest(n: int) -> int:
    """Return the number of honest reports that is assumed: half of all, rounded down to two digits, at most `MOST`.

    >>> honest(24_690), honest(19), honest(1), honest(1 << 31)
    (12000, 9, 0, 1000000)
    """
    half = min(n // 2, MOST)
    unit: int = 10 ** max(0, len(str(half)) - 2)
    return half // unit * unit


@lru_cache(maxsize=_CACHE_SIZE)
def crowd_epsilon(epsilon: float, people: int, overlap: float | None = None) -> tuple[float, float]:
    """Return the epsilon and the delta of one person among `people` honest reports that are epsilon-LDP each.

    `overlap` is the common part r of the oracle's reports, if it is known. The result is rounded up to three digits.
    """
    if people < 1:
        raise ParameterError(f"a crowd has at least 1 honest report, got {people}")
    from scipy import optimize

    delta = min(DELTA, 0.1 / people)

    @cache
    def excess(goal: float) -> float:
        return math.log(failure(goal, epsilon, people, overlap) / delta)

    if excess(epsilon) > 0.0:
        return epsilon, delta
    low = epsilon / math.sqrt(people)
    while excess(low) <= 0.0:
        low /= 4.0
    goal = optimize.brentq(excess, low, epsilon, rtol=_PRECISION, xtol=_PRECISION * low)

    # Up by more than the error of the root, and then to three digits: a guarantee must not be too small.
    goal *= 1.0 + 3.0 * _PRECISION
    unit = 10.0 ** (math.floor(math.log10(goal)) - 2)
    return min(float(f"{math.ceil(goal / unit) * unit:.6g}"), epsilon), delta


def failure(goal: float, epsilon: float, people: int, overlap: float | None = None) -> float:
    """Return the smallest known delta with which one person has a guarantee of `goal`."""
    e = math.exp(epsilon)
    bounds = [_clones(goal, people, e, 0.5 / e)]
    if overlap is not None:
        bounds.append((e + 1.0) * overlap * _clones(goal, people, e, overlap))
    return min(bounds)


def _clones(goal: float, people: int, p: float, r: float) -> float:
    """Return delta if each other report is a clone of one of two with probability 2 r."""
    from scipy import special

    trials = people - 1
    chance = 2.0 * r
    mean = trials * chance
    spread = _SPREAD * math.sqrt(trials * chance * (1.0 - chance)) + _SPREAD
    clones = np.arange(max(0, int(mean - spread)), min(trials, int(mean + spread) + 1) + 1, dtype=np.float64)
    log_law = special.gammaln(trials + 1) - special.gammaln(clones + 1) - special.gammaln(trials - clones + 1)
    log_law += special.xlogy(clones, chance) + special.xlog1py(trials - clones, -chance)
    law = np.exp(log_law)

    # The closed formula of the variation-ratio papers is below an exact case, so this is the sum itself.
    m = clones + 1.0
    growth = math.exp(goal)
    heads = np.ceil(m * (growth * p - 1.0) / ((p - 1.0) * (1.0 + growth)) - 1e-9)
    tail = _half(clones, heads)
    wider_tail = np.minimum(tail + _coins(clones, heads - 1.0), 1.0)
    terms = law / (p + 1.0) * ((p * wider_tail + tail) - growth * (wider_tail + p * tail))
    # The sum leaves out the tails of the law, each with at most this probability.
    return max(float(terms.sum()), 0.0) + 2e-19


def _coins(trials: Floats, heads: Floats) -> Floats:
    """Return the probability that fair coins show exactly so many heads."""
    from scipy import special

    is_inside = (heads >= 0) & (heads <= trials)
    k = np.where(is_inside, heads, 0.0)
    logs = special.gammaln(trials + 1) - special.gammaln(k + 1) - special.gammaln(trials - k + 1)
    result: Floats = np.where(is_inside, np.exp(logs - trials * math.log(2.0)), 0.0)
    return result


def _half(trials: Floats, heads: Floats) -> Floats:
    """Return the probabilities that fair coins show at least so many heads."""
    from scipy import special

    # The beta function has no value at the ends, so a valid argument stands in for them.
    is_inside = (heads > 0) & (heads <= trials)
    tails = special.betainc(np.where(is_inside, heads, 1.0), np.where(is_inside, trials - heads + 1.0, 1.0), 0.5)
    result: Floats = np.where(heads <= 0, 1.0, np.where(heads > trials, 0.0, tails))
    return result
