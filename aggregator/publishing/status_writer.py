"""The writer of a worker's status records. It writes only what has changed."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from aggregator.merging.query_state import QueryState
from aggregator.publishing.status_log import StatusLog
from aggregator.records import status as query_status
from aggregator.records.status import QueryStatus
from aggregator.tallies import keys
from hubbub import outside
from hubbub.kafka.outbox import Outbox, OutboxRecord, log_failures
from hubbub.kafka.settings import STATUS
from oracles.query import Query


@dataclass
class StatusWriter:
    """Writes the statuses of the queries of one worker."""

    outbox: Outbox
    on_error: Callable[[BaseException], None]
    _log: StatusLog = field(default_factory=StatusLog)
    _task: asyncio.Task[None] | None = None
    """The write that is under way, or the last one."""
    _next_time: float = 0.0
    """The time of the next records."""

    def clear(self) -> None:
        """Forget what was written, because other workers may merge these queries now."""
        self._log.clear()

    def report(self, states: Iterable[QueryState]) -> None:
        """Start to write the statuses that have changed, unless the last ones are still on their way."""
        moment = outside.monotonic()
        if moment < self._next_time or (self._task is not None and not self._task.done()):
            return

        self._next_time = moment + query_status.EVERY
        changes = self._log.changes(states)
        if changes:
            self._task = asyncio.create_task(self._write(changes))
            self._task.add_done_callback(self._end)

    async def _write(self, changes: Sequence[tuple[Query, QueryStatus | None]]) -> None:
        partitions = await self.outbox.partitions(STATUS)
        by_partition: dict[int, list[OutboxRecord]] = {}
        for query, status in changes:
            value = None if status is None else query_status.encode(status)
            partition = keys.home(query.digest, partitions)
            by_partition.setdefault(partition, []).append(OutboxRecord(query_status.key(query), value))

        for partition, records in by_partition.items():
            log_failures(await self.outbox.append(STATUS, partition, records))

    def _end(self, task: asyncio.Task[None]) -> None:
        # A cancelled task raises instead of returning its exception.
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self.on_error(error)

    def cancel(self) -> None:
        """Stop the write."""
        if self._task is not None:
            self._task.cancel()
