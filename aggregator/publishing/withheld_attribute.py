"""The changes and the metrics of an attribute, whose values may be withheld. Pure.

This stands around the kinds of answers, which know of no withheld values.
"""

from collections.abc import Sequence

from aggregator.publishing.alerts.comparisons import StretchPair
from aggregator.publishing.final_metrics import FinalMetrics
from aggregator.publishing.kinds import kind_of
from aggregator.publishing.kinds.attribute import AttributeChanges
from aggregator.records.findings import AnyFindings, GroupTotal, WindowFindings
from aggregator.records.subject import IMPOSSIBLE
from oracles.query import Query


def changes(window: WindowFindings, total: GroupTotal, state: bytes, pairs: Sequence[StretchPair]) -> AttributeChanges:
    """Return the alerts of an attribute of a final, and what later finals need."""
    if not total.findings.has_values or IMPOSSIBLE in total.findings.flags:
        # Such a final shows or proves nothing, so the next one compares with the final before it.
        return AttributeChanges([], state)
    return kind_of(total.findings.subject).changes(window, total, state, pairs)


def metrics(query: Query, findings: AnyFindings) -> FinalMetrics:
    """Return the metrics of an attribute of a final."""
    if not findings.has_values:
        return FinalMetrics(findings.subject.name, findings.flags)
    return kind_of(findings.subject).metrics(query, findings)
