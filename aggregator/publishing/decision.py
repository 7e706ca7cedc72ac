"""The alerts of a final, and the states for later ones. Pure."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from aggregator.merging.blocks import Place
from aggregator.merging.name_history import NameSearch
from aggregator.publishing.alerts.comparisons import NO_BLOCKS, BlockInput, compare_blocks
from aggregator.publishing.arm_alerts import with_arms
from aggregator.publishing.withheld_attribute import changes as changes_of
from aggregator.records.alert import Alert, encode
from aggregator.records.findings import WindowFindings


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


def decide(window: WindowFindings, states: Sequence[bytes] = (), block_input: BlockInput = NO_BLOCKS) -> Decision:
    """Return the alerts of a final, and the states, blocks and search for later ones.

    All alerts come from the totals of the groups that are shown. Changes are looked for only between finals and blocks
    of the same groups. Pairs of groups in `compare` have alerts of their own. `states` are the states after the final
    before it. There are none before the first final.
    """
    blocks = compare_blocks(window, block_input)
    old_states = states or [b""] * len(window.totals)
    new_states: list[bytes] = []
    alerts: list[Alert] = []
    search = None
    rows = zip(window.totals, old_states, blocks.pairs, strict=True)
    for attribute, (total, old_state, pairs) in enumerate(rows):
        changes = changes_of(window, total, old_state, pairs)
        changes = with_arms(window, attribute, changes)
        new_states.append(changes.state)
        alerts += changes.alerts
        search = search or changes.search

    return Decision([(alert.key, encode(alert)) for alert in alerts], new_states, blocks.records, search)
