"""The findings of a window with groups: those of each group, and those of the totals of the groups that are shown.

The findings of a group are those of a query of its own with the same reports.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from aggregator.merging.marks import Withheld
from aggregator.merging.merger import answer_counts
from aggregator.merging.name_history import NameHistory
from aggregator.publishing.findings import find_all, with_flag
from aggregator.records.findings import (
    AnyFindings,
    Findings,
    GroupTotal,
    PopulationShares,
    WindowFindings,
    WithheldFindings,
)
from aggregator.records.span import Span
from aggregator.records.subject import PARTIAL_GROUPS
from aggregator.tallies.group_cells import GroupNumbers, combine, split
from aggregator.tallies.snapshot import Snapshot
from oracles.consistency import UNBIASED
from oracles.group_total import weighted_total
from oracles.query import Query


def find_groups(
    query: Query,
    span: Span,
    total: Snapshot,
    withheld: Sequence[Withheld | None] = (),
    history: NameHistory | None = None,
) -> WindowFindings:
    """Return the findings of a window. `withheld` has the reason for each place without values. See QueryMarks.

    `history` has the names that earlier searches have found, if strings are unknown. Such a query has no groups.
    """
    cells, attributes = query.oracle.state_size, len(query.domains)
    parts = split(total, cells)
    if query.groups is None:
        reasons = withheld[:attributes]
        return WindowFindings(
            [GroupTotal(each, parts[0]) for each in find_all(query, span, parts[0], reasons, history)]
        )
    counts = answer_counts(query, total)
    reasons = withheld or [None] * len(counts)
    by_group = {
        group: [
            GroupTotal(findings, part, (group,))
            for findings in find_all(query, span, part, reasons[group * attributes : (group + 1) * attributes])
        ]
        for group, part in enumerate(parts)
        if part.n
    }
    visible = [tuple(group for group, each in by_group.items() if _has_values(each[at])) for at in range(attributes)]
    sums = {groups: _sum(query, span, parts, groups, visible) for groups in visible}
    totals = []
    for at, groups in enumerate(visible):
        reports, all_findings = sums[groups]
        present = tuple(group for group, n in enumerate(counts[at::attributes]) if n)
        findings = all_findings[at] if groups in ((), present) else with_flag(all_findings[at], PARTIAL_GROUPS)
        population = _weigh(query, span, {group: by_group[group][at].findings for group in groups})
        totals.append(GroupTotal(findings, reports, groups or present, population))
    return WindowFindings(totals, by_group)


def _has_values(total: GroupTotal) -> bool:
    return not isinstance(total.findings, WithheldFindings)


def _sum(
    query: Query, span: Span, parts: Sequence[Snapshot], groups: GroupNumbers, visible: Sequence[GroupNumbers]
) -> tuple[Snapshot, tuple[AnyFindings, ...]]:
    """Return the sum of some groups, and its findings for the attributes of which just these groups are visible."""
    if not groups:
        nothing = Snapshot(0, 0, 0, parts[0].flags, parts[0].counts)
        return nothing, find_all(query, span, nothing, ["small"] * len(visible))
    total = combine(parts, groups, query.oracle.state_size)
    return total, find_all(query, span, total, [None if each == groups else "small" for each in visible])


def _weigh(query: Query, span: Span, findings: Mapping[int, AnyFindings]) -> PopulationShares | None:
    """Return the weighted total of these groups, or None if none of them has a weight, or answers are numbers."""
    if query.weights is None:
        return None
    weights = [0.0, *query.weights]
    members = {group: each for group, each in findings.items() if isinstance(each, Findings) and weights[group] > 0.0}
    if not members:
        return None
    weights = [weights[group] for group in members]
    repeats = query.repeats(span.start, span.end) > 1
    total = weighted_total([each.estimate for each in members.values()], weights, repeats=repeats)
    methods = next(iter(members.values())).by_method
    shares = {
        method: np.average([each.by_method[method].shares for each in members.values()], axis=0, weights=weights)
        for method in methods
    }
    return PopulationShares(total, {**shares, UNBIASED: total.shares})
