"""Methods that turn unbiased shares into consistent ones, a row each."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from oracles.consistency.method import (
    Method,
    centred_answer,
    clipped_answer,
    lean_slope,
    positive_slope,
    prior_slope,
    projection_slope,
    scale_slope,
    shift_slope,
    unbiased_answer,
    unit_slope,
)
from oracles.errors import ParameterError
from oracles.estimate import Estimate
from oracles.kernels.simplex import project
from oracles.types import Floats, whole_number

BASE = "base"
"""The unbiased shares, from which all other methods start."""
NORM_SUB = "norm_sub"
"""The nearest distribution, by which a rejected prior is replaced."""
CALIBRATE = "calibrate"
"""The posterior mean under a fitted prior."""
UNBIASED = "unbiased"
"""Second name of base, used in records and answers."""
_ROUNDING = 1e-12
"""Distance from 1 within which a sum is 1, so that a distribution does not lose a value to the last bit."""


class HasShares(Protocol):
    """The part of a calibration that methods use."""

    @property
    def shares(self) -> Floats: ...


def base(estimate: Estimate) -> Floats:
    """Return the unbiased shares unchanged."""
    return estimate.shares.copy()


def base_pos(estimate: Estimate) -> Floats:
    """Replace negative shares by zero."""
    return np.maximum(estimate.shares, 0.0)


def base_cut(estimate: Estimate, alpha: float = 2.0) -> Floats:
    """Replace shares below the threshold by zero. `alpha` values of share zero are expected above it."""
    x = estimate.shares
    return np.where(x >= threshold(estimate, alpha), x, 0.0)


def zero(estimate: Estimate, alpha: float = 0.05) -> Floats:
    """OUE-Zero: replace shares that are not significant by zero."""
    return base_cut(estimate, alpha)


def norm(estimate: Estimate) -> Floats:
    """Add the same amount to all shares, so that the sum is 1."""
    x = estimate.shares
    return x + (1.0 - float(x.sum())) / len(x)


def norm_mul(estimate: Estimate) -> Floats:
    """Replace negative shares by zero, and divide the others by their sum."""
    positive = np.maximum(estimate.shares, 0.0)
    # The largest first: the sum of tiny shares could be 0.
    positive /= positive.max()
    positive /= positive.sum()
    return positive


def norm_sub(estimate: Estimate) -> Floats:
    """Return the nearest distribution: subtract the same amount from all shares, with a minimum of zero."""
    return project(estimate.shares)


def norm_cut(estimate: Estimate) -> Floats:
    """Keep the largest shares whose sum stays within 1, and replace all others by zero."""
    x = estimate.shares
    return np.where(x > _first_beyond(x[x > 0.0], 1.0 + _ROUNDING), x, 0.0)


def norm_hyb(estimate: Estimate, alpha: float = 2.0, top: int | None = None) -> Floats:
    """Keep shares above the threshold, or the `top` largest. norm_sub distributes the rest over the others."""
    x = estimate.shares
    is_large = x > threshold(estimate, alpha) if top is None else x >= _largest(x, top)
    is_large &= x > 0.0
    # A kept sum above 1 would leave the others a negative part.
    if float(x[is_large].sum()) > 1.0 + _ROUNDING:
        is_large &= x > _first_beyond(x[is_large], 1.0 - _ROUNDING)
    if is_large.all() or not is_large.any():
        return project(x)

    shares = project(np.where(is_large, -np.inf, x), 1.0 - float(x[is_large].sum()))
    shares[is_large] = x[is_large]
    return shares


def mle_apx(estimate: Estimate) -> Floats:
    """Return the most likely distribution, with normal noise of each value's own variance.

    The slope of (x - f)^2 / (a + b f) is the same for all values with f > 0, so f = (x - a t) / (1 + b t).
    This is norm_sub with a sum that leans on the level a t.
    """
    unit = estimate.oracle.noise(1)
    shares = project(estimate.shares, lean=unit.b / unit.a)
    shares /= shares.sum()
    return shares


def calibrate(estimate: Estimate, calibrated: HasShares | None = None) -> Floats:
    """Return the posterior mean under a fitted prior."""
    if calibrated is None:
        from oracles.consistency.fitting import fit_prior

        calibrated = fit_prior(estimate)
    return calibrated.shares.copy()


def calibrate_norm_sub(estimate: Estimate, calibrated: HasShares | None = None) -> Floats:
    """Return the distribution nearest to the posterior mean."""
    return project(calibrate(estimate, calibrated))


_TABLE = (
    # name, shares, never negative, sums to one, keeps order, good for, slope (none: they jump)
    Method(BASE, base, False, "no", True, ("top",), unit_slope, answer=unbiased_answer),
    Method("base_pos", base_pos, True, "no", True, ("top",), positive_slope),
    Method("post_pos", base_pos, True, "no", True, ("top",), positive_slope, answer=clipped_answer),
    Method("base_cut", base_cut, True, "no", True, ("single",), options=("alpha",)),
    Method("norm", norm, False, "yes", True, ("top",), shift_slope, answer=centred_answer),
    Method("norm_mul", norm_mul, True, "yes", True, (), scale_slope),
    Method(NORM_SUB, norm_sub, True, "yes", True, ("sets",), projection_slope),
    Method("norm_cut", norm_cut, True, "at most", True, ()),
    Method("norm_hyb", norm_hyb, True, "yes", False, ("top", "sets"), options=("alpha", "top")),
    Method("mle_apx", mle_apx, True, "yes", True, ("sets",), lean_slope),
    Method(CALIBRATE, calibrate, True, "no", True, ("single",), prior_slope, ("calibrated",)),
    Method(
        "calibrate_norm_sub",
        calibrate_norm_sub,
        True,
        "yes",
        True,
        ("single", "sets"),
        projection_slope,
        ("calibrated",),
    ),
    Method("zero", zero, True, "no", True, ("single",), options=("alpha",)),
)
METHODS: Mapping[str, Method] = MappingProxyType({method.name: method for method in _TABLE})
"""Every method under its name."""


def find(name: str | Method) -> Method:
    """Return the method of this name, which may be UNBIASED. A Method is returned unchanged."""
    if isinstance(name, Method):
        return name
    method = METHODS.get(BASE if name == UNBIASED else name)
    if method is None:
        raise ParameterError(f"unknown method {name!r}; choose one of {', '.join(METHODS)}")
    return method


def apply(
    method: str | Method,
    estimate: Estimate,
    *,
    alpha: float | None = None,
    top: int | None = None,
    calibrated: HasShares | None = None,
) -> Floats:
    """Return the shares of all values by `method`. A method ignores options that it does not use.

    Equal values get equal shares, and the order of the domain has no influence. Without reports, or if no value
    is above zero, methods that sum to 1 return 1/d everywhere. Without reports all other methods return NaN.
    `calibrated` saves calibrate a second fit of this estimate.
    """
    row = find(method)
    options = {"alpha": alpha, "top": top, "calibrated": calibrated}
    own_options = {name: options[name] for name in row.options if options[name] is not None}
    size = len(estimate.shares)
    if blank(row, estimate):
        return np.full(size, 1.0 / size)
    # A method would divide by the n of no reports.
    if not estimate.n:
        return np.full(size, np.nan)
    return row.shares(estimate, **own_options)


def answer(
    method: str | Method,
    estimate: Estimate,
    values: Sequence[int] | ArrayLike,
    *,
    alpha: float | None = None,
    top: int | None = None,
    calibrated: HasShares | None = None,
    shares: Floats | None = None,
) -> tuple[float, float | None]:
    """Return the share of a set of values by `method`, and its standard error or None.

    `shares` are those of all values by this method, if they are at hand.
    """
    unbiased = estimate.answer(values)

    def by_method() -> Floats:
        return apply(method, estimate, alpha=alpha, top=top, calibrated=calibrated) if shares is None else shares

    return find(method).answer(unbiased, estimate, np.asarray(values), by_method)


def blank(method: Method, estimate: Estimate) -> bool:
    """Whether there is nothing to distribute, so that a method that sums to 1 returns 1/d."""
    return method.sums_to_one == "yes" and not float(estimate.shares.max()) > 0.0


def threshold(estimate: Estimate, alpha: float) -> float:
    """Return the share above which `alpha` values of share zero are expected."""
    if not alpha > 0.0:
        raise ParameterError(f"alpha must be a number above 0, got {alpha!r}")
    return estimate.noise.significance(len(estimate.shares), alpha)


def _largest(x: Floats, rank: int) -> float:
    """Return the value at this rank, with rank 1 the largest."""
    if not whole_number("top", rank):
        raise ParameterError("top must be at least 1")
    # More than there are means all of them.
    place = max(len(x) - rank, 0)
    return float(np.partition(x, place)[place])


def _first_beyond(values: Floats, limit: float) -> float:
    """Return the value, going down from the largest, at which the sum exceeds `limit`, or 0.

    All larger values fit. Equal values fit together or not at all.
    """
    falling = np.sort(values)[::-1]
    # Of equal values the one beyond the limit drops all, or the order of the domain would decide.
    place = int(np.searchsorted(np.cumsum(falling), limit, side="right"))
    return float(falling[place]) if place < len(falling) else 0.0
