"""The reasons why a report does not count, from its definition, its pane and the log time of its record."""

from hubbub.definitions.versions import Untimely, Version, Versions
from oracles.query import Query

UNKNOWN = "unknown_query"
STALE = "stale_digest"
STOP = "stopped"
LATE = "late"
FUTURE = "future"
EXPIRED = "expired"

Refusal = tuple[str, str]
"""The reason, in the word that the workers use, and a sentence for the developer of the client."""


def untimely(versions: Versions | None, pane: int, time_ms: int) -> Refusal | None:
    """Return why a report of this pane does not count at a log time in milliseconds, or None if it counts."""
    if versions is None:
        return UNKNOWN, "No query has this digest any more. Read GET /v1/queries again."
    version = versions.at(pane)
    # A definition that does not apply comes first, since its lateness and skew mean nothing for the pane.
    refusal = inapplicable(version, pane)
    if refusal is not None:
        return refusal
    reason = versions.untimely(pane, time_ms)
    return reason and (reason, _sentence(reason, version.query, pane, versions.closes_after(pane)))


def inapplicable(version: Version, pane: int) -> Refusal | None:
    """Return why a definition does not count this pane at any time, or None if it does."""
    if version.is_stopped and not version.retired:
        return stop_refusal(version.query)
    if version.retired:
        return STALE, f"{_definition(version)} is retired. Read GET /v1/queries again."
    if pane < version.first:
        detail = f"counts panes from {version.first} on, not the pane {pane}. Drop these reports."
        return UNKNOWN, f"{_definition(version)} {detail}"
    return None


def stop_refusal(query: Query) -> Refusal:
    """Return the refusal of each report of a stopped query."""
    return STOP, f"Query {query.name!r} is stopped. Drop these reports, and read GET /v1/state before each answer."


def _definition(version: Version) -> str:
    return f"Definition {version.query.digest.hex()} of query {version.query.name!r}"


def _sentence(reason: Untimely, query: Query, pane: int, closes: int) -> str:
    name = f"The pane {pane} of query {query.name!r}"
    if reason == EXPIRED:
        return f"{name} is outside the counted time, from {query.starts} until {query.until} (null: no limit)."
    if reason == LATE:
        return f"{name} closed at {closes // 1000}, {query.lateness} s of lateness after its end. Drop these reports."
    return f"{name} starts more than the allowed skew of {query.skew} s ahead. Check the device's clock."
