"""The intervals of the values that a reader lists because they are large. Pure.

A record has an interval of 95% for each value. It is right for a value that was chosen before looking. What is listed
first is partly there by luck, so a list needs intervals of a higher level. They follow from the record alone.
"""

from fractions import Fraction
from typing import NamedTuple

import numpy as np

from aggregator.records.digits import all_rounded
from aggregator.records.record import Record
from oracles.consistency import UNBIASED
from oracles.estimate import Estimate, Pure
from oracles.estimate.intervals import LEVEL
from oracles.mechanisms.record_oracle import RecordOracle
from oracles.types import Floats, Ints

_NOISE = 1e-4
"""The part of a variance that rounded standard errors cannot show."""
MANY = 1 << 53
"""A population so large that the errors of a sample of it are the largest possible ones."""


class ListedIntervals(NamedTuple):
    """The intervals of listed values, in the order of the list, and their level."""

    level: float
    low: Floats
    high: Floats


def intervals_at(record: Record, places: Ints, level: float) -> ListedIntervals:
    """Return the intervals of a level at these places of a record. An older record has those of 95% only."""
    if level == LEVEL or record.size is None or not record.n_independent:
        return ListedIntervals(LEVEL, record.low[places], record.high[places])
    low, high = estimate_of(record, record.size).intervals_at(places, level)
    return ListedIntervals(level, all_rounded(low), all_rounded(high))


def estimate_of(record: Record, size: int, *, has_table: bool = False) -> Estimate:
    """Return the worker's estimate of the published values, of a domain with `size` values.

    `has_table` says that its clients may answer by tables in an earlier window too.
    """
    rates = Fraction(record.oracle.p), Fraction(record.oracle.q)
    oracle = RecordOracle(record.oracle.name, size, *rates, has_table=has_table)
    # No count is below 0 or above n. A share outside of these limits can come only from a malformed record.
    lowest = -oracle.q / oracle.gap
    highest = (1.0 - oracle.q) / oracle.gap
    shares = np.clip(record.shares[UNBIASED], lowest, highest)
    return Estimate(shares, record.n, oracle, record.n_independent, _population(record, oracle))


def _population(record: Record, oracle: Pure) -> int | None:
    """Return how many clients an attribute's reports are a sample of (smp), from the published standard errors."""
    shares = np.clip(record.shares[UNBIASED], 0.0, 1.0)
    noise = oracle.noise(record.n_independent)
    # The value with the largest spread shows the error of sampling best, beside the noise of the oracle.
    spread = shares * (1.0 - shares)
    place = int(np.argmax(spread))
    variance = record.stderr[place] ** 2
    sampling_variance = variance - noise.a - noise.b * shares[place]
    # A comparison that NaN fails: without an error in the record nothing is known of the sample.
    if not sampling_variance > _NOISE * variance:
        return None

    if not spread[place]:
        return MANY
    inverse_population = 1.0 / record.n_independent - sampling_variance / spread[place]
    return round(min(1.0 / inverse_population, MANY)) if inverse_population > 0.0 else MANY
