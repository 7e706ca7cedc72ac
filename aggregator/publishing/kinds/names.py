"""Names: unknown strings that a search has found, or that earlier searches have found.

They depend only on the query, on the tally of the window, and on the names that searches before it have found. An alert
tells of a name that is kept for the first time.
"""

from collections.abc import Sequence
from typing import cast

import numpy as np

from aggregator.merging.name_history import NameHistory, NameSearch, surplus
from aggregator.publishing.alerts.comparisons import StretchPair
from aggregator.publishing.alerts.watch import KINDS
from aggregator.publishing.final_metrics import FinalMetrics
from aggregator.publishing.flags import SKEWED, in_record_order
from aggregator.publishing.kinds.attribute import AttributeChanges, CountedAttribute
from aggregator.records.alert import Alert
from aggregator.records.digits import rounded
from aggregator.records.findings import GroupTotal, NameFindings, NameResult, WindowFindings
from aggregator.records.rows import WindowRow
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
    n = total.n
    independent = span.independent(n, query)
    counts = total.counts.astype(np.int64, copy=False)
    sightings, proofs = history.before(span)
    is_searched = query.is_searched(span.window)
    dictionary = {*sightings, *query.known} if is_searched else set(sightings)
    if is_searched:
        result = search(slots, counts, n, independent, dictionary=dictionary, family_error=query.family_error)
        names = [*result.names]
        ambiguous = [*result.ambiguous]
        maps = result.maps
    else:
        maps = Maps.of(slots, counts, n, independent)
        names, ambiguous = maps.ask_each(dictionary)

    def is_crowd(name: Name) -> bool:
        # However sure a name is, one of fewer clients could single them out.
        return round(name.share * n) >= query.crowd

    unclear = (text for text in ambiguous if text in dictionary)
    return NameResult(
        maps=maps,
        levels=tuple(slots.answering(counts, n)),
        names=tuple(sorted(filter(is_crowd, names), key=lambda name: (-name.share, name.text))),
        ambiguous=tuple(
            sorted(text for text in unclear if is_crowd(maps.estimate(text, maps.cells(text), range(MAPS))))
        ),
        before=sightings,
        proofs=proofs,
        start=span.start,
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


def changes(window: WindowFindings, total: GroupTotal, state: bytes, pairs: Sequence[StretchPair]) -> AttributeChanges:
    """Return the alerts of names, and the search for the history. The history is their state, and nothing else."""
    del pairs
    findings = cast(NameFindings, total.findings)
    result = findings.names
    if not result.is_searched:
        return AttributeChanges([], state)

    query = window.query
    error = enter_error(query)
    history_names = {name.text for name in result.names if _is_kept(query, window.span, result, name)}
    news = [
        name
        for name in result.names
        if name.text in history_names and name.error <= error and not _is_announced(result, name)
    ]
    history_texts = tuple(sorted(history_names))
    # A search since the start has the reports of all before it, so it adds no proof of its own.
    is_proof = window.span.window.kind != "all"
    name_search = NameSearch(
        *window.span,
        names=history_texts,
        news=tuple(sorted(name.text for name in news)),
        departures=surplus(result.before, history_texts, query.known),
        proofs=tuple(sorted(name.text for name in result.names if name.text not in history_names)) if is_proof else (),
    )
    return AttributeChanges([_alert(query, window.span, result, name) for name in news], state, name_search)


def _is_kept(query: Query, span: Span, result: NameResult, name: Name) -> bool:
    """Whether a listed name is kept after the search. A name of one search alone is false too often."""
    if name.text in result.before or name.text in query.known:
        return True
    if span.window.kind == "all":
        return name.watched_error <= query.family_error

    # Two searches prove the same false name with this error at most. One that is as sure needs no second one.
    if name.error * name.candidates <= query.family_error**2:
        return True
    proof = result.proofs.get(name.text)
    return proof is not None and proof.is_confirmed(span.start)


def _is_announced(result: NameResult, name: Name) -> bool:
    sighting = result.before.get(name.text)
    return sighting is not None and sighting.is_announced


def _alert(query: Query, span: Span, result: NameResult, name: Name) -> Alert:
    return Alert.of(
        kind="enter",
        query=query.name,
        digest=query.digest.hex(),
        attribute=None,
        value=name.text,
        window=WindowRow.of(span),
        share=rounded(name.share),
        low=rounded(name.low),
        high=rounded(name.high),
        threshold=None,
        by=query.threshold.kind,
        baseline=result.is_first or (name.text in result.proofs and result.proofs[name.text].is_first),
        before=None,
        probability=None,
        scale=None,
        from_=None,
        to=None,
    )


def enter_error(query: Query) -> float:
    """Return the probability of a false alert in one search. All searches share the budget of a day."""
    searches_a_day = query.searches_a_day
    return min(query.family_error, query.alerts_a_day / (KINDS * searches_a_day)) if searches_a_day else 0.0
