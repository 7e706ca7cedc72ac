"""The test for changes: the values whose share has risen or fallen between two stretches that do not overlap.

Both stretches are samples of all clients that could have answered. On a panel the same clients repeat their
answers, so an unchanged answer brings no noise, and the windows themselves show how much has changed.
"""

from dataclasses import dataclass

import numpy as np

from aggregator.records.digits import rounded
from oracles.estimate import Estimate, change, quantile
from oracles.types import Floats, Ints

BACK = 1.96
"""Standard errors within which a share is back at its value before an alert."""


@dataclass(frozen=True, eq=False)
class ChangedValues:
    """The values that have changed, and the errors of all changes."""

    rises: list[int]
    falls: list[int]
    error: Floats
    """The standard error of the change of each value."""
    shares_before: Floats
    shares: Floats

    def before(self, value: int) -> float | None:
        """Return the share of a value in the stretch before."""
        return rounded(float(self.shares_before[value]))

    def is_back(self, value: int, before: float) -> bool:
        """Whether the share of a value is again what it was before an alert."""
        return bool(abs(self.shares[value] - before) <= BACK * self.error[value])

    def stands_still(self, value: int) -> bool:
        """Whether the share of a value is what it was in the stretch before, within its error."""
        return self.is_back(value, float(self.shares_before[value]))


def changes(before: Estimate, now: Estimate, error: float, *, panel: bool) -> ChangedValues:
    """Return the positions of the values whose share has changed.

    The expected number of false ones is `error` in each direction. On a panel the noise is measured. Otherwise a second
    test makes the result valid for small counts too.
    """
    z = quantile(error / len(now.shares))
    rise, noise = change(before, now, panel=panel)
    stderr = np.sqrt(noise**2 + _sampling(before) + _sampling(now))
    candidates = np.flatnonzero(np.abs(rise) > z * stderr)
    if not len(candidates):
        return ChangedValues([], [], stderr, before.shares, now.shares)

    # The second test takes all answers as fresh, so it says nothing of a value whose noise the panel has measured.
    _, fresh_noise = change(before, now, panel=False)
    on_panel = noise < fresh_noise
    upward = candidates[rise[candidates] > 0.0]
    downward = candidates[rise[candidates] < 0.0]
    rises = upward[on_panel[upward] | (_signed_root(before, now, upward) > z)]
    falls = downward[on_panel[downward] | (_signed_root(now, before, downward) > z)]
    return ChangedValues(rises.tolist(), falls.tolist(), stderr, before.shares, now.shares)


def _sampling(estimate: Estimate) -> Floats:
    """Return the variance of the shares of those who answer, around the shares of all who could."""
    f = estimate.shares.clip(0.0, 1.0)
    variance: Floats = f * (1.0 - f) / (estimate.population or estimate.n_independent)
    return variance


def _signed_root(before: Estimate, now: Estimate, values: Ints) -> Floats:
    """Return the distance of two support counts from one common rate: the root of the likelihood ratio.

    Half a count is subtracted from the rise. For large counts the root is as normal as z. It stays normal for the
    few counts that a value of a large domain has with grr, of which z would make far too many surges.
    """
    n = before.n_independent
    m = now.n_independent
    c = np.minimum(before.counts[values] * (n / before.n) + 0.5, n)
    k = np.maximum(now.counts[values] * (m / now.n) - 0.5, 0.0)
    rate = (c + k) / (n + m)
    ratio = _deviance(c, n, rate) + _deviance(k, m, rate)
    # Rounding can make the ratio of equal counts negative.
    root: Floats = np.where(k * n > c * m, np.sqrt(np.maximum(2.0 * ratio, 0.0)), 0.0)
    return root


def _deviance(counts: Floats, n: int, rate: Floats) -> Floats:
    """Return by how much the logarithm of the likelihood of counts exceeds that of a rate."""
    # A worker imports this module and calls nothing here. SciPy would be a quarter of its imports at each start.
    from scipy import special

    deviance: Floats = special.rel_entr(counts, n * rate) + special.rel_entr(n - counts, n * (1.0 - rate))
    return deviance
