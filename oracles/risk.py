"""The error of a method for an estimate, without the truth, and the recommended method."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from oracles.consistency import BASE, CALIBRATE, METHODS, NORM_SUB, apply, blank, find
from oracles.consistency.calibration import Calibration
from oracles.consistency.fitting import fit_prior
from oracles.consistency.method import TASKS, Task, clipped_answer
from oracles.consistency.rehearsal import likely_truth, rehearse
from oracles.errors import ParameterError
from oracles.estimate import Estimate
from oracles.types import Floats, whole_number

_CLEAR = 2.0
"""Standard errors above which a value of the likely truth stands out."""


class Rank(NamedTuple):
    """A method and its expected mean squared error, NaN if that is not known."""

    method: str
    risk: float


def risk(
    method: str,
    estimate: Estimate,
    *,
    alpha: float | None = None,
    top: int | None = None,
    calibrated: Calibration | None = None,
    seed: int = 0,
    shares: Floats | None = None,
) -> float:
    """Return the expected squared error of a value's share by `method`, the mean over all values.

    Stein's formula needs no truth and holds for every truth. It does not hold for methods with jumps: for these
    the error comes from a rehearsal. NaN without independent reports. `shares` are those by this method, if they are
    at hand.
    """
    if not estimate.n_independent:
        return float("nan")
    if not find(method).jumps:
        terms = stein(method, estimate, calibrated, shares)
        return float(terms.sum()) / len(terms)

    truth = likely_truth(estimate)
    answers = (apply(method, rehearsal, alpha=alpha, top=top) for rehearsal in rehearse(estimate, truth, seed))
    return float(np.mean([np.mean((shares - truth) ** 2) for shares in answers]))


def stein(
    method: str, estimate: Estimate, calibrated: Calibration | None = None, shares: Floats | None = None
) -> Floats:
    """Return each value's term of Stein's unbiased estimate of the risk, for a method without jumps.

    With g the shares of the method, v the variance of x and C the covariance of all x: (g - x)^2 - v + 2 tr(C
    g'). Raising x_j by 1 raises g_j by own_j, and lowers every g_i by own_j back_i. `shares` are g, if it is at hand.
    """
    row = find(method)
    if row.slope is None:
        raise ParameterError(f"Stein's formula does not hold for {row.name}: its shares jump")
    if not row.fits_a_prior:
        calibrated = None
    elif calibrated is None:
        calibrated = fit_prior(estimate)

    x = estimate.shares
    v = estimate.stderr**2
    g = apply(method, estimate, calibrated=calibrated) if shares is None else shares
    distance = (g - x) ** 2 - v
    if blank(row, estimate):
        return distance

    # A fixed number of values in a report makes errors dependent, so a move of all shares counts with the covariance.
    own_slopes, back = row.slope(estimate, g, calibrated)
    if back is None:
        return distance + 2.0 * own_slopes * v
    return distance + 2.0 * own_slopes * (v - estimate.covariance.times(back, x.clip(0.0, 1.0)))


def rejects_prior(calibration: Calibration, estimate: Estimate, fallback: str = NORM_SUB) -> bool:
    """Whether `fallback` is better here than calibrate under its fitted prior, by more than luck explains."""
    ours = stein(CALIBRATE, estimate, calibration)
    theirs = risk(fallback, estimate) if find(fallback).jumps else stein(fallback, estimate, calibration)
    excess = ours - theirs
    return bool(excess.mean() > excess.std() / np.sqrt(len(excess)))


def recommend(
    estimate: Estimate, task: Task, *, top: int = 20, calibrated: Calibration | None = None, seed: int = 0
) -> list[Rank]:
    """Return all methods, the best first, by the mean squared error that is expected of them here.

    There are three tasks. "single" is each value alone. "top" is the `top` most frequent values, and norm_hyb
    keeps as many. "sets" is sums over random halves of the domain. All methods rehearse on the same noise, so
    their differences are known better than their risks.
    """
    if task not in TASKS:
        raise ParameterError(f"unknown task {task!r}; choose one of {', '.join(TASKS)}")
    if not whole_number("top", top):
        raise ParameterError("top must be at least 1")
    unknown = [Rank(name, float("nan")) for name in METHODS]
    if not estimate.n_independent:
        return unknown

    truth = likely_truth(estimate)
    curve = _curve(estimate, calibrated or fit_prior(estimate))
    count = top if task == "top" else None
    losses: dict[str, list[float]] = {name: [] for name in METHODS}
    for rehearsal in rehearse(estimate, truth, seed):
        # A fit for each rehearsal would cost a hundred times as much. The prior is that of the estimate.
        posterior = _PosteriorMeans(curve(rehearsal.shares))
        for name, losses_of_method in losses.items():
            error = apply(name, rehearsal, top=count, calibrated=posterior) - truth
            losses_of_method.append(_loss(task, error, top))
    risks = {name: float(np.mean(losses_of_method)) for name, losses_of_method in losses.items()}

    # The sum of clipped shares is not the clipped sum, so post_pos follows from the error of base.
    if task == "sets":
        part = (len(truth) // 2) / len(truth)
        clipped_names = [name for name, method in METHODS.items() if method.answer is clipped_answer]
        risks |= dict.fromkeys(clipped_names, _clipped(risks[BASE], part))

    names = sorted(risks, key=risks.__getitem__)
    if task == "top" and not find(names[0]).keeps_the_top and _undecided(estimate, truth, top):
        return unknown
    return [Rank(name, risks[name]) for name in names]


def _undecided(estimate: Estimate, truth: Floats, top: int) -> bool:
    """Whether some of the most frequent values stand out, and others that may be large do not.

    If about one in a thousand values stands two or three standard errors high, no spread of the shares can
    separate them from luck. To set them to zero costs more than to leave their noise.
    """
    clear_count = int(np.count_nonzero(truth[:top] > _CLEAR * estimate.sigma))
    if not 0 < clear_count < min(top, len(truth)):
        return False

    clear_share = float(truth[:clear_count].sum())
    variance = float(estimate.set_noise(clear_count).variance(clear_share))
    # Two standard errors: the part that the other values of the top can have at most.
    remaining = 1.0 - clear_share + 2.0 * math.sqrt(variance)
    return remaining > (top - clear_count) * estimate.sigma / 2.0


@dataclass(frozen=True)
class _PosteriorMeans:
    shares: Floats


def _curve(estimate: Estimate, calibration: Calibration) -> Callable[[Floats], Floats]:
    """Return calibrate's answer for any x under the prior fitted here. It depends on a value's own x alone."""
    order = np.argsort(estimate.shares)
    x = estimate.shares[order]
    g = calibration.shares[order]
    # Far up the posterior mean is x itself. np.interp would stay at the last g.
    x = np.append(x, x[-1] + 1.0)
    g = np.append(g, g[-1] + 1.0)
    return lambda shares: np.interp(shares, x, g)


def _loss(task: str, errors: Floats, top: int) -> float:
    """Return the cost of these errors in the task. The errors of the most frequent values stand first."""
    if task == "top":
        errors = errors[:top]
    squares = float(errors @ errors)
    if task != "sets":
        return squares / len(errors)

    # The mean over all halves of the domain, from the chance that two different values are in one half.
    size = len(errors)
    half = size // 2
    total = float(errors.sum())
    pairs = (half - 1) / (size - 1)
    return half / size * ((1.0 - pairs) * squares + pairs * total * total)


def _clipped(variance: float, share: float) -> float:
    """Return the squared error of an answer with this variance around `share`, if negative answers become 0."""
    normal = NormalDist()
    distance = share / math.sqrt(variance)
    return variance * (normal.cdf(distance) - distance * normal.pdf(distance)) + share**2 * normal.cdf(-distance)
