"""The names of a window of unknown strings: found by a search, or known from earlier searches.

They depend only on the query, on the tally of the window, and on the names that searches before it have found.
"""

from typing import cast

import numpy as np

from aggregator.merging.name_history import NameHistory
from aggregator.publishing.final_metrics import FinalMetrics
from aggregator.publishing.flags import SKEWED, in_record_order
from aggregator.publishing.kinds.attribute import CountedAttribute
from aggregator.records.findings import NameFindings, NameResult
from aggregator.records.span import Span
from aggregator.tallies.snapshot import Snapshot
from oracles.discover import Maps, Name, Slots, search
from oracles.discover.cell_hash import MAPS
from oracles.discover.reach import smallest_share
from oracles.discover.slot_forgery import skewed
from oracles.query import Query


def find(attribute: CountedAttribute) -> NameFindings:
    """Return the names of a window."""
    slots = cast(Slots, attribute.query.oracle)
    names = name_result(attribute.query, slots, attribute.span, attribute.total, attribute.history)
    return NameFindings(
        subject=attribute.subject,
        oracle=slots.cell_oracle,
        n=attribute.total.n,
        n_independent=attribute.span.independent(attribute.total.n, attribute.query),
        names=names,
        flags=in_record_order(attribute.flags | {SKEWED} if names.skewed else attribute.flags),
    )


def name_result(query: Query, slots: Slots, span: Span, total: Snapshot, history: NameHistory) -> NameResult:
    """Return the names of a window with this total."""
    n, independent = total.n, span.independent(total.n, query)
    counts = total.counts.astype(np.int64, copy=False)
    before = history.before(span)
    is_searched = query.is_searched(span.window)
    dictionary = {*before, *query.known} if is_searched else set(before)
    if is_searched:
        result = search(slots, counts, n, independent, dictionary=dictionary, family_error=query.family_error)
        names, ambiguous, maps = [*result.names], [*result.ambiguous], result.maps
    else:
        maps = Maps.of(slots, counts, n, independent)
        names, ambiguous = maps.ask_each(dictionary)

    def is_crowd(name: Name) -> bool:
        return round(name.share * n) >= query.crowd

    unclear = (text for text in ambiguous if text in dictionary)
    return NameResult(
        maps=maps,
        levels=tuple(slots.answering(counts, n)),
        names=tuple(sorted(filter(is_crowd, names), key=lambda name: (-name.share, name.text))),
        ambiguous=tuple(
            sorted(text for text in unclear if is_crowd(maps.estimate(text, maps.cells(text), range(MAPS))))
        ),
        before=before,
        end=span.end,
        smallest=smallest_share(slots.strings, slots.cell_oracle, independent),
        is_searched=is_searched,
        is_first=history.is_first(span),
        skewed=skewed(slots, counts, n, independent),
    )


def metrics(query: Query, findings: NameFindings) -> FinalMetrics:
    """Return the metrics of a window of names: its flags alone."""
    del query
    return FinalMetrics(findings.subject.name, findings.flags)
