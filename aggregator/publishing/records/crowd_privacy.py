"""The guarantee of a person towards somebody who sees one record only."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated

from aggregator.merging.windows import Span
from oracles.central import crowd_epsilon, honest
from oracles.mechanisms.protocol import Oracle
from oracles.query import Query


@dataclass(frozen=True, kw_only=True, slots=True)
class CrowdPrivacy:
    """A guarantee (epsilon, delta) that counts on `honest` reports of other people."""

    epsilon: Annotated[float, {"minimum": 0}]
    delta: Annotated[float, {"minimum": 0, "maximum": 1}]
    honest: Annotated[int, {"minimum": 1, "maximum": 1 << 53}]


def crowd_privacy(query: Query, attribute: str | None, span: Span, n: int) -> CrowdPrivacy | None:
    """Return the guarantee of a final of `n` reports to an attribute, or None if a person may stand in it twice."""
    periods = max(1, -(-span.end // query.period) - span.start // query.period)
    is_unclear = query.solution == "rsfd" and query.answers == "life"
    return None if periods > 1 or is_unclear or honest(n) < 1 else _guarantee(query, attribute, honest(n))


@lru_cache(maxsize=1 << 12)
def _guarantee(query: Query, attribute: str | None, people: int) -> CrowdPrivacy:
    """Return the guarantee. There are 90 numbers of people for each power of ten, so finals find theirs here."""
    oracle = query.oracle
    overlap = None
    if query.only_oracle is not None:
        overlap = query.only_oracle.overlap
    elif not isinstance(oracle, Oracle) and query.solution == "smp":
        names = [each.name for each in query.attributes]
        overlap = oracle.encoders[names.index(attribute or "")].overlap
    epsilon, delta = crowd_epsilon(query.record_epsilon, people, overlap)
    return CrowdPrivacy(epsilon=epsilon, delta=delta, honest=people)
