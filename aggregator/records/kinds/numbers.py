"""Records of numbers."""

from typing import Any, cast

from aggregator.records.crowd_privacy import of_record
from aggregator.records.digits import rounded
from aggregator.records.findings import GroupTotal, NumberFindings, WindowFindings
from aggregator.records.number_rows import number_fields
from aggregator.records.rows import OracleRow, RefusedRow


def fields(window: WindowFindings, total: GroupTotal) -> dict[str, Any]:
    """Return the distribution of the numbers."""
    query = window.query
    findings = cast(NumberFindings, total.findings)
    estimate = findings.estimate
    subject = findings.subject

    return {
        "n": estimate.n,
        "n_independent": estimate.n_independent,
        "oracle": OracleRow.of(query, estimate.oracle),
        "shift_per_fake": rounded(estimate.oracle.shift_per_fake(estimate.n)) if estimate.n else None,
        "answers": query.answers,
        "numbers": number_fields(findings.numbers, subject.domain, query.quantiles, subject.ranges),
        "refused": RefusedRow.of(total.reports),
        "quality": {
            "sum": rounded(float(estimate.shares.sum())),
            "prior_rejected": False,
            "risk": {},
            "flags": findings.flags,
        },
        "central": of_record(window, subject.name, estimate.n),
    }
