"""Priors fitted to an estimate: the posterior mean of every share, how sure it is, and P(share > t).

All values share one law of true counts. The noisy count y = n x of a value is its true count plus noise of N(0,
s^2), s = n sigma. Counts are of all n reports, like the shares. The noise is that of the n_independent reports,
so clients that repeat themselves widen s and move no count.

Jia and Gong 2019, "Calibrate: frequency estimation and heavy hitter identification with local differential
privacy via incorporating prior knowledge".
"""

import numpy as np

from oracles.consistency import free
from oracles.consistency.calibration import Calibration, OfCounts, Prior, Unknown
from oracles.consistency.laws import Sample, by_likelihood, by_moments
from oracles.errors import ParameterError
from oracles.estimate import Estimate
from oracles.kernels.atoms import AtomPosterior
from oracles.kernels.posterior import Posterior

LAWS = ("power_law", "gaussian", "laplace", "poisson")
"""Families of laws with one or two parameters. "auto" chooses among these."""
FREE = "free"
"""The prior without a family."""
FAMILIES = (*LAWS, FREE)
CHOICES = ("auto", "best")
"""Names that choose a family: by likelihood alone, and between the power law and `free`."""
FITS = ("ml", "mean_variance")


def fit_prior(estimate: Estimate, family: str = "power_law", fit: str = "ml") -> Calibration:
    """Return posterior shares under a prior of this family.

    "auto" takes the law of highest likelihood. "best" takes "free" if it is clearly more likely than the power law.
    `fit` is "ml" (maximum likelihood) or "mean_variance".
    """
    if family not in (*FAMILIES, *CHOICES):
        raise ParameterError(f"unknown family {family!r}; choose one of {', '.join((*FAMILIES, *CHOICES))}")
    if fit not in FITS:
        raise ParameterError(f"unknown fit {fit!r}; choose one of {', '.join(FITS)}")
    if fit != "ml" and family in (FREE, "best"):
        raise ParameterError(f"{family} has no parameters to fit by mean and variance; use fit='ml'")
    if not estimate.n_independent:
        return _unknown(estimate, family)
    if family == FREE:
        return _free(estimate)
    if family != "best":
        return _fit_law(estimate, LAWS if family == "auto" else (family,), fit)

    # A free law has so much choice that it fits noise too. The penalty is that of one more parameter for two values.
    power_law = _fit_law(estimate, ("power_law",), fit)
    free_law = _free(estimate)
    gain = free_law.prior.log_likelihood - power_law.prior.log_likelihood
    return free_law if gain > np.log(len(estimate.shares)) else power_law


def under_prior(estimate: Estimate, prior: Prior) -> Calibration:
    """Return posterior shares under a prior from elsewhere. It is scaled by shares."""
    if not estimate.n_independent:
        return _unknown(estimate, prior.family)
    return _by_atoms(estimate, prior.family, free.under(prior.in_shares(estimate.sigma), estimate))


def _free(estimate: Estimate) -> Calibration:
    return _by_atoms(estimate, FREE, free.fitted(estimate))


def _by_atoms(estimate: Estimate, family: str, posterior: AtomPosterior) -> Calibration:
    prior = Prior(
        family,
        log_likelihood=posterior.log_likelihood,
        kolmogorov_smirnov=posterior.distance(),
        atoms=posterior.atoms,
    )
    return Calibration(estimate, prior, posterior)


def _fit_law(estimate: Estimate, families: tuple[str, ...], fit: str) -> Calibration:
    sample = Sample.of(estimate)
    laws = [by_likelihood(name, sample) if fit == "ml" else by_moments(name, sample) for name in families]
    likelihoods = [sample.log_likelihood(law) for law in laws]
    best = int(np.argmax(likelihoods))

    # Rounded parameters are the ones that records show. From them anybody gets the same shares.
    law = laws[best].rounded()
    name = families[best]
    prior = Prior(name, law, likelihoods[best], sample.distance(law), _note(name, sample))
    posterior = OfCounts(Posterior(law, sample.s, sample.values), sample.place)
    return Calibration(estimate, prior, posterior)


def _unknown(estimate: Estimate, family: str) -> Calibration:
    posterior = Unknown(len(estimate.shares))
    note = "without independent reports there is no prior"
    return Calibration(estimate, Prior(family, None, 0.0, 0.0, note), posterior)


def _note(family: str, sample: Sample) -> str | None:
    if family == "power_law" and sample.size > sample.n:
        return (
            f"there are more values ({sample.size}) than reports ({sample.n}), so their mean count is below 1,"
            " which a power law on 1..n cannot have; the shares are too large together"
        )
    return None
