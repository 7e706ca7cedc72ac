"""Records of numbers."""

from typing import Any, cast

import numpy as np

from aggregator.records.crowd_privacy import of_record
from aggregator.records.digits import rounded
from aggregator.records.findings import GroupTotal, NumberFindings, WindowFindings
from aggregator.records.list_intervals import ListedIntervals
from aggregator.records.number_answers import NumberAnswers, NumberRow
from aggregator.records.number_rows import number_fields
from aggregator.records.record import Record
from aggregator.records.rows import OracleRow, RefusedRow
from oracles.estimate.intervals import LEVEL
from oracles.types import Ints


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


def intervals(record: Record, places: Ints, total: int | None = None) -> ListedIntervals:
    """Return the intervals of the record. Each answer was named before, so a list needs no wider ones."""
    del total
    rows = shown_rows(record)
    low = np.array([rows[place].low for place in places], np.float64)
    high = np.array([rows[place].high for place in places], np.float64)
    return ListedIntervals(LEVEL, low, high)


def shown_rows(record: Record) -> list[NumberRow]:
    """Return the answers that the query asks for. An answer without a value or an interval is not shown."""
    rows = NumberAnswers(record).rows()
    return [row for row in rows if None not in (row.value, row.low, row.high)]
