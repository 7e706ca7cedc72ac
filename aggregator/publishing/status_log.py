"""The status of each query that a worker merges, and which of them have changed. Pure."""

from collections.abc import Iterable

from aggregator.merging.query_state import QueryState
from aggregator.records.status import QueryStatus
from oracles.query import Query


def status_of(state: QueryState) -> QueryStatus | None:
    """Return the present status of a query, or None before a pane is closed on all partitions.

    A worker that cannot publish a query moves none of its panes into windows. So its status stands still too.
    """
    merger = state.merger
    query = state.versions.query
    if merger.collected_through is None:
        return None
    return QueryStatus(
        query=query.name,
        digest=query.digest.hex(),
        closed_through=merger.collected_through,
        newest_report=merger.newest_report,
        reports_since=merger.reports_since,
    )


class StatusLog:
    """The newest status that this worker has written for each query. None stands for a deletion."""

    def __init__(self) -> None:
        self._written: dict[bytes, QueryStatus | None] = {}

    def clear(self) -> None:
        """Forget what was written, because other workers may merge these queries now."""
        self._written.clear()

    def changes(self, states: Iterable[QueryState]) -> list[tuple[Query, QueryStatus | None]]:
        """Return each query whose status has changed since the last call, with its status.

        The status of a retired query stays until its last final is published, and is then deleted: None.
        """
        changes: list[tuple[Query, QueryStatus | None]] = []
        for state in states:
            query = state.versions.query
            status = None if state.versions.newest.retired else status_of(state)
            if status is None and not state.is_over:
                continue
            # None is a status too, a deletion, so `get` could not tell it from one that was never written.
            if query.digest not in self._written or self._written[query.digest] != status:
                changes.append((query, status))
            self._written[query.digest] = status
        return changes
