"""The provisional records of a worker: which are due, and which bring nothing new."""

from dataclasses import dataclass, field

from aggregator.merging.query_state import QueryState
from aggregator.merging.windows import OpenWindow
from aggregator.records.span import Span
from hubbub.definitions.versions import Versions


@dataclass
class ProvisionalRecords:
    """The schedule of provisional records."""

    _last: dict[bytes, set[tuple[Span, int]]] = field(default_factory=dict)
    """The windows and marks of each query's newest provisional records."""
    _looks: dict[bytes, tuple[int | None, Versions]] = field(default_factory=dict)
    """The end of the newest pane in the windows of each query, and its versions, at the last look."""
    _next: dict[bytes, float] = field(default_factory=dict)
    """The time of each query's next provisional records."""

    def clear(self) -> None:
        """Forget what was published, because other workers may merge these queries now."""
        self._last.clear()
        self._looks.clear()
        self._next.clear()

    def may_be_due(self, state: QueryState, now: float) -> bool:
        """Whether the time for the next provisional records of a query has come."""
        query = state.versions.query
        return query.emit_every is not None and now >= self._next.get(query.digest, 0.0)

    def due(self, state: QueryState, now: float) -> list[OpenWindow]:
        """Return the windows of a query whose provisional records are due now, each with its panes up to a mark."""
        query = state.versions.query
        if query.emit_every is None or not self.may_be_due(state, now):
            return []

        self._next[query.digest] = now + query.emit_every
        look = state.merger.collected_through, state.versions
        if self._looks.get(query.digest) == look:
            return []  # no pane has closed since

        # A window with the same panes has the same record as last time.
        self._looks[query.digest] = look
        windows = {(window.span, window.through): window for window in state.merger.provisional()}
        published = self._last.get(query.digest, set())
        self._last[query.digest] = set(windows)
        return [window for place, window in windows.items() if place not in published]
