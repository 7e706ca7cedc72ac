"""The promises of the methods, for `check`."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from oracles.consistency import answer, apply, blank
from oracles.consistency.method import TASKS, Method
from oracles.errors import ConformanceError
from oracles.estimate import Estimate
from oracles.mechanisms import ORACLES, oracle
from oracles.types import Floats

FALSE_ALARM = 1e-9
"""Probability that one statistical check fails although its promise is kept."""


def hold(promise: object, message: str) -> None:
    """Raise a ConformanceError with this message if a promise is broken."""
    if not promise:
        raise ConformanceError(message)


def steps(method: Method, rng: np.random.Generator) -> list[Callable[[], None]]:
    """Return the checks of a method, over many estimates."""
    estimates = _estimates(rng)
    promises = [partial(_check_promises, method, e) for e in estimates]
    # One report leaves no spread by which a small step could be measured.
    slopes = [partial(_check_slope, method, e, rng) for e in estimates if e.n > 1]
    return [partial(_check_row, method), *promises, *slopes]


def _estimates(rng: np.random.Generator) -> list[Estimate]:
    """Return estimates of few and many reports, crowded and empty, with ties, and with all shares negative."""
    estimates = []
    for name in ORACLES:
        for epsilon, size, n in ((1.0, 12, 2000), (4.0, 40, 500), (0.5, 2, 3), (1.0, 60, 10**9), (2.0, 5, 0)):
            o = oracle(name, epsilon=epsilon, size=size)
            true_counts = rng.multinomial(n, rng.dirichlet(np.full(size, 0.3)))
            counts = rng.binomial(true_counts, o.p) + rng.binomial(n - true_counts, o.q)
            counts[-2:] = counts[-2]
            estimates.append(Estimate(o.shares(counts, n), n, o))

        estimates.append(Estimate(np.full(size, -0.25), 9, o))
    return estimates


def _check_row(method: Method) -> None:
    hold(method.sums_to_one in ("yes", "no", "at most"), f"sums_to_one is {method.sums_to_one!r}")
    hold(set(method.good_for) <= set(TASKS), f"good_for has {set(method.good_for) - set(TASKS)}; tasks are {TASKS}")
    unknown = set(method.options) - {"alpha", "top", "calibrated"}
    hold(not unknown, f"options has unknown names: {unknown}")


def _check_promises(method: Method, e: Estimate) -> None:
    shares = apply(method, e)
    origin = f"from {e.n} reports of {e.oracle!r}"
    hold(shares.shape == e.shares.shape and shares.dtype == np.float64, f"shares of another shape or type {origin}")
    if not e.n:
        return

    hold(np.isfinite(shares).all(), f"shares are not finite {origin}")
    hold(not method.non_negative or shares.min() >= 0.0, f"a share is negative {origin}: {shares.min()}")
    total = float(shares.sum())
    hold(method.sums_to_one != "yes" or abs(total - 1.0) < 1e-9, f"the sum is {total} {origin}")
    hold(method.sums_to_one != "at most" or total <= 1.0 + 1e-9, f"the sum is {total} {origin}")

    # Equal to the last bit, or the order of the domain would decide who is listed.
    for share in np.unique(e.shares):
        hold(np.ptp(shares[e.shares == share]) == 0.0, f"equal values have different shares {origin}")
    steps = np.diff(shares[np.argsort(e.shares, kind="stable")])
    hold(not method.keeps_order or steps.min() >= 0.0, f"the order is not kept {origin}")

    set_share, stderr = answer(method, e, [0])
    is_same = abs(set_share - shares[0]) < 1e-9
    hold(is_same, f"the answer to the set of one value is {set_share}, its share {shares[0]} {origin}")
    hold(stderr is None or stderr >= 0.0, f"the standard error of an answer is {stderr} {origin}")


def _check_slope(method: Method, e: Estimate, rng: np.random.Generator) -> None:
    """Compare the slope with a small step in a random direction. A fitted prior would move with the step."""
    if method.slope is None or method.fits_a_prior:
        return
    size = len(e.shares)
    # Shares of exactly 0 lie on the kinks of some methods, which have no slope there.
    shifted_estimate = Estimate(e.shares + 0.1 * e.sigma * rng.standard_normal(size), e.n, e.oracle)
    if blank(method, shifted_estimate):
        return

    step = 1e-6 * e.sigma
    direction = rng.choice([-1.0, 1.0], size)
    shares_ahead = apply(method, replace(shifted_estimate, shares=shifted_estimate.shares + step * direction))
    shares_behind = apply(method, replace(shifted_estimate, shares=shifted_estimate.shares + -step * direction))
    change: Floats = (shares_ahead - shares_behind) / (2.0 * step)

    own_slopes, back = method.slope(shifted_estimate, apply(method, shifted_estimate), None)
    slope_change = own_slopes * direction
    if back is not None:
        slope_change = slope_change - back * float(slope_change.sum())
    is_near = np.abs(change - slope_change) < 1e-3 * max(1.0, float(np.abs(slope_change).max()))
    hold(
        is_near.all(), f"slope says {slope_change[:3]}, a small step {change[:3]}, for the first values of {e.oracle!r}"
    )
