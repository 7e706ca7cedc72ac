"""The estimates of a window: one for each attribute, from one tally."""

from collections.abc import Sequence

import numpy as np

from aggregator.records.span import Span
from aggregator.tallies.snapshot import Snapshot
from oracles.discover import Slots
from oracles.estimate import Estimate
from oracles.multi.attributes import Multi
from oracles.multi.forgery import skewed, skewed_attributes
from oracles.query import Query
from oracles.types import MARKS


def estimates(query: Query, span: Span, total: Snapshot) -> list[Estimate]:
    """Return the estimate of each attribute, also of one that the window withholds."""
    return [estimate for estimate, _ in judged_estimates(query, span, total) if estimate is not None]


def judged_estimates(query: Query, span: Span, total: Snapshot) -> Sequence[tuple[Estimate | None, bool]]:
    """Return the estimate of each attribute, and whether its reports look forged.

    Unknown strings have none: the estimates of their levels and maps belong to a search.
    """
    n = total.n
    n_independent = span.independent(n, query)
    # A tally travels in the narrowest type that holds it, in which sums would overflow.
    counts = total.counts.astype(np.int64, copy=False)
    if isinstance(query.oracle, Slots):
        return [(None, False)]
    if isinstance(query.oracle, Multi):
        skews = skewed_attributes(query.oracle, counts, n, n_independent)
        return list(zip(query.oracle.estimate(counts, n, n_independent), skews, strict=True))

    is_skewed = skewed(query.oracle, counts[-MARKS:], n, n_independent)
    return [(query.oracle.estimate(counts, n, n_independent), is_skewed)]
