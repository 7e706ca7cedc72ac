"""The comparisons of a final: the blocks that it completes, each with the blocks before it.

Windows are compared with the window before them, which the state of alerts holds. On a panel, noise does not move from
window to window, so a sum of windows knows no more than one of them. There a block is its last window.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add

import numpy as np

from aggregator.merging import blocks
from aggregator.merging.blocks import Block, BlockSpan, Part, Place
from aggregator.publishing.findings import estimates
from aggregator.records.findings import AnyFindings, NameFindings, WithheldFindings
from aggregator.records.span import Span
from aggregator.tallies.group_cells import GroupNumbers, whole
from aggregator.tallies.snapshot import INCOMPLETE, Snapshot
from oracles.estimate import Estimate, Pure
from oracles.query import Query
from oracles.query.settings import Window
from oracles.tree import estimate_of


@dataclass(frozen=True, eq=False)
class StretchPair:
    """Two stretches of time whose shares are compared."""

    scale: int
    before: Estimate
    now: Estimate
    earlier: tuple[int, int]
    """Start and end of the stretch before."""
    newest: tuple[int, int]


def own_parts(
    query: Query, span: Span, total: Snapshot, findings: Sequence[AnyFindings], groups: Sequence[GroupNumbers]
) -> list[Part | None]:
    """Return the part of a block for each attribute of a window.

    `total` has the reports of all groups, and `groups` those that the findings of each attribute are about.
    """
    complete = not total.flags & INCOMPLETE
    withheld = [isinstance(each, WithheldFindings) for each in findings]
    panel = blocks.is_panel(query)
    others: Sequence[Estimate | None] = [None] * len(findings)
    if any(withheld) and not panel:
        others = estimates(query, span, whole(total, query.oracle.state_size))
    parts: list[Part | None] = []
    for each, other, numbers, is_summed in zip(findings, others, groups, blocks.has_blocks(query), strict=True):
        estimate = other if isinstance(each, WithheldFindings | NameFindings) else each.estimate
        if not is_summed or estimate is None:
            parts.append(None)
            continue
        counts = estimate.counts.astype(np.min_scalar_type(estimate.n))  # no value has more than n
        is_visible = not isinstance(each, WithheldFindings)
        part = Part(estimate.n, estimate.n_independent, counts, is_visible=is_visible, is_complete=complete)
        parts.append(replace(part, groups=numbers))
    return parts


def comparisons(
    query: Query, window: Window, spans: Sequence[BlockSpan], new: Mapping[Place, Block], store: Mapping[Place, Block]
) -> list[list[StretchPair]]:
    """Return the comparisons of each attribute, those of the shortest blocks first."""
    every = {**store, **new}
    result: list[list[StretchPair]] = [[] for _ in query.domains]
    oracles = query.attribute_oracles
    for span in spans:
        if span.scale == 1 or span.place not in new:
            continue
        places = blocks.before(query, window, span.place, every)
        for attribute, part in enumerate(new[span.place].parts):
            earlier = [(place, every[place].parts[attribute]) for place in places]
            if part is None or not part.counts_for_changes:
                continue
            usable = [
                (place, each)
                for place, each in earlier
                if each is not None and each.counts_for_changes and each.groups == part.groups
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
    total = reduce(add, (each for _, each in earlier))
    return StretchPair(
        span.scale,
        _estimate(oracle, total.counts, total.n, total.n_independent),
        _estimate(oracle, part.counts, part.n, part.n_independent),
        (earlier[0][0][1] - length, earlier[-1][0][1]),
        (span.end - length, span.end),
    )


def _estimate(oracle: Pure, counts: blocks.Counts, n: int, independent: int) -> Estimate:
    return estimate_of(oracle, counts.astype(np.int64), n, independent)
