"""The alerts of a final, and the state for the next one.

Pure. The state after a final depends only on the finals up to it. An alert depends only on the state before, the
blocks before and the final, so a restart repeats an alert byte for byte, or not at all.

In two windows different people answer. An alert is about the population that they come from. So its tests
treat the people as a sample of it. A value at the threshold then stays as it is, even with an epsilon so
large that the window's own share is exact.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from aggregator.merging.blocks import Place
from aggregator.merging.name_history import NameSearch
from aggregator.publishing.alerts.change_test import changes
from aggregator.publishing.alerts.comparisons import NO_BLOCKS, BlockInput, StretchPair, compare_blocks
from aggregator.publishing.alerts.name_decision import name_step
from aggregator.publishing.alerts.silence import Look, after_silence, in_order, longest_silence
from aggregator.publishing.alerts.state import EVERYONE, State, dump, later_references, load, newest_before
from aggregator.publishing.alerts.watch import Watch, number_watch_of, watch_of
from aggregator.publishing.kinds.numbers import number_step
from aggregator.records.alert import Alert, AlertKind, StretchRow, encode
from aggregator.records.digits import rounded
from aggregator.records.findings import (
    Findings,
    GroupTotal,
    NameFindings,
    NumberFindings,
    WindowFindings,
    WithheldFindings,
)
from aggregator.records.rows import WindowRow
from aggregator.records.span import Span
from aggregator.tallies.group_cells import GROUP_0, GroupNumbers
from oracles.estimate import Estimate
from oracles.heavy import Evidence, bounds
from oracles.query.settings import Threshold
from oracles.types import Floats


@dataclass(frozen=True, eq=False)
class Final:
    """One attribute of a final window."""

    start: int
    end: int
    estimate: Estimate
    probability: Floats | None = None
    """The probability of each value to exceed the threshold, if there is a posterior."""
    groups: GroupNumbers = GROUP_0
    """The groups in it."""


class Decision(NamedTuple):
    """The alerts of a final, and what later finals need."""

    alerts: list[tuple[bytes, bytes]]
    """Keys and values."""
    states: list[bytes]
    """The alert state of each attribute, for the next final of the same kind."""
    blocks: Mapping[Place, bytes] = {}
    """The blocks that the final completes and later ones need."""
    search: NameSearch | None = None
    """The search of a final of unknown strings, for the history of names."""


def decide(findings: WindowFindings, states: Sequence[bytes] = (), block_input: BlockInput = NO_BLOCKS) -> Decision:
    """Return the alerts of a final, and the states, blocks and search for later ones.

    All alerts come from the totals of the groups that are shown. Changes are looked for only between finals and blocks
    of the same groups. `states` are the states after the final before it. There are none before the first final.
    """
    blocks = compare_blocks(findings, block_input)
    new_states: list[bytes] = []
    events: list[Alert] = []
    search = None
    old_states = states or [b""] * len(findings.totals)
    for total, old_state, pairs in zip(findings.totals, old_states, blocks.pairs, strict=True):
        if isinstance(total.findings, NameFindings):
            search, own_events = name_step(findings.query, findings.span, total.findings.names)
            new_states.append(old_state)  # the history of names is their state
        elif isinstance(total.findings, WithheldFindings):
            new_states.append(old_state)
            continue
        else:
            state, own_events = _step(findings, total, load(old_state) if old_state else None, pairs)
            new_states.append(dump(state))
        events += own_events
    return Decision([(event.key, encode(event)) for event in events], new_states, blocks.records, search)


def _step(
    window: WindowFindings, total: GroupTotal, state: State | None, pairs: Sequence[StretchPair]
) -> tuple[State, list[Alert]]:
    """Return the state of one attribute after a final, and its alerts."""
    findings = total.findings
    span = window.span
    if isinstance(findings, NumberFindings):
        number_watch = number_watch_of(window.query, findings.subject, span.window)
        return number_step(number_watch, state, span, findings, pairs, total.groups)
    assert isinstance(findings, Findings)  # noqa: S101 - names and withheld attributes have no step
    final = Final(span.start, span.end, findings.estimate, findings.likely, total.groups)
    return step(watch_of(window.query, findings.subject, span.window), state, final, pairs)


def step(
    watch: Watch, state: State | None, final: Final, comparisons: Sequence[StretchPair] = ()
) -> tuple[State, list[Alert]]:
    """Return the state after `final`, and its alerts. A final that is done already changes nothing."""
    if state is None:
        state = State(final.start)
    elif final.end <= state.end:
        return state, []
    sample = replace(final.estimate, population=EVERYONE)
    if not sample.n_independent:
        return replace(state, end=final.end), []
    now = bounds(sample, watch.threshold, watch.family_error)[0]
    tau = now if now < 1.0 else None
    above = {v: tau if its is None else its for v, its in state.above.items()}
    enter = set(Evidence(sample, Threshold("share", now), watch.error()).decided.tolist()) - above.keys()
    leave = _below(sample, above, watch.error())
    above |= dict.fromkeys(enter, tau)
    reference = newest_before(state.references, final.start, final.groups)
    before = reference.estimate(sample.oracle) if reference else None
    pairs = list(comparisons)
    if before is not None and reference is not None:
        earlier = reference.end - watch.window.size, reference.end
        pairs.insert(0, StretchPair(1, before, final.estimate, earlier, (final.start, final.end)))
    looks = [Look(each, changes(each.before, each.now, watch.look_error(), panel=watch.panel)) for each in pairs]
    longest = longest_silence(watch.window, watch.season)
    silences, hits = after_silence(state.silences, looks, final.end, longest)

    writer = _Writer(watch, final, before, above, tau, baseline=not state.has_values)
    news = [*writer.crossings("enter", enter), *writer.crossings("leave", leave)]
    news += [writer.change(kind, v, look.stretches) for (kind, v), look in in_order(hits)]
    remaining = {v: its for v, its in above.items() if v not in leave}
    references = later_references(watch.window, state.references, final.start, final.end, final.estimate, final.groups)
    return State(final.end, remaining, silences, references, has_values=True), news


def _below(sample: Estimate, above: Mapping[int, float | None], error: float) -> set[int]:
    """Return the positions of `above` that are proved to be below the thresholds at their entry."""
    below: set[int] = set()
    for tau in {tau for tau in above.values() if tau is not None}:
        positions = np.array([v for v, its in sorted(above.items()) if its == tau and sample.shares[v] < tau])
        if len(positions):
            p = sample.test_shares(sample.shares[positions], tau, below=True)
            below.update(positions[p <= error / len(sample.shares)].tolist())
    return below


@dataclass(frozen=True, eq=False)
class _Writer:
    """Writes the alerts of one final."""

    watch: Watch
    final: Final
    before: Estimate | None
    above: Mapping[int, float | None]
    tau: float | None
    baseline: bool

    def crossings(self, kind: AlertKind, values: set[int]) -> list[Alert]:
        """Return an alert for each value that has crossed the threshold."""
        estimate, positions = self.final.estimate, sorted(values)
        if not positions:
            return []
        low, high = estimate.intervals_at(np.array(positions), 0.95)
        before = [None] * len(positions) if self.before is None else self.before.shares[positions].tolist()
        rows = zip(positions, low.tolist(), high.tolist(), before, strict=True)
        return [
            self._alert(kind, v, float(estimate.shares[v]), (least, most), earlier) for v, least, most, earlier in rows
        ]

    def change(self, kind: AlertKind, v: int, comparison: StretchPair) -> Alert:
        """Return the alert of a value that has risen or fallen between two stretches."""
        now = comparison.now
        low, high = now.intervals_at(np.array([v]), 0.95)
        before = float(comparison.before.shares[v])
        interval = float(low[0]), float(high[0])
        return self._alert(kind, v, float(now.shares[v]), interval, before, comparison)

    def _alert(
        self,
        kind: AlertKind,
        v: int,
        share: float,
        interval: tuple[float, float],
        before: float | None,
        comparison: StretchPair | None = None,
    ) -> Alert:
        watch, final = self.watch, self.final
        return Alert.of(
            kind=kind,
            query=watch.query,
            digest=watch.digest.hex(),
            attribute=watch.subject.name,
            value=watch.subject.domain.name(v),
            window=WindowRow.of(Span(watch.window, final.start, final.end)),
            share=share,
            low=rounded(interval[0]),
            high=rounded(interval[1]),
            threshold=rounded(self.above.get(v, self.tau)),
            by=watch.threshold.kind,
            baseline=self.baseline,
            before=before,
            probability=None if final.probability is None else rounded(float(final.probability[v])),
            scale=None if comparison is None else comparison.scale,
            from_=None if comparison is None else StretchRow(*comparison.earlier),
            to=None if comparison is None else StretchRow(*comparison.newest),
        )
