"""The findings of a window with groups: those of each group, and those of the totals of the groups that are shown.

The findings of a group are those of a query of its own with the same reports.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from aggregator.merging.marks import Withheld
from aggregator.merging.place_counts import answer_counts
from aggregator.publishing.findings import find_all
from aggregator.publishing.flags import with_flag
from aggregator.publishing.window import CountedWindow
from aggregator.records.findings import (
    AnyFindings,
    Findings,
    GroupTotal,
    PopulationShares,
    WindowFindings,
)
from aggregator.records.span import Span
from aggregator.records.subject import IMPOSSIBLE, PARTIAL_GROUPS
from aggregator.tallies.group_cells import GroupNumbers, combine, split
from aggregator.tallies.snapshot import Snapshot
from oracles.consistency import UNBIASED
from oracles.group_total import weighted_total
from oracles.query import Query


def find(window: CountedWindow) -> WindowFindings:
    """Return the findings of a window."""
    query = window.query
    totals, by_group = _grouped(window) if query.groups else _ungrouped(window)
    return WindowFindings(
        query=query,
        span=window.span,
        total=window.total,
        through=window.through,
        totals=totals,
        by_group=by_group,
        published_totals=window.totals,
    )


def _ungrouped(window: CountedWindow) -> tuple[list[GroupTotal], dict[int, list[GroupTotal]]]:
    query = window.query
    reports = split(window.total, query.oracle.state_size)[0]
    reasons = window.withheld[: len(query.domains)]
    rows = find_all(query, window.counted_span, reports, reasons, window.history)
    return [GroupTotal(findings, reports) for findings in rows], {}


def _grouped(window: CountedWindow) -> tuple[list[GroupTotal], dict[int, list[GroupTotal]]]:
    """Return the findings of the totals, and of each group with reports."""
    query = window.query
    span = window.counted_span
    attributes = len(query.domains)
    parts = split(window.total, query.oracle.state_size)
    counts = answer_counts(query, window.total)
    reasons = window.withheld or [None] * len(counts)

    by_group: dict[int, list[GroupTotal]] = {}
    for group, part in enumerate(parts):
        if part.n:
            own_reasons = reasons[group * attributes : (group + 1) * attributes]
            rows = find_all(query, span, part, own_reasons)
            by_group[group] = [GroupTotal(findings, part, (group,)) for findings in rows]

    # Attributes that show the same groups share one sum, because adding and estimating it costs the most.
    visible_groups = [
        tuple(group for group, rows in by_group.items() if rows[attribute].findings.has_values)
        for attribute in range(attributes)
    ]
    # A weighted total is not tested. It proves nothing if one of its groups does not.
    impossible_totals = None
    if query.weights:
        impossible_totals = [
            any(IMPOSSIBLE in by_group[group][attribute].findings.flags for group in groups)
            for attribute, groups in enumerate(visible_groups)
        ]
    sums = {groups: _sum(query, span, parts, groups, visible_groups, impossible_totals) for groups in visible_groups}

    totals = []
    for attribute, groups in enumerate(visible_groups):
        reports, rows = sums[groups]
        findings = rows[attribute]
        present = tuple(group for group, n in enumerate(counts[attribute::attributes]) if n)
        # If no group is shown, the total is withheld as a whole, and no part of it can mislead.
        if groups not in ((), present):
            findings = with_flag(findings, PARTIAL_GROUPS)
        population = _weigh(query, span, {group: by_group[group][attribute].findings for group in groups})
        totals.append(GroupTotal(findings, reports, groups or present, population))
    return totals, by_group


def _sum(
    query: Query,
    span: Span,
    parts: Sequence[Snapshot],
    groups: GroupNumbers,
    visible_groups: Sequence[GroupNumbers],
    impossible_totals: Sequence[bool] | None,
) -> tuple[Snapshot, tuple[AnyFindings, ...]]:
    """Return the sum of some groups, and its findings for the attributes of which just these groups are visible."""
    if not groups:
        nothing = Snapshot(0, 0, 0, parts[0].flags, parts[0].counts)
        return nothing, find_all(query, span, nothing, ["small"] * len(visible_groups))

    # The other attributes have a sum of their own. Their findings of this one are not used, and would cost as much.
    total = combine(parts, groups, query.oracle.state_size)
    reasons: list[Withheld | None] = [None if own_groups == groups else "small" for own_groups in visible_groups]
    return total, find_all(query, span, total, reasons, impossible=impossible_totals)


def _weigh(query: Query, span: Span, findings: Mapping[int, AnyFindings]) -> PopulationShares | None:
    """Return the weighted total of these groups, or None if none of them has a weight, or answers are numbers."""
    # Group 0 holds the reports without a group. Nobody knows how many people they stand for.
    all_weights = dict(enumerate(query.weights, 1))
    members = {
        group: member
        for group, member in findings.items()
        if isinstance(member, Findings) and all_weights.get(group, 0.0) > 0.0
    }
    if not members:
        return None

    weights = [all_weights[group] for group in members]
    repeats = query.repeats(span.start, span.end) > 1
    total = weighted_total([member.estimate for member in members.values()], weights, repeats=repeats)
    methods = next(iter(members.values())).by_method
    shares = {
        method: np.average([member.by_method[method].shares for member in members.values()], axis=0, weights=weights)
        for method in methods
    }
    # The errors belong to the shares of the estimate, from which an average could differ in its last bits.
    return PopulationShares(total, {**shares, UNBIASED: total.shares})
