"""The records and alerts of a window, and the states for the next one."""

from collections.abc import Sequence
from typing import NamedTuple

from aggregator.merging import blocks
from aggregator.merging.blocks import Place
from aggregator.merging.kinds import kind_of
from aggregator.merging.name_history import NameHistory
from aggregator.merging.windows import ClosedWindow
from aggregator.publishing.alerts.comparisons import NO_BLOCKS, BlockInput
from aggregator.publishing.decision import Decision, decide
from aggregator.publishing.final_metrics import FinalMetrics
from aggregator.publishing.group_findings import find
from aggregator.publishing.window import CountedWindow
from aggregator.publishing.withheld_attribute import metrics as metrics_of
from aggregator.records.cut import CUT
from aggregator.records.encoder import WindowRecords, encode
from aggregator.records.findings import WindowFindings
from aggregator.records.subject import LARGE, estimate_count
from oracles.query import Query
from oracles.query.settings import Window


class WindowResult(NamedTuple):
    """The findings and the records of a window. For a final also its alerts."""

    findings: WindowFindings
    window: WindowRecords
    decision: Decision


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
        # An audit of a long log would otherwise hold the blocks of all its windows.
        for place in blocks.obsolete(query, kind, store, final.span.end):
            del store[place]
        return result


def final_metrics(result: WindowResult) -> list[FinalMetrics]:
    """Return the metrics of the total of each attribute of a final."""
    metrics = []
    for findings, is_cut in zip(result.findings.of_totals, result.window.cuts, strict=True):
        own_metrics = metrics_of(result.findings.query, findings)
        if is_cut:
            own_metrics = own_metrics._replace(flags=(*own_metrics.flags, CUT))
        metrics.append(own_metrics)
    return metrics


def is_large(query: Query) -> bool:
    """Whether the estimates, or searches for names, take so long that other queries must not wait for them."""
    return estimate_count(query) > LARGE or kind_of(query).has_search
