"""Consistent estimates: methods that turn unbiased shares into shares that make sense, a row each."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from oracles.errors import ParameterError
from oracles.estimate import Estimate
from oracles.kernels.simplex import project
from oracles.method import (
    Method,
    centred,
    clipped,
    cut,
    leaning,
    projected,
    scaled,
    shifted,
    shrunk,
    still,
    unbiased,
)
from oracles.types import Floats, whole_number

BASE, NORM_SUB, CALIBRATE = "base", "norm_sub", "calibrate"
"""Methods that others rely on: the shares as they are, the nearest distribution, the posterior mean."""
UNBIASED = "unbiased"
"""Another name of base, by which records and answers show it."""
_ROUNDING = 1e-12
"""Sums that differ from 1 by less are 1: a distribution must not lose a value to the last bit."""


class HasShares(Protocol):
    """A calibration as methods take it."""

    @property
    def shares(self) -> Floats: ...


def base(estimate: Estimate) -> Floats:
    """The unbiased shares as they are."""
    return estimate.shares.copy()


def base_pos(estimate: Estimate) -> Floats:
    """Negative shares become zero."""
    return np.maximum(estimate.shares, 0.0)


def base_cut(estimate: Estimate, alpha: float = 2.0) -> Floats:
    """Shares below the threshold become zero: `alpha` values of share zero are expected above it."""
    x = estimate.shares
    return np.where(x >= threshold(estimate, alpha), x, 0.0)


def zero(estimate: Estimate, alpha: float = 0.05) -> Floats:
    """OUE-Zero: what is not significant becomes zero."""
    return base_cut(estimate, alpha)


def norm(estimate: Estimate) -> Floats:
    """The same for all is added, so that the sum is 1."""
    x = estimate.shares
    return x + (1.0 - float(x.sum())) / len(x)


def norm_mul(estimate: Estimate) -> Floats:
    """Negative shares become zero, the others are divided by their sum."""
    kept = np.maximum(estimate.shares, 0.0)
    kept /= kept.max()
    kept /= kept.sum()
    return kept


def norm_sub(estimate: Estimate) -> Floats:
    """The nearest distribution: the same is taken from all, and what would be negative is zero."""
    return project(estimate.shares)


def norm_cut(estimate: Estimate) -> Floats:
    """The largest shares whose sum stays within 1; all others become zero."""
    x = estimate.shares
    return np.where(x > _first_beyond(x[x > 0.0], 1.0 + _ROUNDING), x, 0.0)


def norm_hyb(estimate: Estimate, alpha: float = 2.0, top: int | None = None) -> Floats:
    """Shares above the threshold, or among the `top` largest, stay; norm_sub shares the rest out among the others."""
    x = estimate.shares
    kept = x > threshold(estimate, alpha) if top is None else x >= _largest(x, top)
    kept &= x > 0.0
    if float(x[kept].sum()) > 1.0 + _ROUNDING:
        kept &= x > _first_beyond(x[kept], 1.0 - _ROUNDING)
    if kept.all() or not kept.any():
        return project(x)
    shares = project(np.where(kept, -np.inf, x), 1.0 - float(x[kept].sum()))
    shares[kept] = x[kept]
    return shares


def mle_apx(estimate: Estimate) -> Floats:
    """The most likely distribution, noise taken as normal with each value's own variance.

    Where f > 0 the slope of (x - f)^2 / (a + b f) is the same for all values, hence
    f = (x - a t) / (1 + b t): norm_sub with a sum that leans on the level a t.
    """
    unit = estimate.oracle.noise(1)
    shares = project(estimate.shares, lean=unit.b / unit.a)
    shares /= shares.sum()
    return shares


def calibrate(estimate: Estimate, calibrated: HasShares | None = None) -> Floats:
    """The posterior mean under a fitted prior."""
    if calibrated is None:
        from oracles.fitting import fit_prior

        calibrated = fit_prior(estimate)
    return calibrated.shares.copy()


def calibrate_norm_sub(estimate: Estimate, calibrated: HasShares | None = None) -> Floats:
    """The distribution nearest to the posterior mean."""
    return project(calibrate(estimate, calibrated))


_TABLE = (
    # name, shares, never negative, sums to one, keeps order, good for, slope (none: they jump)
    Method(BASE, base, False, "no", True, ("top",), still, answer=unbiased),
    Method("base_pos", base_pos, True, "no", True, ("top",), cut),
    Method("post_pos", base_pos, True, "no", True, ("top",), cut, answer=clipped),
    Method("base_cut", base_cut, True, "no", True, ("single",), options=("alpha",)),
    Method("norm", norm, False, "yes", True, ("top",), shifted, answer=centred),
    Method("norm_mul", norm_mul, True, "yes", True, (), scaled),
    Method(NORM_SUB, norm_sub, True, "yes", True, ("sets",), projected),
    Method("norm_cut", norm_cut, True, "at most", True, ()),
    Method("norm_hyb", norm_hyb, True, "yes", False, ("top", "sets"), options=("alpha", "top")),
    Method("mle_apx", mle_apx, True, "yes", True, ("sets",), leaning),
    Method(CALIBRATE, calibrate, True, "no", True, ("single",), shrunk, ("calibrated",)),
    Method("calibrate_norm_sub", calibrate_norm_sub, True, "yes", True, ("single", "sets"), projected, ("calibrated",)),
    Method("zero", zero, True, "no", True, ("single",), options=("alpha",)),
)
METHODS: Mapping[str, Method] = MappingProxyType({method.name: method for method in _TABLE})
"""Every method under its name."""


def find(name: str | Method) -> Method:
    """The method of this name, which may be UNBIASED. A row that is none of METHODS is itself."""
    if isinstance(name, Method):
        return name
    method = METHODS.get(BASE if name == UNBIASED else name)
    if method is None:
        raise ParameterError(f"there is no method {name!r}; choose one of {', '.join(METHODS)}")
    return method


def apply(
    method: str | Method,
    estimate: Estimate,
    *,
    alpha: float | None = None,
    top: int | None = None,
    calibrated: HasShares | None = None,
) -> Floats:
    """The shares of all values by `method`. A method that has no use for an option ignores it.

    Equal values get equal shares, and the order of the domain plays no part. Without reports, or with
    no value above zero, methods that sum to 1 say 1/d everywhere; without reports all others say NaN.
    `calibrated` is what calibrate says of this estimate, where that is known already.
    """
    chosen = find(method)
    given = {"alpha": alpha, "top": top, "calibrated": calibrated}
    options = {name: given[name] for name in chosen.options if given[name] is not None}
    size = len(estimate.shares)
    if blank(chosen, estimate):
        return np.full(size, 1.0 / size)
    return chosen.shares(estimate, **options) if estimate.n else np.full(size, np.nan)


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
    """The share of a set of values by `method`, with its standard error where that is known.

    `shares` are those of all values by this method, where they are known already.
    """
    own = estimate.answer(values)

    def by_method() -> Floats:
        return apply(method, estimate, alpha=alpha, top=top, calibrated=calibrated) if shares is None else shares

    return find(method).answer(own, estimate, np.asarray(values), by_method)


def blank(method: Method, estimate: Estimate) -> bool:
    """Whether there is nothing to share out, so that a method that sums to 1 says 1/d."""
    return method.sums_to_one == "yes" and not float(estimate.shares.max()) > 0.0


def threshold(estimate: Estimate, alpha: float) -> float:
    """The share above which `alpha` values of share zero are expected."""
    if not alpha > 0.0:
        raise ParameterError(f"alpha must be a number above 0, got {alpha!r}")
    return estimate.noise.significance(len(estimate.shares), alpha)


def _largest(x: Floats, rank: int) -> float:
    """The largest value but `rank` - 1."""
    if not whole_number("top", rank):
        raise ParameterError("top must be at least 1")
    place = max(len(x) - rank, 0)
    return float(np.partition(x, place)[place])


def _first_beyond(values: Floats, limit: float) -> float:
    """Going down from the largest, the value at which the sum exceeds `limit`; 0 where it never does.

    What is larger than it fits: equal values are taken together or not at all.
    """
    down = np.sort(values)[::-1]
    beyond = int(np.searchsorted(np.cumsum(down), limit, side="right"))
    return float(down[beyond]) if beyond < len(down) else 0.0
