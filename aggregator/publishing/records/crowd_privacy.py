"""The guarantee of a person towards somebody who sees one record only."""

from functools import lru_cache
from typing import TypedDict

from aggregator.merging.windows import Span
from oracles.central import crowd_epsilon, honest
from oracles.mechanisms.protocol import Oracle
from oracles.query import Query


class CrowdPrivacy(TypedDict):
    """A guarantee (epsilon, delta) that counts on `honest` reports of other people."""

    epsilon: float
    delta: float
    honest: int


def crowd_privacy(query: Query, attribute: str | None, span: Span, n: int) -> CrowdPrivacy | None:
    """Return the guarantee of a final of `n` reports to an attribute, or None if a person may stand in it twice."""
    periods = max(1, -(-span.end // query.period) - span.start // query.period)
    hidden = query.solution == "rsfd" and query.answers == "life"
    return None if periods > 1 or hidden or honest(n) < 1 else _guarantee(query, attribute, honest(n))


@lru_cache(maxsize=1 << 12)
def _guarantee(query: Query, attribute: str | None, people: int) -> CrowdPrivacy:
    """Return the guarantee. There are 90 numbers of people for each power of ten, so finals find theirs here."""
    oracle = query.oracle
    overlap = None
    if isinstance(oracle, Oracle):
        overlap = oracle.overlap
    elif query.solution == "smp":
        names = [each.name for each in query.attributes]
        overlap = oracle.encoders[names.index(attribute or "")].overlap
    epsilon, delta = crowd_epsilon(query.record_epsilon, people, overlap)
    return CrowdPrivacy(epsilon=epsilon, delta=delta, honest=people)
