"""The estimator processes of a worker: one for most queries, and one for large queries."""

import asyncio
from collections.abc import Iterable, Sequence

from aggregator.publishing.finals.estimator import EstimateTask, Estimator
from aggregator.publishing.finals.final import is_large
from oracles.query import Query


class EstimatorPool:
    """The estimators of one worker. Their processes start with the worker, for any query that it may take over."""

    def __init__(self) -> None:
        self._most = Estimator("records")
        self._large = Estimator("large records")

    @property
    def is_stuck(self) -> bool:
        """Whether an answer is overdue."""
        return self._most.is_stuck or self._large.is_stuck

    is_large = staticmethod(is_large)

    def start(self, queries: Iterable[Query]) -> None:
        """Start the estimators that these queries need."""
        for estimator in {self._of(query) for query in queries}:
            estimator.start()

    def ask(self, *tasks: EstimateTask) -> None:
        """Send tasks to their processes."""
        for estimator in (self._most, self._large):
            estimator.ask(*(task for task in tasks if self._of(task.query) is estimator))

    async def finish(self, tasks: Sequence[EstimateTask], seconds: float) -> None:
        """Wait for the answers to tasks, but not longer. Only the windows at work are still answered afterwards."""
        if not tasks:
            return

        completions = [task.completion for task in tasks]
        _, open_completions = await asyncio.wait(completions, timeout=seconds)
        if open_completions:
            self.withdraw(large=False)
            await asyncio.wait(open_completions)

    def withdraw(self, *, large: bool = True) -> None:
        """End all open tasks after the window at work, by default also those of large queries."""
        self._most.withdraw()
        if large:
            self._large.withdraw()

    def close(self) -> None:
        """End all processes at once."""
        for estimator in (self._most, self._large):
            estimator.close()

    def _of(self, query: Query) -> Estimator:
        return self._large if self.is_large(query) else self._most
