"""When a report counts: by the version that speaks for its pane, and the time that its record has in the log."""

from hubbub.definitions.versions import Untimely, Version, Versions
from oracles.query import Query

UNKNOWN, STALE = "unknown_query", "stale_digest"
LATE, FUTURE, EXPIRED = "late", "future", "expired"

Refusal = tuple[str, str]
"""The workers' word for it, and the sentence that a developer needs to see what is wrong."""


def untimely(versions: Versions | None, pane: int, at: int) -> Refusal | None:
    """Why a report of this pane does not count at a time of the log, in milliseconds; None where it does."""
    if versions is None:
        return UNKNOWN, "no query has this digest any more; GET /v1/queries has all"
    version = versions.at(pane)
    if refusal := unspoken(version, pane):
        return refusal
    reason = versions.untimely(pane, at)
    return reason and (reason, _sentence(reason, version.query, pane, versions.closes_after(pane)))


def unspoken(version: Version, pane: int) -> Refusal | None:
    """Why a definition does not count this pane whatever the time is."""
    first, query, retired = version
    if retired:
        return STALE, f"the definition {query.digest.hex()} of query {query.name!r} is retired; GET /v1/queries has all"
    if pane < first:
        return UNKNOWN, f"the definition {query.digest.hex()} of query {query.name!r} counts panes from {first} on"
    return None


def _sentence(reason: Untimely, query: Query, pane: int, closes: int) -> str:
    named = f"the pane that starts at {pane}, of query {query.name!r},"
    if reason == EXPIRED:
        return f"{named} is outside of what is counted: from {query.starts} until {query.until} (null: no limit)"
    if reason == LATE:
        return f"{named} was closed at {closes // 1000}, its end and {query.lateness} s of lateness"
    return f"{named} begins more than the query's skew of {query.skew} s ahead: check the device's clock"
