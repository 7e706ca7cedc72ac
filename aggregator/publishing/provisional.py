"""The provisional records of a worker: which are due, and which bring nothing new."""

from dataclasses import dataclass, field

from aggregator.merging.query_state import QueryState
from aggregator.merging.windows import Span
from aggregator.tallies.snapshot import Snapshot
from oracles.query.settings import Window


@dataclass
class ProvisionalRecords:
    """The schedule of provisional records."""

    _last: dict[tuple[bytes, Window], tuple[Span, int]] = field(default_factory=dict)
    """The newest provisional record of each kind of window, and its n."""
    _next: dict[bytes, float] = field(default_factory=dict)
    """The time of each query's next provisional records."""

    def clear(self) -> None:
        """Forget what was published, because other workers may merge these queries now."""
        self._last.clear()
        self._next.clear()

    def due(self, state: QueryState, now: float) -> list[tuple[Span, Snapshot]]:
        """Return the windows of a query whose provisional records are due now, with their totals so far."""
        query = state.versions.query
        if query.emit_every is None or now < self._next.get(query.digest, 0.0):
            return []
        self._next[query.digest] = now + query.emit_every
        return [window for span, total in state.merger.provisional() if (window := self._new(state, span, total))]

    def _new(self, state: QueryState, span: Span, total: Snapshot) -> tuple[Span, Snapshot] | None:
        """Return the window to show, or None if it is the last one again."""
        query = state.query_for(span)
        window = state.guard.next(query, span, total, state.visible.get(span.window, []))
        if window is None or self._last.get((query.digest, span.window)) == (span, window[1].n):
            return None
        self._last[query.digest, span.window] = span, window[1].n
        return window
