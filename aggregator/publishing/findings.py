"""The findings of a window for each attribute: shares by each method, their errors, and the frequent values.

They are computed once for a window. Its record, its alerts and the metrics use them. All findings depend only
on the query and the tally of the window.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from aggregator.merging.marks import Withheld
from aggregator.merging.name_history import NameHistory
from aggregator.publishing.kinds.names import name_result
from aggregator.records.findings import (
    AnyFindings,
    Findings,
    MethodResult,
    NameFindings,
    NumberFindings,
    WithheldFindings,
)
from aggregator.records.span import Span
from aggregator.records.subject import PARTIAL_GROUPS, Subject, subjects
from aggregator.tallies.snapshot import FLAGS, Snapshot
from oracles.calibrate import calibrate
from oracles.consistency import UNBIASED, apply, find
from oracles.discover import Slots
from oracles.estimate import Estimate
from oracles.heavy import Evidence
from oracles.multi.attributes import Multi
from oracles.multi.forgery import skewed, skewed_attributes
from oracles.numbers import Numbers
from oracles.query import Query
from oracles.risk import risk
from oracles.types import MARKS

_FLAGS = ("partial", "incomplete", "skewed", "ids_overflow", "prior_rejected", PARTIAL_GROUPS, "small", "held")
"""All flags, in the order of a record."""


def find_all(
    query: Query,
    span: Span,
    total: Snapshot,
    withheld: Sequence[Withheld | None] = (),
    history: NameHistory | None = None,
) -> tuple[AnyFindings, ...]:
    """Return the findings of a window for each attribute.

    `withheld` has the reason for each attribute without them, and `history` the names that earlier searches have found.
    """
    flags = {flag for flag, bit in FLAGS.items() if total.flags & bit}
    reasons = withheld or [None] * len(query.domains)
    if isinstance(query.oracle, Slots) and reasons[0] is None:
        result = name_result(query, query.oracle, span, total, history or NameHistory())
        final_flags = _in_order(flags | ({"skewed"} if result.skewed else set()))
        (subject,), independent = subjects(query), span.independent(total.n, query)
        return (NameFindings(subject, query.oracle.cell_oracle, total.n, independent, result, final_flags),)
    each_estimate = list(_estimates(query, span, total)) if None in reasons else [(None, False)] * len(reasons)
    rows: list[AnyFindings] = []
    for subject, oracle, reason, (estimate, skew) in zip(
        subjects(query), query.attribute_oracles, reasons, each_estimate, strict=True
    ):
        if estimate is None or reason is not None:
            rows.append(WithheldFindings(subject, oracle, _in_order({*flags, str(reason)})))
            continue
        own_flags = flags | ({"skewed"} if skew else set())
        if subject.domain.scale is None:
            rows.append(_find(query, subject, estimate, own_flags))
        else:
            numbers = Numbers(estimate, subject.domain.scale)
            rows.append(NumberFindings(subject, estimate, numbers, _in_order(own_flags)))
    return tuple(rows)


def _estimates(query: Query, span: Span, total: Snapshot) -> Iterable[tuple[Estimate, bool]]:
    """Return the estimate of each attribute, and whether its reports look forged."""
    n, independent = total.n, span.independent(total.n, query)
    counts = total.counts.astype(np.int64, copy=False)
    if isinstance(query.oracle, Multi):
        skews = skewed_attributes(query.oracle, counts, n, independent)
        return zip(query.oracle.estimate(counts, n, independent), skews, strict=True)
    return [(query.oracle.estimate(counts, n, independent), skewed(query.oracle, counts[-MARKS:], n, independent))]


def estimates(query: Query, span: Span, total: Snapshot) -> list[Estimate]:
    """Return the estimate of each attribute, also of one that the window withholds."""
    return [estimate for estimate, _ in _estimates(query, span, total)]


def _in_order(flags: set[str]) -> tuple[str, ...]:
    return tuple(flag for flag in _FLAGS if flag in flags)


def with_flag(findings: AnyFindings, flag: str) -> AnyFindings:
    """Return findings with one more flag."""
    flags = _in_order({*findings.flags, flag})
    if isinstance(findings, WithheldFindings):
        return findings._replace(flags=flags)
    return replace(findings, flags=flags)


def _find(query: Query, subject: Subject, estimate: Estimate, flags: set[str]) -> Findings:
    fits = any(find(name).fits_a_prior for name in query.methods)
    calibration = calibrate(estimate, fallback=query.fallback) if fits else None
    prior = calibration
    if calibration is not None and calibration.rejected:
        prior = None
        flags = flags | {"prior_rejected"}
    names = (UNBIASED, *query.methods)
    methods = [query.fallback if prior is None and find(name).fits_a_prior else name for name in names]
    evidence = Evidence(estimate, query.threshold, query.family_error, prior)
    results = {method: _method_result(method, evidence) for method in dict.fromkeys(methods)}
    return Findings(
        subject=subject,
        estimate=estimate,
        calibration=calibration,
        by_method={name: results[method] for name, method in zip(names, methods, strict=True)},
        likely=evidence.likely,
        detectable=estimate.detectable(query.family_error),
        flags=_in_order(flags),
    )


def _method_result(method: str, evidence: Evidence) -> MethodResult:
    estimate, prior = evidence.estimate, evidence.posterior
    shares = apply(method, estimate, calibrated=prior)
    error = risk(method, estimate, calibrated=prior, shares=shares)
    return MethodResult(method, shares, evidence.hitters(shares), error)
