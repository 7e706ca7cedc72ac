"""The differences between two windows, and the values that are proved to have changed.

A difference and its interval are about the clients who answered in the two windows, like the intervals of a window. A
proof is about the population from which they come, so it counts both windows as samples of it.
"""

from dataclasses import dataclass, replace

import numpy as np

from oracles.errors import ParameterError
from oracles.estimate.estimate import Estimate
from oracles.estimate.looks import ONE_LOOK, Looks
from oracles.estimate.pure import DENSE, dense
from oracles.types import Flags, Floats

_PANEL = 64
"""Number of values above which the unchanged ones show the noise of a panel."""


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
    measurable: bool = True,
    level: float = 0.95,
    family_error: float = 0.05,
    looks: Looks = ONE_LOOK,
) -> ShareChanges:
    """Return the differences of two windows of one query, whose estimates have the same values in the same order.

    Holm's procedure takes the number of values of the whole domain, `size`, because any of them may be the one that
    attracts attention. On a `panel` the same clients repeat their answers. If it is `measurable`, the values show how
    much has changed.
    Errors of windows that share reports or clients are never too small. `looks` says how often the same two things
    may be compared.

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

    difference, stderr = change(before, after, panel=panel, measurable=measurable)
    law = looks.law(before.n_independent, after.n_independent)
    reach = law.reach(level) * stderr
    low = difference - reach
    high = difference + reach

    # The clients of a window are a sample of the population, which the error of its shares does not include.
    sampling = _sampling(before) + _sampling(after)
    distance = np.abs(difference) / np.sqrt(stderr**2 + sampling)
    if not all(dense(e.n_independent, e.oracle.p, e.oracle.q) for e in (before, after)):
        window_level = (1.0 + law.level_of_one_look(level)) / 2.0
        earlier_low, earlier_high = _interval(before, window_level)
        later_low, later_high = _interval(after, window_level)
        low = later_low - earlier_high
        high = later_high - earlier_low
        distance = np.minimum(distance, _root(before, after))

    p_values = law.p_values(distance)
    return ShareChanges(
        difference=difference,
        stderr=stderr,
        low=np.clip(low, -1.0, 1.0),
        high=np.clip(high, -1.0, 1.0),
        p_values=p_values,
        proved=holm(p_values, size or len(difference), looks.part * family_error),
    )


def change(before: Estimate, after: Estimate, *, panel: bool = True, measurable: bool = True) -> tuple[Floats, Floats]:
    """Return the changes of all shares between two windows, and their standard errors.

    In a `panel` clients repeat their answers. Only clients whose class changed, and those that came or went,
    bring noise. If the panel is `measurable`, the values that did not change show how much: the median measures it, so
    that large changes do not hide small ones. Without a panel, or if too little is known, both errors count as
    independent. If clients answer by tables, the two errors of a client whose class changed can be negatively
    correlated, which counts too.
    """
    shares = after.shares - before.shares
    if not (before.n_independent and after.n_independent):
        return shares, np.full(len(shares), np.nan)

    independent_variance = before.noise.variance(before.shares) + after.noise.variance(after.shares)
    size = len(shares)
    fewest = min(before.n_independent, after.n_independent)
    if panel and after.oracle.excludes:
        independent_variance += _exclusion(after, fewest, before.shares, after.shares)
    is_measurable = panel and measurable and size >= _PANEL and after.oracle.one_value
    if not is_measurable or before.is_sample or after.is_sample:
        return shares, np.sqrt(independent_variance)

    # The median of the square of a normal deviate is 0.45494 times its variance. The factor allows for the error of
    # a median of `size` values, 95% to one side: too small a variance would prove changes that are none.
    panel_variance = (1.0 + 1.645 * np.sqrt(5.44 / size)) * float(np.median(shares**2)) / 0.45494
    # With a smaller variance of the changed counts they are not normal, and the median says nothing.
    if panel_variance * (fewest * after.oracle.gap) ** 2 < DENSE:
        return shares, np.sqrt(independent_variance)

    own_part = sum(max(e.noise.b, 0.0) * np.clip(e.shares, 0.0, 1.0) for e in (before, after))
    rare_variance = min(before.noise.a + after.noise.a, panel_variance)
    return shares, np.sqrt(np.minimum(rare_variance + own_part, independent_variance))


def _exclusion(estimate: Estimate, n: int, before: Floats, after: Floats) -> Floats:
    """Return the variance that a table adds to changes, if all `n` clients change their class.

    The supports of a value in two windows have the covariance of the supports of two values in one report, because a
    changed class moves to another bucket. It is zero for most oracles, and negative for grr and full.
    """
    law = replace(estimate, n_independent=n, population=None).covariance
    f = np.clip(before, 0.0, 1.0) + np.clip(after, 0.0, 1.0)
    # Only a negative covariance counts. A positive one would make errors smaller, which nobody has to believe.
    extra: Floats = np.maximum(-2.0 * (law.flat + law.tilt * f), 0.0)
    return extra


def _sampling(estimate: Estimate) -> Floats:
    """Return the variance of each share that comes from the choice of the clients."""
    f = np.clip(estimate.shares, 0.0, 1.0)
    return f * (1.0 - f) / (estimate.population or estimate.n_independent)


def _interval(estimate: Estimate, level: float) -> tuple[Floats, Floats]:
    """Return the intervals of a window, or all possible shares for the level 1."""
    if level < 1.0:
        return estimate.interval(level)
    return np.zeros(len(estimate.shares)), np.ones(len(estimate.shares))


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
