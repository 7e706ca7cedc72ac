"""Cubic curves through few points, in place of a function that is dear to evaluate."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from oracles.types import Floats

ROUNDS = 40
"""Rounds of refinement, enough to follow a step to the width of a float."""
MOST_POINTS = 200_000
"""Most points of a grid. Only a prior of a single integer's width comes near."""


@dataclass(frozen=True)
class Curve:
    """A cubic curve through points with given slopes, between any two neighbours."""

    points: Floats
    values: Floats
    slopes: Floats

    def __call__(self, x: Floats) -> Floats:
        width = np.diff(self.points)
        rise = np.diff(self.values)
        left_slopes = self.slopes[:-1] * width
        right_slopes = self.slopes[1:] * width

        # A point beyond the ends takes the cubic of the nearest pair, or the index would leave the curve.
        i = np.clip(np.searchsorted(self.points, x, side="right") - 1, 0, len(width) - 1)
        t = (x - self.points[i]) / width[i]
        cubic = (3.0 * rise - 2.0 * left_slopes - right_slopes)[i] + t * (left_slopes + right_slopes - 2.0 * rise)[i]
        result: Floats = self.values[i] + t * (left_slopes[i] + t * cubic)
        return result

    def rising(self) -> "Curve":
        """Return the curve with slopes limited so that it rises between its points too (Fritsch and Carlson)."""
        values = np.maximum.accumulate(self.values)
        # Slopes of at most three times the secants on both sides are enough for a cubic to rise.
        steepest = 3.0 * np.diff(values) / np.diff(self.points)
        limit = np.minimum(np.append(steepest, np.inf), np.append(np.inf, steepest))
        return Curve(self.points, values, np.clip(self.slopes, 0.0, limit))


def refined(function: Callable[[Floats], tuple[Floats, Floats]], points: Floats, tolerance: float) -> Curve:
    """Return a curve of `function`, refined at every midpoint that it missed. `function` gives values and slopes."""
    values, slopes = function(points)
    intervals = np.arange(len(points) - 1)
    for _ in range(ROUNDS):
        # Two neighbouring floats have no midpoint, and a width of 0 would make the curve NaN.
        middles = (points[intervals] + points[intervals + 1]) / 2.0
        is_inside = (points[intervals] < middles) & (middles < points[intervals + 1])
        intervals = intervals[is_inside]
        middles = middles[is_inside]

        middle_values, middle_slopes = function(middles)
        misses = np.abs(Curve(points, values, slopes)(middles) - middle_values) > tolerance
        points = np.insert(points, intervals + 1, middles)
        values = np.insert(values, intervals + 1, middle_values)
        slopes = np.insert(slopes, intervals + 1, middle_slopes)

        # Each insertion before an interval has moved its index by one.
        halves = (intervals + np.arange(len(intervals)))[misses]
        intervals = np.sort(np.concatenate([halves, halves + 1]))
        if not 0 < len(intervals) < MOST_POINTS - len(points):
            break
    return Curve(points, values, slopes)


def grid(low: float, high: float, centre: float, s: float, fineness: int) -> Floats:
    """Return points from `low` to `high`, 3s/fineness apart around the centre and wider with the distance from it."""
    first_angle, last_angle = np.arcsinh((np.array([low, high]) - centre) / (3.0 * s))
    count = 2 + int((last_angle - first_angle) * fineness)
    points = centre + 3.0 * s * np.sinh(np.linspace(first_angle, last_angle, count))
    # sinh(arcsinh(x)) can differ from x by the last bit, and the ends must be on the grid.
    points[[0, -1]] = low, high
    return points
