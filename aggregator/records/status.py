"""The status of a query: its record in the topic `status`, and the state that page, tail and API show. Pure."""

from dataclasses import dataclass
from typing import Annotated, Literal

import orjson

from aggregator.records.span import PUBLISH_SECONDS, QUIET_PANES, shortest_expected_age
from hubbub.http.schema import LATE, Digest, Name, Time, read
from oracles.errors import ReportError
from oracles.query import Query

State = Literal["retired", "waiting", "late", "quiet", "withheld", "live"]

Lack = Literal["worker", "reports", "people"]
"""What is missing for the next result of a query."""

EVERY = 10
"""Least seconds between two records of a query."""
_PaneEnd = Annotated[int | None, {"minimum": 0, "maximum": LATE}]
_LONGEST = 1 << 10
"""Most bytes of a record."""


@dataclass(frozen=True, kw_only=True, slots=True)
class QueryStatus:
    """What the worker that merges a query knows about its reports. Times are ends of panes, in Unix seconds."""

    query: Name
    digest: Digest
    closed_through: Time
    """The newest pane that is closed on all partitions, and is in its windows."""
    newest_report: _PaneEnd
    """The newest closed pane with reports."""
    reports_since: _PaneEnd = None
    """The first pane with reports after a pause, or null if the worker has seen no pause."""


def key(query: Query) -> bytes:
    """Return the key of the status of a query."""
    # The digest is in it, because a query that restarts has another one, and the old status is deleted on its own.
    return f"{query.name}|{query.digest.hex()}".encode()


def encode(status: QueryStatus) -> bytes:
    return orjson.dumps(status)


def decode(value: bytes) -> QueryStatus:
    """Return the status in these bytes. Raise a ReportError or ValueError if they hold none."""
    if len(value) > _LONGEST:
        raise ReportError(f"the status has {len(value)} bytes, but may have at most {_LONGEST}")
    # A status of an older worker lacks `reports_since`.
    fields = orjson.loads(value)
    return read(QueryStatus, {"reports_since": None, **fields} if isinstance(fields, dict) else fields)


def state_of(
    query: Query, status: QueryStatus | None, latest: int | None, now: float, *, retired: bool, withheld: bool
) -> State:
    """Return the state of a query at a time. The first state that fits holds.

    `latest` is the end of its newest final of any kind, and `withheld` says whether the newest final of its first
    kind shows no values.
    """
    if retired:
        return "retired"
    if latest is None or (query.starts is not None and query.starts > now):
        return "waiting"
    if _is_late(query, status, latest, now):
        return "late"
    if _is_quiet(query, status, latest, now):
        return "quiet"
    return "withheld" if withheld else "live"


def lack_of(query: Query, status: QueryStatus | None, state: State, now: float) -> Lack | None:
    """Return what is missing for the next result of a query in this state, or None if it only needs time."""
    if state == "withheld":
        return "people"
    if state not in ("waiting", "late", "quiet") or (query.starts is not None and query.starts > now):
        return None
    if status is None or _is_stale(query, status, now):
        return None if _is_over(query, now) else "worker"
    is_quiet = status.newest_report is None or state == "quiet"
    return "reports" if is_quiet else None


def lack_text(query: Query, status: QueryStatus | None, lack: Lack | None) -> str:
    """Return the words for what is missing. Empty if nothing is."""
    if lack == "people":
        return f"too few people: windows with fewer than {query.crowd:,} reports are withheld"
    if lack == "worker":
        # In the first pane of a query nobody can know more.
        return "no worker has closed a pane yet" if status is None else "no worker counts it now"
    if lack is None:
        return ""
    # A status knows closed panes only. Reports may be in an open one.
    is_first = status is None or status.newest_report is None
    return "no closed pane has reports yet" if is_first else "no reports have come"


def _is_late(query: Query, status: QueryStatus | None, latest: int, now: float) -> bool:
    """Whether the next final should be there.

    This is so if a report is in no final yet, if the worker closes no panes any more, or if nothing is known of it.
    A final that follows a pause of the reports has the time that any first final has.
    """
    # A query that is over has no next final.
    expected = shortest_expected_age(query)
    if now - latest <= expected or _is_over(query, now):
        return False

    if status is None or _is_stale(query, status, now):
        return True

    since = latest if status.reports_since is None else max(latest, status.reports_since - query.pane)
    return status.newest_report is not None and status.newest_report > latest and now - since > expected


def _is_stale(query: Query, status: QueryStatus, now: float) -> bool:
    """Whether the worker closes no panes any more."""
    # It writes a status when panes close, at most one in `EVERY` seconds.
    return now - status.closed_through > query.pane + query.lateness + PUBLISH_SECONDS + EVERY


def _is_quiet(query: Query, status: QueryStatus | None, latest: int, now: float) -> bool:
    if status is None:
        return _is_over(query, now) and now - latest > shortest_expected_age(query)

    if status.newest_report is None:
        return latest <= status.closed_through  # else the status is older than the first final
    return status.newest_report <= status.closed_through - QUIET_PANES * query.pane


def _is_over(query: Query, now: float) -> bool:
    """Whether `until` of the query is so long ago that its last final must be there."""
    return query.until is not None and query.until + shortest_expected_age(query) < now
