"""Rows of methods: the promises of each, how its shares follow the unbiased ones, and its answers for sets."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from oracles.estimate import Estimate
from oracles.types import Floats, Ints

if TYPE_CHECKING:
    from oracles.consistency.calibration import Calibration

Task = Literal["single", "top", "sets"]
"""A use of shares: single values, the most frequent values, or sums over sets."""
TASKS: tuple[Task, ...] = get_args(Task)

Slope = Callable[[Estimate, Floats, "Calibration | None"], tuple[Floats, Floats | None]]
"""The change of shares g with the unbiased shares x.

Raising x_j by 1 raises g_j by own_j, and lowers every g_i by own_j back_i. back is None if no other share
moves. The arguments are the estimate, g, and the calibration if a prior is fitted.
"""
Answer = Callable[[tuple[float, float], Estimate, Ints, Callable[[], Floats]], tuple[float, float | None]]
"""The share of a set and its standard error. The arguments are the unbiased pair, the estimate, positions, and the
shares of the method."""


def sum_answer(_: tuple[float, float], __: Estimate, values: Ints, shares: Callable[[], Floats]) -> tuple[float, None]:
    """Return the sum of a set's shares, with an unknown error."""
    return float(shares()[values].sum()), None


@dataclass(frozen=True)
class Method:
    """A row of METHODS: the promises of a method, its good uses, and how its shares move."""

    name: str
    shares: Callable[..., Floats]
    non_negative: bool
    sums_to_one: Literal["yes", "no", "at most"]
    keeps_order: bool
    good_for: tuple[Task, ...]
    slope: Slope | None = None
    """Slope of the shares, or None if they jump: then a tiny change of the input can change one by much."""
    options: tuple[str, ...] = ()
    """Options that the method takes, of `alpha`, `top` and `calibrated`."""
    answer: Answer = sum_answer

    @property
    def jumps(self) -> bool:
        return self.slope is None

    @property
    def keeps_the_top(self) -> bool:
        """Whether frequent values stay unchanged, or move with all others."""
        return self.slope in (unit_slope, positive_slope, shift_slope)

    @property
    def fits_a_prior(self) -> bool:
        return "calibrated" in self.options


def unit_slope(estimate: Estimate, g: Floats, _: "Calibration | None") -> tuple[Floats, None]:
    del estimate
    return np.ones_like(g), None


def positive_slope(estimate: Estimate, g: Floats, _: "Calibration | None") -> tuple[Floats, None]:
    del g
    return _positive(estimate.shares), None


def shift_slope(estimate: Estimate, g: Floats, _: "Calibration | None") -> tuple[Floats, Floats]:
    del estimate
    return np.ones_like(g), np.full_like(g, 1.0 / len(g))


def scale_slope(estimate: Estimate, g: Floats, _: "Calibration | None") -> tuple[Floats, Floats]:
    positive = _positive(estimate.shares)
    return positive / float((positive * estimate.shares).sum()), g


def prior_slope(estimate: Estimate, g: Floats, calibration: "Calibration | None") -> tuple[Floats, None]:
    # The slope of a posterior mean is its variance over that of the noise (Tweedie's formula).
    return (np.ones_like(g) if calibration is None else calibration.stdev**2 / estimate.noise.a), None


def projection_slope(estimate: Estimate, g: Floats, calibration: "Calibration | None") -> tuple[Floats, Floats]:
    # The level rises by the mean of the moves, so the sum stays 1.
    positive = _positive(g)
    return positive * prior_slope(estimate, g, calibration)[0], positive / positive.sum()


def lean_slope(estimate: Estimate, g: Floats, _: "Calibration | None") -> tuple[Floats, Floats]:
    # f = (x - a t)/(1 + b t), see mle_apx: both x and the level a t move it.
    positive = _positive(g)
    unit = estimate.oracle.noise(1)
    lean = unit.b / unit.a
    level = (float((positive * estimate.shares).sum()) - 1.0) / (positive.sum() + lean)
    return positive / (1.0 + lean * level), positive * (1.0 + lean * g) / (positive.sum() + lean)


def _positive(shares: Floats) -> Floats:
    return (shares > 0.0).astype(np.float64)


def unbiased_answer(
    own: tuple[float, float], _: Estimate, __: Ints, ___: Callable[[], Floats]
) -> tuple[float, float | None]:
    return own


def clipped_answer(
    own: tuple[float, float], estimate: Estimate, _: Ints, __: Callable[[], Floats]
) -> tuple[float, float | None]:
    """Return the unbiased share of the set, or 0 if it is negative."""
    return (max(own[0], 0.0) if estimate.n else own[0]), None


def centred_answer(
    _: tuple[float, float], estimate: Estimate, values: Ints, shares: Callable[[], Floats]
) -> tuple[float, float | None]:
    """Return the sum of norm's shares. These are the unbiased ones, all moved by the same amount to sum to 1."""
    all_shares = shares()
    share = float(all_shares[values].sum())
    variance = estimate.covariance.contrast(len(values), len(all_shares), min(max(share, 0.0), 1.0))
    return share, float(np.sqrt(max(variance, 0.0)))
