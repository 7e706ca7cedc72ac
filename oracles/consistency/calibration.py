"""A prior, and the posterior of every share under it: its mean, how sure it is, and P(share > t)."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oracles.errors import ParameterError
from oracles.estimate import Estimate
from oracles.kernels.atoms import Atoms
from oracles.kernels.posterior import Posterior
from oracles.kernels.priors import Law
from oracles.types import Floats


@dataclass(frozen=True)
class Prior:
    """A fitted law of the true counts."""

    family: str
    law: Law | None = field(default=None, repr=False)
    """Fitted law of counts, or None: without independent reports, and for a law of shares."""
    log_likelihood: float = float("nan")
    """Log-likelihood of the noisy counts of all values."""
    kolmogorov_smirnov: float = float("nan")
    """Largest distance between the distribution of the noisy counts and the fitted one.

    It decides nothing: it rejects the data on which calibrating helps most.
    """
    note: str | None = None
    """Limit of the family that matters here, in words."""
    atoms: Atoms | None = field(default=None, repr=False)
    """Shares of a law without a family, and their weights."""

    @classmethod
    def of_counts(cls, counts: ArrayLike) -> Self:
        """Return the prior of people who gave their value openly: how many gave each value."""
        numbers = np.asarray(counts, np.float64)
        if numbers.ndim != 1 or not np.isfinite(numbers).all() or (numbers < 0).any() or numbers.sum() < 1:
            raise ParameterError("the counts of a prior are one list of numbers from 0, with a sum of at least 1")
        shares, times = np.unique(numbers / numbers.sum(), return_counts=True)
        return cls("counts", atoms=Atoms(shares, times / len(numbers)))

    @property
    def parameters(self) -> dict[str, float]:
        return self.law.parameters if self.law else {}

    def in_shares(self, sigma: float) -> Atoms:
        """Return the law as atoms of shares, for noise of this standard deviation and any number of reports."""
        if self.atoms is not None:
            return self.atoms
        if self.law is None:
            raise ParameterError("this prior was fitted without independent reports, so it says nothing")
        # Panels of eight nodes, no wider than the noise: it sees no gap between them.
        counts, weights = self.law.nodes(widest=sigma * self.law.n)
        weights = weights * np.exp(self.law.log_pmf(counts))
        # Far from a narrow law weights are 0. A value that sees no other atom would have no posterior.
        counts = counts[weights > 0.0]
        weights = weights[weights > 0.0]
        # Nodes of two corners may interleave, and atoms ascend.
        order = np.argsort(counts, kind="stable")
        return Atoms(counts[order] / self.law.n, weights[order] / np.cumsum(weights)[-1])


class SharePosterior(Protocol):
    """The law of the true share of each value."""

    def mean(self) -> Floats: ...

    def variance(self) -> Floats: ...

    def above(self, threshold: float) -> Floats:
        """Return the probability that each share exceeds the threshold, which is below 1."""


@dataclass(frozen=True, eq=False)
class Calibration:
    """The posterior of every share, from the fitted prior and the reports."""

    estimate: Estimate = field(repr=False)
    prior: Prior
    _posterior: SharePosterior = field(repr=False)

    @property
    def family(self) -> str:
        return self.prior.family

    @cached_property
    def shares(self) -> Floats:
        """Posterior means."""
        return self._posterior.mean()

    @cached_property
    def stdev(self) -> Floats:
        """Posterior standard deviation of each share."""
        deviations: Floats = np.sqrt(self._posterior.variance())
        return deviations

    def above(self, threshold: float) -> Floats:
        """Return the probability that each share exceeds `threshold`."""
        if not threshold < 1.0:
            return np.zeros(len(self.shares))
        return self._posterior.above(threshold)


@dataclass(frozen=True)
class Unknown:
    """A posterior without a single report: all reports are of one value, and each value is equally likely."""

    size: int

    def mean(self) -> Floats:
        return np.full(self.size, 1.0 / self.size)

    def variance(self) -> Floats:
        return np.full(self.size, (1.0 - 1.0 / self.size) / self.size)

    def above(self, threshold: float) -> Floats:
        return np.full(self.size, 1.0 if threshold < 0.0 else 1.0 / self.size)


@dataclass(frozen=True)
class OfCounts:
    """The posterior of shares, from that of the distinct counts."""

    counts: Posterior
    place: NDArray[np.intp]
    """Index of each value among the distinct ones of the posterior."""

    def mean(self) -> Floats:
        return self.counts.mean()[self.place] / self.counts.n

    def variance(self) -> Floats:
        return self.counts.variance()[self.place] / self.counts.n**2

    def above(self, threshold: float) -> Floats:
        # A share that is a whole count may lie a rounding below it.
        count = int(np.floor(self.counts.n * max(threshold, -1.0) + 1e-9))
        return self.counts.above(count)[self.place]
