"""The records and alerts of a window, and the states for the next one."""

from collections.abc import Sequence
from typing import NamedTuple

from aggregator.merging.small_groups import LastVisible, VisibleWindow, visible_windows
from aggregator.merging.windows import ClosedWindow, Span
from aggregator.publishing.alerts.state import alerts
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


class FinalResult(NamedTuple):
    """The records, alerts and states of a final."""

    window: WindowRecords
    alerts: list[tuple[bytes, bytes]]
    """Keys and values."""
    states: list[bytes]
    """The alert state of each attribute, for the next final of the same kind."""
    visible: list[LastVisible | None]
    """The last visible window of each attribute."""


class FinalMetrics(NamedTuple):
    """The metrics of one attribute of a final."""

    name: str | None
    withheld: bool
    sigma: float
    detectable: float | None
    threshold: float | None
    flags: tuple[str, ...]


def publish(
    query: Query, final: ClosedWindow, states: Sequence[bytes], before: Sequence[LastVisible | None]
) -> FinalResult:
    """Return the records and alerts of a final, given the states and visible windows after the final before it."""
    visible, last_visible = visible_windows(query, final, before)
    return FinalResult(*window_result(query, final.span, final.total, visible, states), last_visible)


def window_result(
    query: Query, span: Span, total: Snapshot, visible: Sequence[VisibleWindow] | None, states: Sequence[bytes] = ()
) -> WindowResult:
    """Return the records of a window. If there is `visible`, the window is final and has alerts."""
    window = build(query, span, total, final=visible is not None, visible=visible)
    if visible is None:
        return WindowResult(window, [], [])
    after, changes = alerts(query, span, window, states)
    return WindowResult(window, changes, after)


def final_metrics(query: Query, window: WindowRecords) -> list[FinalMetrics]:
    """Return the metrics of each attribute of a final."""
    return [
        FinalMetrics(
            *(findings.subject.name, findings.withheld, float(findings.estimate.sigma), findings.detectable),
            None if findings.withheld else query.threshold.share(findings.estimate.n),
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
