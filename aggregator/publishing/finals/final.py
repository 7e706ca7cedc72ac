"""The records and alerts of a window, and the states for the next one."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from aggregator.merging import blocks
from aggregator.merging.blocks import Place
from aggregator.merging.marks import Withheld
from aggregator.merging.name_history import NameHistory, NameSearch
from aggregator.merging.windows import ClosedWindow
from aggregator.publishing.alerts.comparisons import NO_BLOCKS, BlockInput, compare_blocks
from aggregator.publishing.alerts.decision import alerts
from aggregator.publishing.alerts.message import encode
from aggregator.publishing.alerts.name_decision import name_step
from aggregator.publishing.group_findings import find
from aggregator.publishing.records.cut import CUT
from aggregator.publishing.records.encoder import WindowRecords
from aggregator.publishing.records.encoder import encode as encode_records
from aggregator.publishing.window import CountedWindow
from aggregator.records.findings import AnyFindings, Findings, NameFindings, WindowFindings, WithheldFindings
from aggregator.records.span import Span
from aggregator.records.subject import LARGE, estimate_count
from aggregator.tallies.snapshot import Snapshot
from oracles.numbers import Quantity
from oracles.query import Query
from oracles.query.settings import Window


class WindowResult(NamedTuple):
    """The records of a window. For a final also its alerts."""

    findings: WindowFindings
    window: WindowRecords
    alerts: list[tuple[bytes, bytes]]
    """Keys and values."""
    states: list[bytes]
    """The alert state of each attribute, for the next final of the same kind."""
    blocks: Mapping[Place, bytes] = {}
    """The blocks that the final completes and later ones need."""
    search: NameSearch | None = None
    """The search of a final of unknown strings, for the history of names."""


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
    query: Query,
    span: Span,
    total: Snapshot,
    withheld: Sequence[Withheld | None] = (),
    states: Sequence[bytes] = (),
    through: int | None = None,
    block_input: BlockInput = NO_BLOCKS,
    totals: Sequence[bool] = (),
    history: NameHistory | None = None,
) -> WindowResult:
    """Return the records of a window. If `through` is None, it is final and has alerts, after the states and blocks."""
    findings = find(CountedWindow(query, span, total, withheld, through, totals, history or NameHistory()))
    window = encode_records(findings)
    if through is not None:
        return WindowResult(findings, window, [], [])
    new = compare_blocks(findings, block_input)
    after, changes = alerts(query, span, window, states, new.pairs)
    first, *_ = findings.of_totals
    if isinstance(first, NameFindings):
        search, news = name_step(query, span, first.names)
        return WindowResult(
            findings, window, [(alert.key, encode(alert)) for alert in news], after, new.records, search
        )
    return WindowResult(findings, window, changes, after, new.records)


class ResultSequence:
    """The results of the finals of a query in their order, each after the states and blocks of the finals before it."""

    def __init__(self) -> None:
        self._states: dict[Window, list[bytes]] = {}
        self._blocks: dict[Window, dict[Place, bytes]] = {}
        self._history = NameHistory()

    def next(self, query: Query, final: ClosedWindow) -> WindowResult:
        """Return the result of the next final."""
        window, store = final.span.window, self._blocks.setdefault(final.span.window, {})
        block_input = BlockInput(final.blocks, store)
        states = self._states.get(window, [])
        result = window_result(
            *(query, final.span, final.total, final.withheld, states), block_input=block_input, history=self._history
        )
        self._states[window] = result.states
        self._history = self._history.with_search(result.search).settled(final.span.end)
        store.update(result.blocks)
        for place in blocks.obsolete(query, window, store, final.span.end):
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
