"""Pure protocols: a report supports its own value with probability p, and any other one with probability q."""

from fractions import Fraction

import numpy as np

from oracles.errors import ParameterError
from oracles.estimate.covariance import Noise
from oracles.types import Floats, Ints

DENSE = 100.0
"""Variance of a count above which normal tails hold. Below it, the steps of the count alone cost half a percent."""


class Pure:
    """A base of all oracles: size, exact p and q, and the errors that follow from them."""

    def __init__(self, name: str, size: int, p: Fraction, q: Fraction) -> None:
        if p <= q:
            raise ParameterError(f"{name} with {size} values: epsilon is too small, 64 bits cannot separate p from q")

        self.name = name
        self.size = size
        self.exact = (p, q)
        self.p = float(p)
        self.q = float(q)
        self.gap = float(p - q)
        """p - q, without the cancellation of a difference of floats."""

        # Fractions, rounded once: differences of floats near each other would cancel.
        self._a = float(q * (1 - q) / (p - q) ** 2)
        self._b = float((1 - p - q) / (p - q))
        self._shift = float((1 - q) / (p - q))

    def variance(self, n: int, share: float = 0.0) -> float:
        """Return the variance of an estimated share from `n` reports, if the true share is `share`."""
        return (self._a + self._b * share) / n

    def set_variance(self, n: int, values: int, share: float) -> float:
        """Return the variance of the summed shares of a set. By default the errors of values are uncorrelated."""
        return (values * self._a + self._b * share) / n

    def set_law(self, values: int) -> tuple[int, float, float] | None:
        """Return how reports support a set: trials of a report, and p and q of one. None if tails may be wider.

        It is exact for independent values and for values that exclude each other. If a value leaves others less
        room, the law is wider than the truth.
        """
        # A report that supports one value supports the set once or not at all.
        if self.supports_one:
            return 1, self.p + (values - 1) * self.q, values * self.q
        return values, self.p, self.q

    def clumped(self, positions: Ints, n: int) -> bool:
        """Whether reports support the set together so often that the sum of `n` reports is far from normal."""
        del positions, n
        return False

    def noise(self, n: int, sampling: float = 0.0) -> Noise:
        """Return the error law of `n` independent reports, NaN for n = 0. `sampling` is that of their clients (smp)."""
        return Noise(self._a / n, self._b / n, sampling) if n else Noise(float("nan"), float("nan"))

    @property
    def excludes(self) -> bool:
        """Whether a client never repeats an answer after its class changed, so that both answers exclude each other."""
        return False

    @property
    def levels(self) -> int:
        """Number of levels of blocks that the reports tell apart, or 0 if they support values."""
        return 0

    @property
    def counters(self) -> int:
        """Number of counts from which an estimate follows."""
        return self.size

    @property
    def one_value(self) -> bool:
        """Whether a report depends on one value alone, so that only clients whose class changed bring new noise."""
        return True

    @property
    def supports_one(self) -> bool:
        """Whether a report supports exactly one value, so that a forged one weighs more in a larger domain."""
        return False

    def shift_per_fake(self, n: int) -> float:
        """Return how far one forged report among `n` can move a share."""
        return self._shift / n

    def critical(self, n: int, family_error: float = 0.05) -> int | None:
        """Return the count, of `n`, at which a value becomes significant. None if no count is."""
        from oracles.kernels.exact import critical

        return critical(n, self.q, family_error / self.size) if n else None

    def detectable(self, n: int, family_error: float = 0.05, *, sampled: bool = False) -> float | None:
        """Return the share that `n` reports find significant with probability 0.9. None if not even 1 is.

        With `sampled` the reports come from a random sample, whose own share varies too.
        """
        from oracles.kernels.exact import detectable, rate_reaching

        c = self.critical(n, family_error)
        if c is None:
            return None
        if sampled:
            share = max((rate_reaching(n, c) - self.q) / self.gap, 0.0)
            return share if share <= 1.0 else None
        k = detectable(n, c, self.p, self.q)
        return None if k is None else k / n

    def power(self, n: int, share: float, family_error: float = 0.05) -> float:
        """Return the probability that `n` reports find a value of this share significant."""
        from oracles.kernels.exact import power

        c = self.critical(n, family_error)
        return 0.0 if c is None else power(n, min(int(np.ceil(n * share - 1e-9)), n), c, self.p, self.q)

    def shares(self, support: Ints, n: int) -> Floats:
        """Return the support counts of `n` reports as unbiased shares, NaN for n = 0."""
        if not n:
            return np.full(len(support), np.nan)
        return (support / n - self.q) / self.gap


def dense(n: int, p: float, q: float) -> bool:
    """Whether the score interval holds: counts vary by ten or more at every share."""
    return min(n * q * (1.0 - q), n * p * (1.0 - p)) >= DENSE
