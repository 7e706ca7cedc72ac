"""Rows of methods: what one promises, how its shares move with the unbiased ones, and how it answers for sets."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from oracles.estimate import Estimate
from oracles.types import Floats, Ints

if TYPE_CHECKING:
    from oracles.fitting import Calibration

Task = Literal["single", "top", "sets"]
"""Uses of shares: those of single values, of the most frequent ones, or sums over sets."""
TASKS: tuple[Task, ...] = get_args(Task)

Slope = Callable[[Estimate, Floats, "Calibration | None"], tuple[Floats, Floats | None]]
"""How shares g answer to unbiased ones x. Raising x_j by 1 raises g_j by own_j, and takes own_j back_i from every
g_i; back is None where no other share moves. It is given the estimate, g, and the calibration where one is fitted."""
Answer = Callable[[tuple[float, float], Estimate, Ints, Callable[[], Floats]], tuple[float, float | None]]
"""The share of a set and its standard error: from the unbiased ones, the estimate, positions, the method's shares."""


def summed(_: tuple[float, float], __: Estimate, values: Ints, shares: Callable[[], Floats]) -> tuple[float, None]:
    """The sum of a set's shares; how sure that is, is not known."""
    return float(shares()[values].sum()), None


@dataclass(frozen=True)
class Method:
    """A row: a method, what it promises of its shares, what it is good for, and how they move."""

    name: str
    shares: Callable[..., Floats]
    non_negative: bool
    sums_to_one: Literal["yes", "no", "at most"]
    keeps_order: bool
    good_for: tuple[Task, ...]
    slope: Slope | None = None
    """None where shares jump: a tiny change of the input can change one by much."""
    options: tuple[str, ...] = ()
    """Those of `alpha`, `top` and `calibrated` that it takes."""
    answer: Answer = summed

    @property
    def jumps(self) -> bool:
        return self.slope is None

    @property
    def keeps_the_top(self) -> bool:
        """Whether frequent values stay as they are, or move with all others."""
        return self.slope in (still, cut, shifted)

    @property
    def fits_a_prior(self) -> bool:
        return "calibrated" in self.options


def still(estimate: Estimate, g: Floats, _: "Calibration | None") -> tuple[Floats, None]:
    del estimate
    return np.ones_like(g), None


def cut(estimate: Estimate, g: Floats, _: "Calibration | None") -> tuple[Floats, None]:
    del g
    return _positive(estimate.shares), None


def shifted(estimate: Estimate, g: Floats, _: "Calibration | None") -> tuple[Floats, Floats]:
    del estimate
    return np.ones_like(g), np.full_like(g, 1.0 / len(g))


def scaled(estimate: Estimate, g: Floats, _: "Calibration | None") -> tuple[Floats, Floats]:
    positive = _positive(estimate.shares)
    return positive / float((positive * estimate.shares).sum()), g


def shrunk(estimate: Estimate, g: Floats, calibrated: "Calibration | None") -> tuple[Floats, None]:
    return (np.ones_like(g) if calibrated is None else calibrated.stdev**2 / estimate.noise.a), None


def projected(estimate: Estimate, g: Floats, calibrated: "Calibration | None") -> tuple[Floats, Floats]:
    kept = _positive(g)
    return kept * shrunk(estimate, g, calibrated)[0], kept / kept.sum()


def leaning(estimate: Estimate, g: Floats, _: "Calibration | None") -> tuple[Floats, Floats]:
    kept, unit = _positive(g), estimate.oracle.noise(1)
    lean = unit.b / unit.a
    level = (float((kept * estimate.shares).sum()) - 1.0) / (kept.sum() + lean)
    return kept / (1.0 + lean * level), kept * (1.0 + lean * g) / (kept.sum() + lean)


def _positive(shares: Floats) -> Floats:
    return (shares > 0.0).astype(np.float64)


def unbiased(own: tuple[float, float], _: Estimate, __: Ints, ___: Callable[[], Floats]) -> tuple[float, float | None]:
    return own


def clipped(
    own: tuple[float, float], estimate: Estimate, _: Ints, __: Callable[[], Floats]
) -> tuple[float, float | None]:
    """The unbiased share of the set, and 0 where it is negative."""
    return (max(own[0], 0.0) if estimate.n else own[0]), None


def centred(
    _: tuple[float, float], estimate: Estimate, values: Ints, shares: Callable[[], Floats]
) -> tuple[float, float | None]:
    """The sum of norm's shares, which are the unbiased ones less their mean's distance from 1/d."""
    found = shares()
    share = float(found[values].sum())
    variance = estimate.covariance.contrast(len(values), len(found), min(max(share, 0.0), 1.0))
    return share, float(np.sqrt(max(variance, 0.0)))
