"""The comparisons of a final: the blocks that it completes, each with the blocks before it.

Windows are compared with the window before them, which the state of alerts holds. On a panel, noise does not move from
window to window, so a sum of windows knows no more than one of them. There a block is its last window.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import NamedTuple, cast

import numpy as np

from aggregator.merging import block_records, blocks
from aggregator.merging.blocks import Block, BlockSpan, Part, Place
from aggregator.merging.kinds import has_blocks
from aggregator.publishing.estimates import estimates
from aggregator.records.findings import Findings, NumberFindings, WindowFindings
from aggregator.records.subject import IMPOSSIBLE
from aggregator.tallies.group_cells import whole
from aggregator.tallies.snapshot import INCOMPLETE
from oracles.estimate import Estimate, Pure
from oracles.numbers.tree import estimate_of
from oracles.query import Query
from oracles.query.settings import Window


@dataclass(frozen=True, eq=False)
class StretchPair:
    """Two stretches of time whose shares are compared."""

    scale: int
    before: Estimate
    now: Estimate
    earlier: tuple[int, int]
    """Start and end of the stretch before."""
    newest: tuple[int, int]


class BlockInput(NamedTuple):
    """The blocks that a final completes, and the stored ones that it needs."""

    spans: Sequence[BlockSpan] = ()
    store: Mapping[Place, bytes] = {}


NO_BLOCKS = BlockInput()


class BlockResult(NamedTuple):
    """The blocks to store after a final, and its comparisons for each attribute."""

    records: Mapping[Place, bytes]
    pairs: Sequence[Sequence[StretchPair]]


def compare_blocks(findings: WindowFindings, block_input: BlockInput) -> BlockResult:
    """Return the blocks that a final completes, and their comparisons with the blocks before them."""
    query = findings.query
    spans = block_input.spans
    if not spans or not any(has_blocks(query)):
        return BlockResult({}, [()] * len(findings.totals))

    store = {place: block_records.decode(value, query) for place, value in block_input.store.items()}
    new = blocks.extended(query, spans, _own_parts(findings), findings.span.end, store)
    pairs = comparisons(query, findings.span.window, spans, new, store)

    records = {}
    for span in spans:
        if span.place in new and blocks.is_stored(query, span, findings.span.window):
            records[span.place] = block_records.encode(new[span.place])
    return BlockResult(records, pairs)


def _own_parts(window: WindowFindings) -> list[Part | None]:
    """Return the part of a block for each attribute of a window."""
    query = window.query
    is_complete = not window.total.flags & INCOMPLETE
    is_withheld = [not findings.has_values for findings in window.of_totals]

    # A withheld window shows nothing, but the block that it lies in may be shown, so its reports must count.
    # On a panel a block is its last window alone.
    own_estimates: Sequence[Estimate | None] = [None] * len(window.totals)
    if any(is_withheld) and not blocks.is_panel(query):
        own_estimates = estimates(query, window.span, whole(window.total, query.oracle.state_size))

    parts: list[Part | None] = []
    for total, own_estimate, is_summed in zip(window.totals, own_estimates, has_blocks(query), strict=True):
        if not is_summed:
            parts.append(None)
            continue

        findings = total.findings
        # Blocks hold no names, so what is summed has an estimate.
        estimate = cast(Findings | NumberFindings, findings).estimate if findings.has_values else own_estimate
        if estimate is None:
            parts.append(None)
            continue
        part = Part(
            n=estimate.n,
            n_independent=estimate.n_independent,
            counts=estimate.counts.astype(np.min_scalar_type(estimate.n)),  # no value has more than n
            is_visible=findings.has_values,
            # A longer block with impossible reports proves nothing either, as one that lacks reports.
            is_complete=is_complete and IMPOSSIBLE not in findings.flags,
            groups=total.groups,
        )
        parts.append(part)
    return parts


def comparisons(
    query: Query, window: Window, spans: Sequence[BlockSpan], new: Mapping[Place, Block], store: Mapping[Place, Block]
) -> list[list[StretchPair]]:
    """Return the comparisons of each attribute, those of the shortest blocks first."""
    all_blocks = {**store, **new}
    result: list[list[StretchPair]] = [[] for _ in query.domains]
    oracles = query.attribute_oracles
    for span in spans:
        # A block of one window is the window itself, which the state of alerts compares.
        if span.scale == 1 or span.place not in new:
            continue

        places = blocks.before(query, window, span.place, all_blocks)
        for attribute, part in enumerate(new[span.place].parts):
            earlier = [(place, all_blocks[place].parts[attribute]) for place in places]
            if part is None or not part.counts_for_changes:
                continue
            usable = [
                (place, earlier_part)
                for place, earlier_part in earlier
                if earlier_part is not None and earlier_part.counts_for_changes and earlier_part.groups == part.groups
            ]
            if not usable:
                continue
            result[attribute].append(_comparison(query, window, oracles[attribute], span, part, usable))
    return result


def _comparison(
    query: Query,
    window: Window,
    oracle: Pure,
    span: BlockSpan,
    part: Part,
    earlier: Sequence[tuple[Place, Part]],
) -> StretchPair:
    length = window.size * (1 if blocks.is_panel(query) else span.scale)
    total = reduce(add, (earlier_part for _, earlier_part in earlier))
    return StretchPair(
        span.scale,
        _estimate(oracle, total.counts, total.n, total.n_independent),
        _estimate(oracle, part.counts, part.n, part.n_independent),
        (earlier[0][0][1] - length, earlier[-1][0][1]),
        (span.end - length, span.end),
    )


def _estimate(oracle: Pure, counts: blocks.Counts, n: int, independent: int) -> Estimate:
    return estimate_of(oracle, counts.astype(np.int64), n, independent)
