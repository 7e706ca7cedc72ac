"""Calibrate: shares under a fitted prior, and a test of that prior.

Jia and Gong 2019, "Calibrate: frequency estimation and heavy hitter identification with local differential
privacy via incorporating prior knowledge".
"""

from dataclasses import dataclass, field, fields
from functools import cached_property

from oracles.consistency import NORM_SUB, find
from oracles.consistency.calibration import Calibration, Prior
from oracles.consistency.fitting import FAMILIES, FITS, fit_prior, under_prior
from oracles.errors import ParameterError
from oracles.estimate import Estimate
from oracles.risk import rejects_prior

__all__ = ["FAMILIES", "FITS", "Calibrated", "Prior", "calibrate"]


@dataclass(frozen=True, eq=False)
class Calibrated(Calibration):
    """A calibration, with the method that replaces it if its prior is rejected."""

    fallback: str = field(default=NORM_SUB, repr=False)

    @cached_property
    def rejected(self) -> bool:
        """Whether the estimated error of the shares is larger than that of the fallback."""
        return bool(self.estimate.n_independent and rejects_prior(self, self.estimate, self.fallback))


def calibrate(
    estimate: Estimate,
    family: str = "power_law",
    fit: str = "ml",
    *,
    fallback: str = NORM_SUB,
    prior: Prior | None = None,
) -> Calibrated:
    """Return posterior shares under a prior of this family.

    "auto" takes the law of highest likelihood, and "best" takes "free" if it is clearly more likely than the power
    law. `fit` is "ml" (maximum likelihood) or "mean_variance". `fallback` is the method that replaces a rejected
    prior. `prior` takes a prior from elsewhere in place of `family`: that of another estimate of the same question, or
    `Prior.of_counts`.

    >>> import numpy as np
    >>> from oracles import oracle
    >>> oue = oracle("oue", epsilon=1.0, size=1024)
    >>> counts = 1e6 * oue.q + np.where(np.arange(1024) < 8, 50_000.0, np.linspace(-800, 800, 1024))
    >>> calibrated = calibrate(Estimate(oue.shares(counts, 10**6), 10**6, oue))
    >>> calibrated.prior.parameters["exponent"] > 0.5, (calibrated.shares > 0.2).sum()
    (True, np.int64(8))
    """
    find(fallback)
    if prior is None:
        calibration = fit_prior(estimate, family, fit)
    elif (family, fit) == ("power_law", "ml"):
        calibration = under_prior(estimate, prior)
    else:
        raise ParameterError("a prior from elsewhere is not fitted; leave out family and fit")
    return Calibrated(**{part.name: getattr(calibration, part.name) for part in fields(calibration)}, fallback=fallback)
