"""The alerts of unknown strings: a name that a search has proved for the first time. Pure."""

from aggregator.merging.name_history import NameSearch, surplus
from aggregator.publishing.alerts.watch import KINDS
from aggregator.records.alert import Alert
from aggregator.records.digits import rounded
from aggregator.records.findings import NameResult
from aggregator.records.rows import WindowRow
from aggregator.records.span import Span
from oracles.query import Query


def name_step(query: Query, span: Span, result: NameResult) -> tuple[NameSearch | None, list[Alert]]:
    """Return the search of a final for the history of names, and its alerts. Without a search there are none."""
    if not result.is_searched:
        return None, []
    error = enter_error(query)
    names = [
        name
        for name in result.names
        if name.error <= error and not (name.text in result.before and result.before[name.text].is_announced)
    ]
    news = [
        Alert.of(
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
            baseline=result.is_first,
            before=None,
            probability=None,
            scale=None,
            from_=None,
            to=None,
        )
        for name in names
    ]
    texts = tuple(sorted(name.text for name in result.names))
    departures = surplus(result.before, texts, query.known)
    return NameSearch(*span, texts, tuple(sorted(name.text for name in names)), departures), news


def enter_error(query: Query) -> float:
    """Return the probability of a false alert in one search. All searches share the budget of a day."""
    searches_a_day = query.searches_a_day
    return min(query.family_error, query.alerts_a_day / (KINDS * searches_a_day)) if searches_a_day else 0.0
