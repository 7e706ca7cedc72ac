"""The changes of quantiles and ranges between two stretches of time, and quantiles beyond a limit.

A cumulative share, or a range's share, is a linear answer. Its variance is V sum_j G_j / N_j, see tree.py. That
holds for clients that are a random sample too. The levels of both stretches are independent if their clients are. On a
panel the errors are taken as large as they can be, because a client that moves from one half of a block to the other
brings the opposite noise.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from oracles.estimate.covariance import quantile as normal_quantile
from oracles.numbers.numbers import Numbers, Scale
from oracles.numbers.tree import Tree, TreeEstimate
from oracles.types import Floats


@dataclass(frozen=True, eq=False)
class NumberChanges:
    """The changes of a distribution from one stretch of time to a later one."""

    before: Numbers
    now: Numbers
    panel: bool
    """Whether the same clients repeat their answers."""

    @classmethod
    def of(cls, before: TreeEstimate, now: TreeEstimate, scale: Scale, *, panel: bool) -> "NumberChanges":
        return cls(Numbers(before, scale), Numbers(now, scale), panel)

    @property
    def known(self) -> bool:
        """Whether both stretches have reports of every level."""
        return self.before.known and self.now.known

    def quantile(self, share: float) -> float:
        """Return by how many standard errors a quantile has risen, below 0 if it has fallen.

        The cumulative shares are compared at the edge of a bin that is nearest to the quantile of both stretches
        together. The result is 0 unless this edge lies between the quantiles of the two.
        """
        edge = self._joint.nearest_edge(share)
        share_before = float(self.before.estimate.shares[:edge].sum())
        share_now = float(self.now.estimate.shares[:edge].sum())
        if not min(share_before, share_now) <= share <= max(share_before, share_now):
            return 0.0

        # Fewer numbers below the edge: the quantile has risen.
        return (share_before - share_now) / self._stderr(self._tree.edge_squares(np.array([edge]))[:, 0] ** 2)

    def range(self, start: float, end: float) -> float:
        """Return by how many standard errors the share of a range has risen, below 0 if it has fallen."""
        first_bin, end_bin = self.now.scale.bounds(start, end)
        share_before = float(self.before.estimate.shares[first_bin:end_bin].sum())
        share_now = float(self.now.estimate.shares[first_bin:end_bin].sum())
        squares = self._tree.range_squares(first_bin, end_bin)
        # The range of all bins has a share of 1 without error.
        if not squares.any():
            return 0.0
        return (share_now - share_before) / self._stderr(squares)

    @property
    def _tree(self) -> Tree:
        return self.now.estimate.tree

    @cached_property
    def _joint(self) -> Numbers:
        """The distribution of both stretches together."""
        return Numbers(self.before.estimate.pooled(self.now.estimate), self.now.scale)

    def _stderr(self, squares: Floats) -> float:
        """Return the standard error of a difference with these G_j."""
        stderr_before = float(self.before.estimate.deviation(squares))
        stderr_now = float(self.now.estimate.deviation(squares))
        factor = _panel_factor(self.now.estimate) if self.panel else 1.0
        return float(np.sqrt(factor * (stderr_before**2 + stderr_now**2)))


def _panel_factor(estimate: TreeEstimate) -> float:
    """Return the largest variance of a change on a panel, as a multiple of that of two independent windows.

    A client that moves between the halves of a block answers by a table with the opposite report. Without a table its
    report has new noise, and only the mean of its report changes sign.
    """
    return 2.0 if estimate.oracle.excludes else 1.0 + estimate.tree.gap**2


def crossing(numbers: Numbers, share: float, limit: float, error: float) -> Literal["above", "below"] | None:
    """Return the side of a limit on which a quantile is proved to be, with a probability of `error` to be wrong.

    The quantile's 95% interval lies wholly on that side too.
    """
    if not numbers.known:
        return None
    edges = numbers.scale.edges
    z = normal_quantile(error)
    sums, stderr = numbers.cumulative
    interval = numbers.quantile(share)

    # Within its bin the quantile is only interpolated, so the share is tested at the bin's edges around the limit.
    upper_bin = int(numbers.scale.positions([limit])[0])
    if sums[upper_bin] + z * stderr[upper_bin] < share and interval.low > limit:
        return "above"

    lower_bin = upper_bin - (limit <= edges[upper_bin]) - 1
    if lower_bin >= 0 and sums[lower_bin] - z * stderr[lower_bin] > share and interval.high < limit:
        return "below"
    return None
