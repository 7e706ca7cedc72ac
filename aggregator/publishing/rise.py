"""Whether shares have risen between two windows that do not overlap.

Both windows are samples of those who could have answered. Where the same clients repeat their
answers, what did not change brings no noise, and the windows themselves show how much did.
"""

import numpy as np
from scipy import special

from oracles.estimate import Estimate, change, quantile
from oracles.types import Floats, Ints


def risen(before: Estimate, now: Estimate, error: float, *, panel: bool) -> set[int]:
    """Positions of the values whose share is proved to have risen; expected false ones: at most `error` of them.

    Where the noise is not measured on a panel, a second test holds for small counts too.
    """
    z = quantile(error / len(now.shares))
    rise, moved = change(before, now, panel=panel)
    _, apart = change(before, now, panel=False)
    found = np.flatnonzero(rise > z * np.sqrt(moved**2 + _sampling(before) + _sampling(now)))
    measured = moved[found] < apart[found]
    return set(found[measured | (_signed_root(before, now, found) > z)].tolist())


def _sampling(estimate: Estimate) -> Floats:
    """The variance of the shares of those who answer, around those of all who could."""
    f = np.clip(estimate.shares, 0.0, 1.0)
    found: Floats = f * (1.0 - f) / (estimate.population or estimate.n_independent)
    return found


def _signed_root(before: Estimate, now: Estimate, values: Ints) -> Floats:
    """How far two support counts are from one rate: the root of the likelihood ratio.

    With half a count taken from the rise. It is as normal as z for large counts, and stays so for
    the handful that a value of a large domain has with grr, where z gives many times too many.
    """
    n, m = before.n_independent, now.n_independent
    c = np.minimum(before.counts[values] * (n / before.n) + 0.5, n)
    k = np.maximum(now.counts[values] * (m / now.n) - 0.5, 0.0)
    rate = (c + k) / (n + m)
    likelier = sum(
        special.rel_entr(part, of * rate) + special.rel_entr(of - part, of * (1.0 - rate))
        for part, of in ((c, n), (k, m))
    )
    root: Floats = np.where(k * n > c * m, np.sqrt(np.maximum(2.0 * likelier, 0.0)), 0.0)
    return root
