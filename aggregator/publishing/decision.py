"""The alerts of a final, and the state for the next one. Pure."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from aggregator.merging.blocks import Place
from aggregator.merging.name_history import NameSearch
from aggregator.publishing.alerts.comparisons import NO_BLOCKS, BlockInput, StretchPair, compare_blocks
from aggregator.publishing.alerts.name_decision import name_step
from aggregator.publishing.alerts.state import State, dump, load
from aggregator.publishing.alerts.step import Final
from aggregator.publishing.alerts.watch import watch_of
from aggregator.publishing.kinds import numbers, values
from aggregator.records.alert import Alert, encode
from aggregator.records.findings import (
    Findings,
    GroupTotal,
    NameFindings,
    NumberFindings,
    WindowFindings,
    WithheldFindings,
)


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
    watch = watch_of(window.query, findings.subject, span.window)
    if isinstance(findings, NumberFindings):
        return numbers.step(watch, state, span, findings, pairs, total.groups)
    assert isinstance(findings, Findings)  # noqa: S101 - names and withheld attributes have no step
    final = Final(span.start, span.end, findings.estimate, findings.likely, total.groups)
    return values.step(watch, state, final, pairs)
