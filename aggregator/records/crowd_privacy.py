"""The guarantee of a person towards somebody who sees one record only."""

from dataclasses import dataclass
from typing import Annotated

from aggregator.records.findings import WindowFindings
from aggregator.records.span import Span
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
    people = honest(n)
    # A person in two periods has two reports, and the guarantee is of one.
    if periods > 1 or is_unclear or people < 1:
        return None
    return _hidden_among(query, attribute, people)


def stretch_privacy(query: Query, attribute: str | None) -> CrowdPrivacy | None:
    """Return the guarantee of one fresh answer for all windows together: a stretch has at least `crowd` reports."""
    people = honest(query.crowd)
    return None if people < 1 else _hidden_among(query, attribute, people)


def of_record(window: WindowFindings, attribute: str | None, n: int) -> CrowdPrivacy | None:
    """Return the guarantee of a record about an attribute. A provisional one has none, since more of them follow."""
    return crowd_privacy(window.query, attribute, window.span, n) if window.through is None else None


def _hidden_among(query: Query, attribute: str | None, people: int) -> CrowdPrivacy:
    epsilon, delta = crowd_epsilon(query.record_epsilon, people, _overlap(query, attribute))
    return CrowdPrivacy(epsilon=epsilon, delta=delta, honest=people)


def _overlap(query: Query, attribute: str | None) -> float | None:
    """Return the common part of the reports to an attribute, or None if it is not known."""
    oracle = query.oracle
    if query.only_oracle is not None:
        return query.only_oracle.overlap
    if isinstance(oracle, Oracle) or query.solution != "smp":
        return None
    names = [attribute_row.name for attribute_row in query.attributes]
    return oracle.encoders[names.index(attribute or "")].overlap
