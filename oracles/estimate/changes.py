"""The differences between two windows, and the values that are proved to have changed.

A difference and its interval are about the clients who answered in the two windows, like the intervals of a window. A
proof is about the population from which they come, so it counts both windows as samples of it.
"""

from dataclasses import dataclass

import numpy as np

from oracles.errors import ParameterError
from oracles.estimate.covariance import quantile
from oracles.estimate.estimate import Estimate, change
from oracles.estimate.pure import dense
from oracles.types import Flags, Floats


@dataclass(frozen=True, eq=False)
class ShareChanges:
    """The differences of the same values in two windows: the later share minus the earlier one."""

    difference: Floats
    stderr: Floats
    low: Floats
    high: Floats
    p_values: Floats
    """Probability of a difference at least this large, in either direction, if the population stays as it is."""
    proved: Flags
    """Whether a change is proved. The probability of any false proof is at most the family error."""


def compare(
    before: Estimate,
    after: Estimate,
    *,
    size: int | None = None,
    panel: bool = False,
    level: float = 0.95,
    family_error: float = 0.05,
) -> ShareChanges:
    """Return the differences of two windows of one query, whose estimates have the same values in the same order.

    Holm's procedure takes the number of values of the whole domain, `size`, because any of them may be the one that
    attracts attention. On a `panel` the same clients repeat their answers, and the values show how much has changed.
    Errors of windows that share reports or clients are never too small.

    >>> from oracles import oracle
    >>> grr = oracle("grr", epsilon=2.0, size=3)
    >>> counts = [500, 300, 100], [300, 500, 100]
    >>> early, late = (grr.estimate(grr.zeros() + [*each, *[0] * 64], 900) for each in counts)
    >>> compare(early, late).proved
    array([ True,  True, False])
    """
    if len(before.shares) != len(after.shares):
        raise ParameterError("the two estimates must have the same values")
    if not (before.n_independent and after.n_independent):
        raise ParameterError("both windows need reports")

    difference, stderr = change(before, after, panel=panel)
    reach = quantile((1.0 - level) / 2.0) * stderr
    low = difference - reach
    high = difference + reach

    # The clients of a window are a sample of the population, which the error of its shares does not include.
    sampling = _sampling(before) + _sampling(after)
    distance = np.abs(difference) / np.sqrt(stderr**2 + sampling)
    if not all(dense(e.n_independent, e.oracle.p, e.oracle.q) for e in (before, after)):
        earlier_low, earlier_high = before.interval((1.0 + level) / 2.0)
        later_low, later_high = after.interval((1.0 + level) / 2.0)
        low = later_low - earlier_high
        high = later_high - earlier_low
        distance = np.minimum(distance, _root(before, after))

    p_values = _two_sided(distance)
    return ShareChanges(
        difference=difference,
        stderr=stderr,
        low=np.clip(low, -1.0, 1.0),
        high=np.clip(high, -1.0, 1.0),
        p_values=p_values,
        proved=holm(p_values, size or len(difference), family_error),
    )


def _sampling(estimate: Estimate) -> Floats:
    """Return the variance of each share that comes from the choice of the clients."""
    f = np.clip(estimate.shares, 0.0, 1.0)
    return f * (1.0 - f) / (estimate.population or estimate.n_independent)


def _two_sided(distance: Floats) -> Floats:
    """Return the probability that a normal deviate is at least as far from zero."""
    from scipy import special

    tails: Floats = 2.0 * special.ndtr(-distance)
    return tails


def _root(before: Estimate, after: Estimate) -> Floats:
    """Return the distance of sparse support counts from one common rate: the root of the likelihood ratio.

    Normal tails hold for few reports too, because each pair of counts is moved together by half a report.
    """
    from scipy import special

    n = before.n_independent
    m = after.n_independent
    c = before.counts * (n / before.n)
    k = after.counts * (m / after.n)
    rises = k * n > c * m
    c = c + np.where(rises, 0.5, -0.5)
    k = k - np.where(rises, 0.5, -0.5)

    # Two rates so near that half a report swaps them do not differ.
    is_crossed = np.where(rises, k * n <= c * m, k * n >= c * m)
    c = np.clip(c, 0.0, n)
    k = np.clip(k, 0.0, m)
    rate = (c + k) / (n + m)
    ratio = sum(
        special.rel_entr(part, total * rate) + special.rel_entr(total - part, total * (1.0 - rate))
        for part, total in ((c, n), (k, m))
    )
    root: Floats = np.where(is_crossed, 0.0, np.sqrt(np.maximum(2.0 * ratio, 0.0)))
    return root


def holm(p_values: Floats, size: int, family_error: float) -> Flags:
    """Return which of `size` hypotheses are rejected. Those without a p-value here are never rejected."""
    order = np.argsort(p_values, kind="stable")
    levels = family_error / np.maximum(size - np.arange(len(order)), 1)
    passes = p_values[order] <= levels

    # The procedure stops at the first p-value above its level, even if a later one is below its own.
    count = len(order) if passes.all() else int(np.argmin(passes))
    proved = np.zeros(len(order), bool)
    proved[order[:count]] = True
    return proved
