"""The findings of a window for each attribute: shares by each method, their errors, and the frequent values.

They are computed once for a window. Its record, its alerts and the metrics use them. All findings depend only
on the query and the tally of the window.
"""

from collections.abc import Sequence

from aggregator.merging.marks import Withheld
from aggregator.merging.name_history import NameHistory
from aggregator.publishing.estimates import judged_estimates
from aggregator.publishing.flags import SKEWED, in_record_order
from aggregator.publishing.kinds import kind_of
from aggregator.publishing.kinds.attribute import CountedAttribute
from aggregator.records.findings import AnyFindings, WithheldFindings
from aggregator.records.span import Span
from aggregator.records.subject import subjects
from aggregator.tallies.snapshot import FLAGS, Snapshot
from oracles.estimate import Estimate
from oracles.query import Query


def find_all(
    query: Query,
    span: Span,
    total: Snapshot,
    withheld: Sequence[Withheld | None] = (),
    history: NameHistory | None = None,
    impossible: Sequence[bool] | None = None,
) -> tuple[AnyFindings, ...]:
    """Return the findings of a window for each attribute.

    `withheld` has the reason for each attribute without them, and `history` the names that earlier searches have found.
    `impossible` says which attributes have counts that no crowd has. Without it the counts themselves are tested.
    """
    flags = {flag for flag, bit in FLAGS.items() if total.flags & bit}
    reasons = withheld or [None] * len(query.domains)
    # Attributes share one tally, so one that is shown costs the estimates of all.
    estimates: Sequence[tuple[Estimate | None, bool]] = [(None, False)] * len(reasons)
    if None in reasons:
        estimates = judged_estimates(query, span, total)

    judgements: Sequence[bool | None] = impossible or [None] * len(reasons)
    findings: list[AnyFindings] = []
    for subject, oracle, reason, (estimate, is_skewed), is_impossible in zip(
        subjects(query),
        query.attribute_oracles,
        reasons,
        estimates,
        judgements,
        strict=True,
    ):
        if reason is not None:
            findings.append(WithheldFindings(subject, oracle, in_record_order({*flags, reason})))
            continue
        attribute = CountedAttribute(
            query=query,
            span=span,
            subject=subject,
            total=total,
            estimate=estimate,
            flags=flags | {SKEWED} if is_skewed else flags,
            history=history or NameHistory(),
            is_impossible=is_impossible,
        )
        findings.append(kind_of(subject).find(attribute))
    return tuple(findings)
