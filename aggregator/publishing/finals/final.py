"""The records and alerts of a window, and the states for the next one."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from aggregator.merging.marks import Withheld
from aggregator.merging.windows import Span
from aggregator.publishing.alerts.state import alerts
from aggregator.publishing.findings import Findings, WithheldFindings
from aggregator.publishing.records.cut import CUT
from aggregator.publishing.records.encoder import WindowRecords, build
from aggregator.tallies.snapshot import Snapshot
from oracles.query import Query

LARGE = 1 << 16
"""Values up to which a query shares its process with others."""


class WindowResult(NamedTuple):
    """The records of a window. For a final also its alerts."""

    window: WindowRecords
    alerts: list[tuple[bytes, bytes]]
    """Keys and values."""
    states: list[bytes]
    """The alert state of each attribute, for the next final of the same kind."""


class FinalMetrics(NamedTuple):
    """The metrics of one attribute of a final."""

    name: str | None
    withheld: bool
    sigma: float
    detectable: float | None
    threshold: float | None
    flags: tuple[str, ...]


def window_result(
    query: Query,
    span: Span,
    total: Snapshot,
    withheld: Sequence[Withheld | None] = (),
    states: Sequence[bytes] = (),
    through: int | None = None,
) -> WindowResult:
    """Return the records of a window. If `through` is None, it is final and has alerts after these states."""
    window = build(query, span, total, withheld, through=through)
    if through is not None:
        return WindowResult(window, [], [])
    after, changes = alerts(query, span, window, states)
    return WindowResult(window, changes, after)


def final_metrics(query: Query, window: WindowRecords) -> list[FinalMetrics]:
    """Return the metrics of each attribute of a final."""
    return [
        FinalMetrics(
            findings.subject.name, isinstance(findings, WithheldFindings), math.nan, None, None, findings.flags
        )
        if not isinstance(findings, Findings)
        else FinalMetrics(
            *(findings.subject.name, False, float(findings.estimate.sigma), findings.detectable),
            query.threshold.share(findings.estimate.n),
            (*findings.flags, CUT) if is_cut else findings.flags,
        )
        for findings, is_cut in zip(window.findings, window.cuts, strict=True)
    ]


def value_count(query: Query) -> int:
    """Return the number of values of all attributes."""
    return sum(domain.size for domain in query.domains)


def is_large(query: Query) -> bool:
    """Whether the estimates take so long that other queries must not wait for them."""
    return value_count(query) > LARGE
