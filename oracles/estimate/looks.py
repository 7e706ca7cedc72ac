"""The promise of a comparison: how often it may be read until a false proof has the family error.

*One* look is fixed in advance. A *day* of looks shares the family error among windows of new reports. *Always* is for
reports that add up, such as those of a window since the start, which somebody reads at each final. For it the law is
the normal mixture martingale of Howard, Ramdas, McAuliffe and Sekhon (2021): its prior has the information of 1,000
reports an arm, so its intervals are narrowest around 10,000.
"""

import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from oracles.estimate.covariance import quantile
from oracles.types import Floats

Name = Literal["one", "day", "always"]
NAMES: tuple[Name, ...] = get_args(Name)

DAY = 86_400
PRIOR_REPORTS = 1_000.0
"""Reports an arm whose information the prior has. It is a constant, because the law holds for no choice by data."""
_SMALLEST_TAIL = 1e-13
"""Smallest tail that a level of 64 bits shows to three digits."""


@dataclass(frozen=True)
class LookLaw:
    """The p-values and intervals of differences, from their distance in standard errors."""

    information: float | None = None
    """Information of both samples in units of the prior's. None for a single look."""

    def p_values(self, distances: Floats) -> Floats:
        """Return the probability that a difference of nothing is ever at least as far from zero.

        >>> LookLaw().p_values(np.array([1.96, 4.0])).round(4), LookLaw(10.0).p_values(np.array([1.96, 4.0])).round(4)
        (array([0.05  , 0.0001]), array([0.5785, 0.0023]))
        """
        if self.information is None:
            from scipy import special

            tails: Floats = 2.0 * special.ndtr(-distances)
            return tails

        x = self.information
        bounds: Floats = np.minimum(math.sqrt(1.0 + x) * np.exp(-(distances**2) * x / (2.0 * (1.0 + x))), 1.0)
        return bounds

    def reach(self, level: float) -> float:
        """Return the half width of an interval in standard errors."""
        if self.information is None:
            return quantile((1.0 - level) / 2.0)

        x = self.information
        return math.sqrt((1.0 + 1.0 / x) * (math.log1p(x) - 2.0 * math.log(1.0 - level)))

    def level_of_one_look(self, level: float) -> float:
        """Return the level of the interval of one look that has this reach. It is 1 if no float below 1 is near it."""
        if self.information is None:
            return level
        tail = math.erfc(self.reach(level) / math.sqrt(2.0))
        return 1.0 - tail if tail > _SMALLEST_TAIL else 1.0

    def width(self, level: float) -> float:
        """Return the width of an interval as a multiple of that of one look.

        >>> [round(LookLaw(x).width(1 - 0.05 / 8), 2) for x in (0.1, 1.0, 10.0, 1000.0)]
        [3.88, 1.7, 1.36, 1.51]
        """
        return self.reach(level) / quantile((1.0 - level) / 2.0)


@dataclass(frozen=True)
class Looks:
    """The looks at which a comparison holds."""

    name: Name = "one"
    part: float = 1.0
    """Part of the family error that one look may use."""

    @classmethod
    def in_a_day(cls, seconds: float) -> "Looks":
        """Return the looks of a day, one every `seconds`, each at a new window.

        >>> Looks.in_a_day(3600).part == 1 / 24, Looks.in_a_day(7 * DAY).part
        (True, 1.0)
        """
        return cls("day", min(1.0, seconds / DAY))

    def law(self, n_before: int, n_after: int) -> LookLaw:
        """Return the law of two samples with so many independent reports."""
        if self.name != "always":
            return LookLaw()
        harmonic_mean = 2.0 / (1.0 / n_before + 1.0 / n_after)
        return LookLaw(harmonic_mean / PRIOR_REPORTS)


ONE_LOOK = Looks()
EVERY_LOOK = Looks("always")
