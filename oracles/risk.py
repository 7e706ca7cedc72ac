"""The error of a method for an estimate, without the truth, and the recommended method."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from oracles.consistency import BASE, CALIBRATE, METHODS, NORM_SUB, apply, blank, find
from oracles.consistency.fitting import Calibration, fit_prior
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
    fresh = rehearse(estimate, truth, seed)
    return float(np.mean([np.mean((apply(method, e, alpha=alpha, top=top) - truth) ** 2) for e in fresh]))


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
    x, v = estimate.shares, estimate.stderr**2
    g = apply(method, estimate, calibrated=calibrated) if shares is None else shares
    distance = (g - x) ** 2 - v
    if blank(row, estimate):
        return distance
    own, back = row.slope(estimate, g, calibrated)
    if back is None:
        return distance + 2.0 * own * v
    return distance + 2.0 * own * (v - estimate.covariance.times(back, x.clip(0.0, 1.0)))


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
    truth, curve = likely_truth(estimate), _curve(estimate, calibrated or fit_prior(estimate))
    count = top if task == "top" else None
    losses: dict[str, list[float]] = {name: [] for name in METHODS}
    for fresh in rehearse(estimate, truth, seed):
        posterior = _PosteriorMeans(curve(fresh.shares))
        for name, losses_of_method in losses.items():
            losses_of_method.append(_loss(task, apply(name, fresh, top=count, calibrated=posterior) - truth, top))
    risks = {name: float(np.mean(losses_of_method)) for name, losses_of_method in losses.items()}
    if task == "sets":
        part = (len(truth) // 2) / len(truth)
        risks |= {
            name: _clipped(risks[BASE], part) for name, method in METHODS.items() if method.answer is clipped_answer
        }
    names = sorted(risks, key=risks.__getitem__)
    if task == "top" and not find(names[0]).keeps_the_top and _undecided(estimate, truth, top):
        return unknown
    return [Rank(name, risks[name]) for name in names]


def _undecided(estimate: Estimate, truth: Floats, top: int) -> bool:
    """Whether some of the most frequent values stand out, and others that may be large do not.

    If about one in a thousand values stands two or three standard errors high, no spread of the shares can
    separate them from luck. To set them to zero costs more than to leave their noise.
    """
    clear = int(np.count_nonzero(truth[:top] > _CLEAR * estimate.sigma))
    if not 0 < clear < min(top, len(truth)):
        return False
    variance = float(estimate.set_noise(clear).variance(float(truth[:clear].sum())))
    most_left = 1.0 - float(truth[:clear].sum()) + 2.0 * math.sqrt(variance)
    return most_left > (top - clear) * estimate.sigma / 2.0


@dataclass(frozen=True)
class _PosteriorMeans:
    shares: Floats


def _curve(estimate: Estimate, calibration: Calibration) -> Callable[[Floats], Floats]:
    """Return calibrate's answer for any x under the prior fitted here. It depends on a value's own x alone."""
    order = np.argsort(estimate.shares)
    x, g = estimate.shares[order], calibration.shares[order]
    x, g = np.append(x, x[-1] + 1.0), np.append(g, g[-1] + 1.0)  # far up it changes nothing
    return lambda shares: np.interp(shares, x, g)


def _loss(task: str, error: Floats, top: int) -> float:
    """Return the cost of these errors in the task. The errors of the most frequent values stand first."""
    if task == "top":
        error = error[:top]
    squares = float(error @ error)
    if task != "sets":
        return squares / len(error)
    size, half = len(error), len(error) // 2
    total = float(error.sum())
    pairs = (half - 1) / (size - 1)
    return half / size * ((1.0 - pairs) * squares + pairs * total * total)


def _clipped(variance: float, share: float) -> float:
    """Return the squared error of an answer with this variance around `share`, if negative answers become 0."""
    normal, far = NormalDist(), share / math.sqrt(variance)
    return variance * (normal.cdf(far) - far * normal.pdf(far)) + share**2 * normal.cdf(-far)
