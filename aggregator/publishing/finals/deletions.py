"""Deletions of snapshots and states that nobody needs any more. Those of one partition go together."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

from hubbub.kafka.outbox import Outbox, log_failures
from hubbub.kafka.settings import SNAPSHOTS


@dataclass
class Deletions:
    """The deletions that wait for the next `flush`. A worker that loads the partition later repeats lost ones."""

    outbox: Outbox
    on_error: Callable[[BaseException], None]
    _names: dict[int, list[bytes]] = field(default_factory=dict)
    """The keys to delete, by partition."""
    _tasks: dict[int, asyncio.Task[None]] = field(default_factory=dict)
    """The write that is under way, by partition."""

    def add(self, partition: int, names: Iterable[bytes]) -> None:
        """Delete these keys with the next flush."""
        new_names = list(names)
        if new_names:
            self._names.setdefault(partition, []).extend(new_names)

    def flush(self) -> None:
        """Start to write the deletions of each partition. One without a leader delays no other."""
        # While a partition has no leader, its writes would pile up. One at a time waits, and the next takes all names.
        for partition in self._names.keys() - self._tasks.keys():
            task = asyncio.create_task(self._write(partition, self._names.pop(partition)))
            self._tasks[partition] = task
            task.add_done_callback(partial(self._end, partition))

    async def _write(self, partition: int, names: list[bytes]) -> None:
        log_failures(await self.outbox.write(SNAPSHOTS, partition, [(name, None) for name in names]))

    def _end(self, partition: int, task: asyncio.Task[None]) -> None:
        del self._tasks[partition]
        # A cancelled task raises instead of returning its exception.
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self.on_error(error)

    def cancel(self) -> None:
        """Stop all writes."""
        for task in self._tasks.values():
            task.cancel()
