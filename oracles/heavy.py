"""Heavy hitters: the values that a method lists as frequent, the proofs of each, and its rank.

A decision does not depend on the method. It rejects a share at or below the threshold for the unbiased
estimate, by Holm's procedure over all values with exact tails. A window has a single wrong decision with a
probability of at most the family error. If the threshold is significance, every method lists the decided values
in its own order. If the threshold is a share or a count, the list also has the values that reach it by the
method. The papers' list, all above the Gaussian threshold, is there for comparison. At sparse counts it names a
false value in up to 94% of windows.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oracles.consistency.calibration import Calibration
from oracles.errors import ParameterError
from oracles.estimate import Estimate
from oracles.estimate.intervals import listed_level
from oracles.kernels.arrays import Distinct, distinct
from oracles.query.settings import Threshold
from oracles.types import Floats, Ints

ListRule = Literal["decided", "paper"]
_RULES: tuple[ListRule, ...] = get_args(ListRule)
SIGNIFICANCE = Threshold("significance")
_BLOCK = 256
"""Size of the first block of tails. Blocks grow, so a domain without heavy hitters costs one short block."""


@dataclass(frozen=True)
class Hitter:
    """A listed value."""

    position: int
    share: float
    """Share by the method that lists the value."""
    decided: bool
    """Whether the value is proved to exceed the threshold, or to be present if that is significance."""
    p_value: float
    probability: float | None
    """Probability of exceeding the threshold, by calibrate's posterior."""
    ranks: tuple[int, int]
    """First and last possible rank of the true share. Rank 1 is the most frequent."""


@dataclass(frozen=True)
class Expected:
    """Precision and recall that a posterior expects of a list. They are right if its prior is, else an indication."""

    precision: float | None
    """Part of the list that exceeds the threshold, or None for an empty list."""
    recall: float | None
    """Part of the values above the threshold that is listed, or None if no value is expected above it."""


@dataclass(frozen=True, eq=False)
class Hitters:
    """The list of a method in the order of its shares. Equal ones follow the order of the domain."""

    threshold: float
    """Share that a listed value reaches by the method, or the significant share. At most 1."""
    positions: Ints
    shares: Floats
    decided: NDArray[np.bool_]
    p_values: Floats
    probabilities: Floats | None
    ranks: Ints
    """A row of first and last rank for each value."""
    expected: Expected | None
    estimate: Estimate = field(repr=False)

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def level(self) -> float:
        """The level of `low` and `high`, which allows for the choice of the values by their size."""
        return listed_level(len(self), len(self.estimate.shares))

    @cached_property
    def _interval(self) -> tuple[Floats, Floats]:
        return self.estimate.intervals_at(self.positions, self.level)

    @property
    def low(self) -> Floats:
        """Lower ends of the intervals of the unbiased shares."""
        return self._interval[0]

    @property
    def high(self) -> Floats:
        return self._interval[1]

    def __iter__(self) -> Iterator[Hitter]:
        probabilities = [None] * len(self) if self.probabilities is None else self.probabilities.tolist()
        columns = (self.positions, self.shares, self.decided, self.p_values)
        rows = zip(*(column.tolist() for column in columns), probabilities, self.ranks.tolist(), strict=True)

        for position, share, decided, p_value, probability, (low, high) in rows:
            yield Hitter(
                position=position,
                share=share,
                decided=decided,
                p_value=p_value,
                probability=probability,
                ranks=(low, high),
            )


def heavy_hitters(
    estimate: Estimate,
    shares: ArrayLike | None = None,
    *,
    threshold: Threshold | str | float = SIGNIFICANCE,
    family_error: float = 0.05,
    posterior: Calibration | None = None,
    rule: ListRule = "decided",
) -> Hitters:
    """Return the frequent values, in the order of the method that gave `shares`.

    Without `shares` the unbiased ones count. The threshold is "significance", a share below 1, or a count from
    1 on. `rule` is "decided", or "paper" for the figures of the papers.

    >>> from oracles import oracle
    >>> grr = oracle("grr", epsilon=2.0, size=4)
    >>> estimate = grr.estimate(grr.zeros() + [700, 100, 90, 110, *[0] * 64], 1000)
    >>> [(hitter.position, hitter.decided, hitter.ranks) for hitter in heavy_hitters(estimate)]
    [(0, True, (1, 1))]
    """
    return Evidence(estimate, threshold, family_error, posterior, rule).hitters(shares)


class Evidence:
    """Proofs from one estimate, the same for every method that lists its values.

    Equal counts have equal p-values and ranks, so the work is done once for each distinct count.
    """

    def __init__(
        self,
        estimate: Estimate,
        threshold: Threshold | str | float = SIGNIFICANCE,
        family_error: float = 0.05,
        posterior: Calibration | None = None,
        rule: ListRule = "decided",
    ) -> None:
        if rule not in _RULES:
            raise ParameterError(f"rule must be one of {', '.join(_RULES)}, got {rule!r}")

        self.estimate = estimate
        self.family_error = family_error
        self.posterior = posterior
        self._newest_proofs: tuple[Ints, Floats, Ints] | None = None
        """The values of the last list in the order of the domain, with their p-values and ranks."""
        self.listed_above, self.proved_above = bounds(estimate, threshold, family_error)
        self._paper = rule == "paper"
        self._by_share = _read_threshold(threshold).kind != "significance"
        # The papers' threshold takes normal tails. It is here to be compared, and proves nothing.
        if self._paper and not self._by_share:
            self.listed_above = estimate.noise.significance(len(estimate.shares), family_error)

    def hitters(self, shares: ArrayLike | None = None) -> Hitters:
        """Return the list of the method that gave `shares`."""
        estimates = self.estimate.shares
        by_method = estimates if shares is None else np.asarray(shares, np.float64)
        if by_method.shape != estimates.shape:
            raise ParameterError(f"shares must have shape ({len(estimates)},), got {by_method.shape}")

        return self._list(by_method, self._members(by_method))

    def no_hitters(self) -> Hitters:
        """Return an empty list, for counts that prove nothing."""
        return self._list(self.estimate.shares, np.zeros(0, np.int64))

    def _list(self, by_method: Floats, members: Ints) -> Hitters:
        """Return the list of these values."""
        estimates = self.estimate.shares
        p_values, ranks = self._proofs(members)
        # Stable: equal shares keep the order of the domain on every machine.
        order = (-by_method[members]).argsort(kind="stable")
        members = members[order]
        likely = self.likely
        return Hitters(
            threshold=self.listed_above,
            positions=members,
            shares=by_method[members],
            decided=estimates[members] >= self.least_decided,
            p_values=p_values[order],
            probabilities=None if likely is None else likely[members],
            ranks=ranks[order],
            expected=None if likely is None else _expected(likely, members),
            estimate=self.estimate,
        )

    def _proofs(self, members: Ints) -> tuple[Floats, Ints]:
        """Return p-values and ranks of values. Most methods list the same values, so the newest result is kept."""
        if self._newest_proofs is None or not np.array_equal(self._newest_proofs[0], members):
            p_values = self._p_values_of(members)
            ranks = np.array(self.estimate.ranks_at(members)).T if len(members) else np.zeros((0, 2), np.int64)
            self._newest_proofs = members, p_values, ranks
        return self._newest_proofs[1:]

    def _p_values_of(self, members: Ints) -> Floats:
        """Return the p-values of values."""
        if len(self._distinct.values) <= _BLOCK:
            return self._first_p_values[::-1][self._distinct.places[members]]
        shares, places, _ = distinct(self.estimate.shares[members])
        return _p_values(self.estimate, shares, self.proved_above)[places]

    def _members(self, shares: Floats) -> Ints:
        """Return the positions of the values that a method lists."""
        if not self.estimate.n:
            return np.zeros(0, np.int64)
        if self._paper:
            return np.flatnonzero(shares > self.listed_above)
        if not self._by_share:
            return self.decided
        return np.flatnonzero((self.estimate.shares >= self.least_decided) | (shares >= self.listed_above))

    @cached_property
    def likely(self) -> Floats | None:
        """Probability of each value to exceed the threshold of the list, or None without a posterior."""
        return None if self.posterior is None else self.posterior.above(self.listed_above)

    @cached_property
    def _distinct(self) -> Distinct:
        """Distinct unbiased shares in rising order, the place of each value, and the number of values with each."""
        return distinct(self.estimate.shares)

    @cached_property
    def _first_p_values(self) -> Floats:
        """The p-values of the first block of distinct shares, the largest share first."""
        return _p_values(self.estimate, self._distinct.values[::-1][:_BLOCK], self.proved_above)

    @cached_property
    def least_decided(self) -> float:
        """Least unbiased share that is decided, infinite if none is."""
        shares, _, times = self._distinct
        falling = shares[::-1]
        # Holm divides the error by the number of values that are not rejected yet. Equal shares have one level.
        rejected = times[::-1].cumsum() - times[::-1]
        levels = self.family_error / (len(self.estimate.shares) - rejected)

        start = 0
        stop = _BLOCK
        while start < len(falling):
            if start:
                p_values = _p_values(self.estimate, falling[start:stop], self.proved_above)
            else:
                p_values = self._first_p_values
            is_rejected = p_values <= levels[start:stop]
            if not is_rejected.all():
                start += int(np.argmin(is_rejected))
                break
            start = min(stop, len(falling))
            stop *= 4
        return float(falling[start - 1]) if start else np.inf

    @cached_property
    def decided(self) -> Ints:
        """Positions of all decided values, listed or not."""
        return np.flatnonzero(self.estimate.shares >= self.least_decided)


def bounds(estimate: Estimate, threshold: Threshold | str | float, family_error: float) -> tuple[float, float]:
    """Return the share that a listed value reaches, and the share that a decided value is proved to exceed.

    The first is 1 if no value can be listed.
    """
    if not 0.0 < family_error < 1.0:
        raise ParameterError(f"family_error must be above 0 and below 1, got {family_error!r}")
    limit = _read_threshold(threshold)
    if limit.kind == "significance":
        significance = estimate.significance(family_error)
        return 1.0 if significance is None else significance, 0.0
    share = limit.value if limit.kind == "share" else limit.value / max(estimate.n, 1)
    return share, share


def _read_threshold(threshold: Threshold | str | float) -> Threshold:
    if isinstance(threshold, Threshold):
        return threshold
    if threshold == "significance":
        return SIGNIFICANCE
    if isinstance(threshold, str) or not 0.0 <= threshold < np.inf:
        raise ParameterError(f'threshold must be "significance", a share below 1 or a count, got {threshold!r}')
    return Threshold("share" if threshold < 1.0 else "count", float(threshold))


def _p_values(estimate: Estimate, shares: Floats, threshold: float) -> Floats:
    """Return p-values of unbiased shares of this estimate. No true share exceeds 1."""
    return estimate.test_shares(shares, threshold) if threshold < 1.0 else np.ones(len(shares))


def _expected(likely: Floats, members: Ints) -> Expected:
    listed = float(likely[members].sum())
    total = float(likely.sum())
    precision = listed / len(members) if len(members) else None
    # Another order of summation can give more than the total, by the last bit.
    return Expected(precision, min(listed / total, 1.0) if total > 0.0 else None)
