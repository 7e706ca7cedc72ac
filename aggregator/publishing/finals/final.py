"""The records and alerts of a window, and the states for the next one."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from aggregator.merging import blocks
from aggregator.merging.blocks import Place
from aggregator.merging.name_history import NameHistory
from aggregator.merging.windows import ClosedWindow
from aggregator.publishing.alerts.comparisons import NO_BLOCKS, BlockInput
from aggregator.publishing.alerts.decision import Decision, decide
from aggregator.publishing.group_findings import find
from aggregator.publishing.window import CountedWindow
from aggregator.records.cut import CUT
from aggregator.records.encoder import WindowRecords, encode
from aggregator.records.findings import AnyFindings, Findings, NameFindings, WindowFindings, WithheldFindings
from aggregator.records.subject import LARGE, estimate_count
from oracles.numbers import Quantity
from oracles.query import Query
from oracles.query.settings import Window


class WindowResult(NamedTuple):
    """The findings and the records of a window. For a final also its alerts."""

    findings: WindowFindings
    window: WindowRecords
    decision: Decision


class NumberMetrics(NamedTuple):
    """The metrics of an attribute whose answers are numbers. Each number has the ends of its 95% interval."""

    mean: Quantity
    quantiles: Mapping[str, Quantity]
    """By share, as in a record."""
    ranges: Mapping[str, Quantity]


class FinalMetrics(NamedTuple):
    """The metrics of one attribute of a final."""

    name: str | None
    withheld: bool
    sigma: float
    detectable: float | None
    threshold: float | None
    flags: tuple[str, ...]
    numbers: NumberMetrics | None = None


def window_result(
    window: CountedWindow, states: Sequence[bytes] = (), block_input: BlockInput = NO_BLOCKS
) -> WindowResult:
    """Return the records of a window. A final also has alerts, after the states and blocks of the finals before it."""
    findings = find(window)
    decision = decide(findings, states, block_input) if window.through is None else Decision([], [])
    return WindowResult(findings, encode(findings), decision)


class ResultSequence:
    """The results of the finals of a query in their order, each after the states and blocks of the finals before it."""

    def __init__(self) -> None:
        self._states: dict[Window, list[bytes]] = {}
        self._blocks: dict[Window, dict[Place, bytes]] = {}
        self._history = NameHistory()

    def next(self, query: Query, final: ClosedWindow) -> WindowResult:
        """Return the result of the next final."""
        kind = final.span.window
        store = self._blocks.setdefault(kind, {})
        window = CountedWindow(query, final.span, final.total, final.withheld, history=self._history)
        result = window_result(window, self._states.get(kind, []), BlockInput(final.blocks, store))

        decision = result.decision
        self._states[kind] = decision.states
        self._history = self._history.with_search(decision.search).settled(final.span.end)
        store.update(decision.blocks)
        for place in blocks.obsolete(query, kind, store, final.span.end):
            del store[place]
        return result


def final_metrics(result: WindowResult) -> list[FinalMetrics]:
    """Return the metrics of the total of each attribute of a final."""
    rows = zip(result.findings.of_totals, result.window.cuts, strict=True)
    return [_metrics(result.findings.query, findings, is_cut=is_cut) for findings, is_cut in rows]


def _metrics(query: Query, findings: AnyFindings, *, is_cut: bool) -> FinalMetrics:
    name = findings.subject.name
    if isinstance(findings, Findings):
        flags = (*findings.flags, CUT) if is_cut else findings.flags
        threshold = query.threshold.share(findings.estimate.n)
        return FinalMetrics(name, False, float(findings.estimate.sigma), findings.detectable, threshold, flags)
    if isinstance(findings, WithheldFindings | NameFindings):
        return FinalMetrics(name, isinstance(findings, WithheldFindings), math.nan, None, None, findings.flags)
    numbers = findings.numbers
    shares = {name: numbers.range(*ends) for name, ends in findings.subject.ranges}
    metrics = NumberMetrics(
        numbers.mean(),
        {repr(share): numbers.quantile(share) for share in query.quantiles},
        {name: Quantity(row.share, row.low, row.high) for name, row in shares.items()},
    )
    return FinalMetrics(name, False, math.nan, None, None, findings.flags, metrics if numbers.known else None)


def is_large(query: Query) -> bool:
    """Whether the estimates, or searches for names, take so long that other queries must not wait for them."""
    return estimate_count(query) > LARGE or query.strings is not None
