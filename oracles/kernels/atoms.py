"""A law of shares without a family: weights of atoms, fitted to noisy shares, and the posterior under them.

All steps work in a *coordinate* u of shares in which the noise has the standard deviation 1 everywhere. Values are put
into bins of this coordinate, so the cost depends on the spread of the shares, and not on the number of values.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self

import numpy as np

from oracles.errors import extra
from oracles.types import Floats, Ints

DENSE = 8.0
"""Coordinate up to which atoms lie everywhere. Above it they lie near observed values only."""
STEPS = 8
"""Atoms in a unit of the coordinate."""
BINS = 16
"""Bins in a unit of the coordinate."""
NEAR = 3.0
"""Distance from an observed value up to which there are atoms above DENSE."""
BAND = 12.0
"""Distance in u up to which a bin sees atoms. The noise reaches further once in 10^32."""
FAR_BAND = 8.0
"""The same for bins so far up that no atom within reach has many more values than another one."""
PSEUDO_COUNT = 0.25
"""Values that each atom has beforehand, if its neighbours are one unit apart."""
ROUNDS = 1_000
"""Rounds of the fit. It ends before its limit, which smooths the law."""
DIGITS = 9
"""Digits of a fitted weight, as of other parameters: from the rounded ones anybody gets the same shares."""
_CELLS = 1 << 20
"""Pairs of a bin and an atom that a step of the posterior looks at together. It bounds the memory."""

LogDensity = Callable[[Floats, Floats], Floats]
"""The log-density of an observed share, the first argument, for the true share, the second."""


@dataclass(frozen=True)
class Coordinate:
    """The scale u of shares f on which noise of variance a + b f has the standard deviation 1."""

    a: float
    b: float

    def of(self, shares: Floats) -> Floats:
        root = np.sqrt(self.a)
        # Beyond 1 the variance of a share is unknown, and for some oracles it would be negative.
        positive = np.clip(shares, 0.0, 1.0)
        above: Floats = 2.0 * positive / (np.sqrt(self.a + self.b * positive) + root)
        u: Floats = np.where(shares < 0.0, shares / root, above)
        return u

    def share(self, u: Floats) -> Floats:
        line = u * np.sqrt(self.a)
        shares: Floats = np.where(u < 0.0, line, line + self.b * u * u / 4.0)
        return shares


@dataclass(frozen=True)
class Bins:
    """The observed values, each divided between the two nearest edges of bins."""

    edges: Ints
    """Occupied edges, ascending, in units of 1/BINS."""
    times: Floats
    """Number of values at each edge."""
    lower_index: Ints = field(repr=False)
    """Index of the lower edge of each value."""
    part: Floats = field(repr=False)
    """Part of each value that is at its upper edge."""

    @classmethod
    def of(cls, u: Floats) -> Self:
        position = u * BINS
        lower = np.floor(position).astype(np.int64)
        part = position - lower
        edges = np.unique(lower)
        edges = np.union1d(edges, edges + 1)

        # Sums of values in the order of the domain would differ in the last digits between two orders.
        lower_index = np.searchsorted(edges, lower)
        order = np.argsort(position, kind="stable")
        at_left = np.bincount(lower_index[order], 1.0 - part[order], len(edges))
        at_right = np.bincount(lower_index[order] + 1, part[order], len(edges))
        times: Floats = (at_left + at_right).astype(np.float64)
        return cls(edges, times, lower_index, part)

    @property
    def u(self) -> Floats:
        return self.edges / BINS

    def read(self, results: Floats) -> Floats:
        """Return the result of each value, on the line between the results of its two edges."""
        low = results[self.lower_index]
        return low + self.part * (results[self.lower_index + 1] - low)


@dataclass(frozen=True)
class Atoms:
    """Shares of the law, ascending, and their weights of sum 1."""

    shares: Floats
    weights: Floats

    def rounded(self) -> Self:
        weights = np.array([float(f"{weight:.{DIGITS}g}") for weight in self.weights.tolist()])
        return type(self)(self.shares, weights)


def grid(u: Floats, highest: float) -> Floats:
    """Return the coordinates of atoms for values at these coordinates. None is above `highest`, that of share 1."""
    first_points = np.array([0.0, 1 / 64, 1 / 32, 1 / 16, 3 / 32])
    even = np.arange(1, int(DENSE * STEPS) + 1) / STEPS

    # Whole steps from three below to three above each value, so that two orders of values give the same atoms.
    nearest = np.unique(np.round(u[u > DENSE - NEAR] * STEPS).astype(np.int64))
    reach = np.arange(-int(NEAR * STEPS), int(NEAR * STEPS) + 1)
    upper = np.unique(nearest[:, None] + reach) / STEPS

    points = np.concatenate([first_points, even, upper[upper > DENSE]])
    points = points[points < highest]
    # With few reports share 1 itself may be the only point above 0.
    return np.append(points, highest) if highest <= DENSE else points


@dataclass(frozen=True, eq=False)
class Scene:
    """What is known of the values: their bins, the coordinate, and the law of the noise."""

    bins: Bins
    coordinate: Coordinate
    log_density: LogDensity

    @classmethod
    def of(cls, shares: Floats, coordinate: Coordinate, log_density: LogDensity) -> Self:
        return cls(Bins.of(coordinate.of(shares)), coordinate, log_density)

    def band(self, atom_shares: Floats, part: slice) -> "_Band":
        """Return the atoms that these bins see: a column a bin, padded with an atom of likelihood 0."""
        points = self.coordinate.of(atom_shares)
        bins = self.bins.u[part]
        reach = np.where(bins < DENSE + BAND, BAND, FAR_BAND)
        first = np.searchsorted(points, bins - reach)
        last = np.searchsorted(points, bins + reach, side="right")

        # A bin without an atom within reach takes the nearest one, or its posterior would be empty.
        middles = (points[1:] + points[:-1]) / 2.0
        first = np.where(first < last, first, np.searchsorted(middles, bins))
        last = np.maximum(last, first + 1)

        rows = first + np.arange(int((last - first).max()))[:, None]
        index = np.minimum(rows, len(points) - 1)
        bin_shares = np.broadcast_to(self.coordinate.share(bins), index.shape)
        log_density = np.where(rows < last, self.log_density(bin_shares, atom_shares[index]), -np.inf)
        top = log_density.max(axis=0)
        return _Band(index, np.exp(log_density - top), top)


@dataclass(frozen=True)
class _Band:
    """Atoms that bins see, a column a bin, and their densities relative to the largest one."""

    index: Ints
    density: Floats
    top: Floats
    """Logarithm of the largest density of each bin. Without it small densities would be 0."""


def fit(scene: Scene) -> Atoms:
    """Return the law that makes the values most likely, with a pseudo-count for each atom.

    The sum of log-likelihood and pseudo-counts is concave, so there is one limit from any start.
    """
    times = scene.bins.times
    points = grid(scene.bins.u, float(scene.coordinate.of(np.ones(1))[0]))
    shares = scene.coordinate.share(points)
    band = scene.band(shares, slice(None))

    # The mean distance to the two neighbours, and to the only one at the ends.
    gaps = np.minimum(np.diff(points), 1.0 / STEPS)
    pseudo_counts = PSEUDO_COUNT * (np.append(gaps, gaps[-1]) + np.insert(gaps, 0, gaps[0])) / 2.0
    total = float(np.cumsum(times)[-1] + np.cumsum(pseudo_counts)[-1])

    index = band.index.ravel()
    weights = np.full(len(points), 1.0 / len(points))
    for _ in range(ROUNDS):
        joint = band.density * weights[band.index]
        # Sums over the first axis add row after row, so threads and processors give the same digits.
        joint *= times / joint.sum(axis=0)
        weights = (np.bincount(index, joint.ravel(), len(points)) + pseudo_counts) / total
    return Atoms(shares, weights).rounded()


@dataclass(frozen=True, eq=False)
class AtomPosterior:
    """The law of the true share of each value, if all true shares follow the law of the atoms."""

    scene: Scene
    atoms: Atoms

    def mean(self) -> Floats:
        # Rounding can swap neighbours. The order of the noisy shares is kept to the last bit.
        return self.scene.bins.read(np.maximum.accumulate(self._moments[0]))

    def variance(self) -> Floats:
        return self.scene.bins.read(self._moments[1])

    @property
    def log_likelihood(self) -> float:
        return float(np.cumsum(self.scene.bins.times * self._moments[2])[-1])

    def above(self, threshold: float) -> Floats:
        """Return the probability that each true share is above the threshold."""
        is_above = (self.atoms.shares > threshold).astype(np.float64)
        chances = np.concatenate(
            [(posterior * is_above[band.index]).sum(axis=0) for band, posterior, _ in self._parts()]
        )
        return self.scene.bins.read(np.clip(np.maximum.accumulate(chances), 0.0, 1.0))

    def distance(self) -> float:
        """Return the largest distance between the distribution of the values and the fitted one, bin by bin."""
        with extra("stats"):
            from scipy.special import ndtr

        bins = self.scene.bins
        atoms = self.scene.coordinate.of(self.atoms.shares)
        size = max(1, _CELLS // len(atoms))
        parts = [
            (ndtr(bins.u[start : start + size] - atoms[:, None]) * self.atoms.weights[:, None]).sum(axis=0)
            for start in range(0, len(bins.edges), size)
        ]
        empirical = np.cumsum(bins.times)
        # Half of an edge's values lie on either side of it.
        empirical = (empirical - bins.times / 2.0) / empirical[-1]
        return float(np.abs(np.concatenate(parts) - empirical).max())

    @cached_property
    def _moments(self) -> Floats:
        """Mean, variance and log-density of each bin."""
        parts = []
        for band, posterior, log_density in self._parts():
            shares = self.atoms.shares[band.index]
            mean = (posterior * shares).sum(axis=0)
            variance = (posterior * (shares - mean) ** 2).sum(axis=0)
            parts.append(np.array([mean, variance, log_density]))
        return np.concatenate(parts, axis=1)

    def _parts(self) -> Iterator[tuple[_Band, Floats, Floats]]:
        """Yield what some bins see, the posterior of these atoms, and the log-density of the bins."""
        size = max(1, _CELLS // len(self.atoms.shares))
        for start in range(0, len(self.scene.bins.edges), size):
            band = self.scene.band(self.atoms.shares, slice(start, start + size))
            joint = band.density * self.atoms.weights[band.index]
            total = joint.sum(axis=0)
            yield band, joint / total, band.top + np.log(total)
