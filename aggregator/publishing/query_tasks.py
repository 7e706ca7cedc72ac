"""The tasks of a worker's queries. A query has one at a time, and waits for no other query."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from aggregator.merging.query_state import QueryState
from hubbub import outside


@dataclass
class QueryTasks:
    """The queries with records on their way."""

    on_error: Callable[[BaseException], None]
    _starts: dict[QueryState, float] = field(default_factory=dict)
    """The time when the task of each query began."""
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    """The open tasks. The event loop keeps no reference to them, so they could vanish half-way."""

    def __contains__(self, state: QueryState) -> bool:
        return state in self._starts

    @property
    def longest(self) -> float:
        """Seconds since the oldest open task began."""
        moment = outside.monotonic()
        return moment - min(self._starts.values(), default=moment)

    def start(self, state: QueryState, work: Coroutine[Any, Any, None]) -> None:
        """Start a task of a query. The next one of the same query starts when this one has ended."""

        def end(task: asyncio.Task[None]) -> None:
            del self._starts[state]
            self._tasks.discard(task)
            # A cancelled task raises instead of returning its exception.
            error = None if task.cancelled() else task.exception()
            if error is not None:
                self.on_error(error)

        self._starts[state] = outside.monotonic()
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(end)

    def cancel(self) -> None:
        """Stop all tasks."""
        for task in self._tasks:
            task.cancel()
