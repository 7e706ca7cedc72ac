"""Reports that name random subsets of buckets: how often they support one value, or two values together."""

from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

from oracles.estimate.pure import Pure
from oracles.mechanisms.families import Family


class Subsets(NamedTuple):
    """Random subsets of `members` of 2**rows buckets, under a family of maps from codes of `bits` bits."""

    family: Family
    rows: int
    bits: int
    members: int = 1

    def rate(self, p: Fraction) -> Fraction:
        """Return q: the probability that a report supports another value. p is that of the own value."""
        c = self.family.collision(self.rows, self.bits)
        return c * p + (1 - c) * self._other(p)

    @property
    def names_one_code(self) -> bool:
        """Whether a report names one bucket, in which no two codes are."""
        return self.members == 1 and not self.family.collision(self.rows, self.bits)

    def total(self, size: int, e: Decimal) -> Decimal:
        """Return the sum of the variances of all shares, times n. It is infinite if q is not below p."""
        g = 1 << self.rows
        m = self.members
        p = m * e / (m * e + g - m)
        collision = self.family.collision(self.rows, self.bits)
        c = Decimal(collision.numerator) / collision.denominator
        q = p * c + (1 - c) * (p * (m - 1) + (1 - p) * m) / (g - 1)
        if p <= q:
            return Decimal("inf")
        return size * q * (1 - q) / (p - q) ** 2 + (1 - p - q) / (p - q)

    def pairs(self, p: Fraction) -> tuple[Fraction, Fraction]:
        """Return P(the own value and another one), and P(two other values), in the subset of one report."""
        m = self.members
        g = 1 << self.rows
        c = self.family.collision(self.rows, self.bits)
        # The own bucket and another one, and two others.
        own_and_other = p * (m - 1) / (g - 1)
        two_others = (p * (m - 1) * (m - 2) + (1 - p) * m * (m - 1)) / ((g - 1) * max(g - 2, 1))

        with_own = c * p + (1 - c) * own_and_other
        if self.bits == 1:  # a domain of two values has no third one
            return with_own, Fraction(0)
        all_three = self.family.triple(self.rows, self.bits)
        only_two = c - all_three
        without_own = (
            all_three * p + only_two * (2 * own_and_other + self._other(p)) + (1 - 3 * c + 2 * all_three) * two_others
        )
        return with_own, without_own

    def _other(self, p: Fraction) -> Fraction:
        """Return the probability that the subset has a given bucket other than the own one."""
        return (p * (self.members - 1) + (1 - p) * self.members) / ((1 << self.rows) - 1)

    def covariance(self, oracle: Pure, values: int, share: float) -> float:
        """Return the sum of the covariances of the values of a set, of one report."""
        p, q = oracle.exact
        with_own, without_own = self.pairs(p)
        f = Fraction(share)
        covariance = 2 * f * (with_own - p * q) + (values - 2 * f) * (without_own - q * q)
        return float((values - 1) * covariance / (p - q) ** 2)
