"""Pure protocols: a report supports its own value with probability p, any other one with probability q."""

from fractions import Fraction

import numpy as np

from oracles.covariance import Noise
from oracles.errors import ParameterError
from oracles.types import Floats, Ints

DENSE = 100.0
"""The variance of a count from which normal tails hold: below, its steps alone are worth half a percent."""


class Pure:
    """A size, the exact p and q, and the errors that follow from them."""

    def __init__(self, name: str, size: int, p: Fraction, q: Fraction) -> None:
        if p <= q:
            raise ParameterError(f"{name} with {size} values: epsilon is too small to be told from zero in 64 bits")
        self.name = name
        self.size = size
        self.exact = (p, q)
        self.p = float(p)
        self.q = float(q)
        self.gap = float(p - q)
        """p - q, without the cancellation of subtracting the floats."""
        self._a = float(q * (1 - q) / (p - q) ** 2)
        self._b = float((1 - p - q) / (p - q))

    def variance(self, n: int, share: float = 0.0) -> float:
        """The variance of an estimated share from `n` reports, where the true share is `share`."""
        return (self._a + self._b * share) / n

    def set_variance(self, n: int, values: int, share: float) -> float:
        """The variance of the summed shares of a set of `values`: errors of values are uncorrelated."""
        return (values * self._a + self._b * share) / n

    def set_law(self, values: int) -> tuple[int, float, float] | None:
        """How a set of `values` is supported: trials a report, and p and q of one; None where its tails may be wider.

        Exact for independent values and for those that exclude each other; where one leaves others less room,
        wider than it is.
        """
        return values, self.p, self.q

    def clumped(self, chosen: Ints, n: int) -> bool:
        """Whether values of a set are supported together so often that the sum of `n` reports is far from normal."""
        del chosen, n
        return False

    def noise(self, n: int) -> Noise:
        """The error law of `n` independent reports; NaN for none."""
        return Noise(self._a / n, self._b / n) if n else Noise(float("nan"), float("nan"))

    @property
    def one_value(self) -> bool:
        """Whether a report tells of one value alone, so that only clients whose class changed bring new noise."""
        return True

    def shift_per_fake(self, n: int) -> float:
        """How far one forged report among `n` can move a share."""
        return float((1 - self.exact[1]) / (self.exact[0] - self.exact[1])) / n

    def critical(self, n: int, family_error: float = 0.05) -> int | None:
        """The count of `n` from which a value is significant; None where nothing can be."""
        from oracles.kernels.exact import critical

        return critical(n, self.q, family_error / self.size) if n else None

    def detectable(self, n: int, family_error: float = 0.05, *, sampled: bool = False) -> float | None:
        """The share that `n` reports find significant with probability 0.9; None where not even 1 is.

        With `sampled` they are those of a random sample, whose own share varies too.
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
        """The probability that `n` reports find a value of this share significant."""
        from oracles.kernels.exact import power

        c = self.critical(n, family_error)
        return 0.0 if c is None else power(n, min(int(np.ceil(n * share - 1e-9)), n), c, self.p, self.q)

    def shares(self, support: Ints, n: int) -> Floats:
        """Support counts of `n` reports as unbiased shares; NaN where there are none."""
        if not n:
            return np.full(len(support), np.nan)
        return (support / n - self.q) / self.gap


def dense(n: int, p: float, q: float) -> bool:
    """Whether the score interval holds: counts vary by ten or more, whatever the share is."""
    return min(n * q * (1.0 - q), n * p * (1.0 - p)) >= DENSE
