"""Priors fitted to an estimate: the posterior mean of every share, how sure it is, and P(share > t).

All values share one law of true counts. The noisy count y = n x of a value is its true count plus noise of N(0,
s^2), s = n sigma. Counts are of all n reports, like the shares. The noise is that of the n_independent reports,
so clients that repeat themselves widen s and move no count.

Jia and Gong 2019, "Calibrate: frequency estimation and heavy hitter identification with local differential
privacy via incorporating prior knowledge".
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from oracles.consistency.laws import Sample, by_likelihood, by_moments
from oracles.errors import ParameterError
from oracles.estimate import Estimate
from oracles.kernels.posterior import Posterior
from oracles.kernels.priors import Law
from oracles.types import Floats

FAMILIES = ("power_law", "gaussian", "laplace", "poisson")
FITS = ("ml", "mean_variance")


@dataclass(frozen=True)
class Prior:
    """A fitted law of the true counts."""

    family: str
    law: Law | None = field(repr=False)
    """Fitted law, or None without independent reports."""
    log_likelihood: float
    """Log-likelihood of the noisy counts of all values."""
    kolmogorov_smirnov: float
    """Largest distance between the distribution of the noisy counts and the fitted one.

    It decides nothing: it rejects the data on which calibrating helps most.
    """
    note: str | None = None
    """Limit of the family that matters here, in words."""

    @property
    def parameters(self) -> dict[str, float]:
        return self.law.parameters if self.law else {}


@dataclass(frozen=True, eq=False)
class Calibration:
    """The posterior of every share, from the fitted prior and the reports."""

    estimate: Estimate = field(repr=False)
    prior: Prior
    shares: Floats
    """Posterior means."""
    _posterior: "Posterior | Unknown" = field(repr=False)
    _place: NDArray[np.intp] = field(repr=False)
    """Index of each value among the distinct ones of the posterior."""

    @property
    def family(self) -> str:
        return self.prior.family

    @cached_property
    def stdev(self) -> Floats:
        """Posterior standard deviation of each share."""
        deviations: Floats = np.sqrt(self._posterior.variance()) / self._posterior.n
        return deviations[self._place]

    def above(self, threshold: float) -> Floats:
        """Return the probability that each share exceeds `threshold`."""
        if not threshold < 1.0:
            return np.zeros(len(self.shares))
        count = int(np.floor(self._posterior.n * max(threshold, -1.0) + 1e-9))
        return self._posterior.above(count)[self._place]


def fit_prior(estimate: Estimate, family: str = "power_law", fit: str = "ml") -> Calibration:
    """Return posterior shares under a prior of this family. "auto" takes the family of highest likelihood.

    `fit` is "ml" (maximum likelihood) or "mean_variance".
    """
    if family != "auto" and family not in FAMILIES:
        raise ParameterError(f"unknown family {family!r}; choose one of {', '.join(FAMILIES)} or auto")
    if fit not in FITS:
        raise ParameterError(f"unknown fit {fit!r}; choose one of {', '.join(FITS)}")
    if not estimate.n_independent:
        return _unknown(estimate, family)

    sample = Sample.of(estimate)
    families = FAMILIES if family == "auto" else (family,)
    laws = [by_likelihood(name, sample) if fit == "ml" else by_moments(name, sample) for name in families]
    likelihoods = [sample.log_likelihood(law) for law in laws]
    best = int(np.argmax(likelihoods))

    # Rounded parameters are the ones that records show. From them anybody gets the same shares.
    law = laws[best].rounded()
    name = families[best]
    prior = Prior(name, law, likelihoods[best], sample.distance(law), _note(name, sample))
    posterior = Posterior(law, sample.s, sample.values)
    return Calibration(estimate, prior, posterior.mean()[sample.place] / sample.n, posterior, sample.place)


def _unknown(estimate: Estimate, family: str) -> Calibration:
    size = len(estimate.shares)
    prior = Prior(family, None, 0.0, 0.0, "without independent reports there is no prior")
    unknown = Unknown(max(estimate.n, 1), size)
    return Calibration(estimate, prior, np.full(size, 1.0 / size), unknown, np.zeros(size, np.intp))


def _note(family: str, sample: Sample) -> str | None:
    if family == "power_law" and sample.size > sample.n:
        return (
            f"there are more values ({sample.size}) than reports ({sample.n}), so their mean count is below 1,"
            " which a power law on 1..n cannot have; the shares are too large together"
        )
    return None


@dataclass(frozen=True)
class Unknown:
    """A posterior without a single report: all reports are of one value, and each value is equally likely."""

    n: int
    size: int

    def variance(self) -> Floats:
        return np.array([self.n**2 * (1.0 - 1.0 / self.size) / self.size])

    def above(self, count: int) -> Floats:
        return np.array([1.0 if count < 0 else 1.0 / self.size])
