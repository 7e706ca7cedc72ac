"""The publishing service. It merges the snapshots of this worker's queries, and publishes records and alerts.

It works in rounds. All finals of a round go to the estimators at once. Each query is a task of its own, which ends when
the broker has acknowledged its records and states. So a partition without a leader delays only its own queries.
"""

import asyncio
import logging
import time
from collections.abc import Coroutine, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from aggregator.merging.query_state import QueryState
from aggregator.merging.snapshot_reader import SnapshotReader
from aggregator.process.freshness import NewestFinal
from aggregator.process.metrics import Metrics
from aggregator.publishing.accuracy import Accuracy
from aggregator.publishing.alerts.state import check_states
from aggregator.publishing.finals import round as finals_round
from aggregator.publishing.finals.deletions import Deletions
from aggregator.publishing.finals.estimator import EstimateTask
from aggregator.publishing.finals.estimator_pool import EstimatorPool
from aggregator.publishing.finals.publisher import FinalPublisher
from aggregator.publishing.provisional import ProvisionalRecords
from aggregator.publishing.status_log import StatusLog
from aggregator.records import status as query_status
from aggregator.records.span import shortest_expected_age
from aggregator.tallies import keys
from hubbub.command.exit import Ending
from hubbub.definitions.catalog import Definitions
from hubbub.definitions.follower import Follower
from hubbub.kafka.outbox import Outbox, OutboxRecord, log_failures
from hubbub.kafka.settings import STATUS, Kafka
from oracles.query import Query

log = logging.getLogger(__name__)

LOOK = 1.0
"""Seconds after which the service reads the definitions again. Each version first applies after a longer time."""
POLL_MS = 100
"""Milliseconds of waiting for new records."""
LOOK_AT_ALL = 0.25
"""Seconds between two looks at all queries. In between only those with new records or due finals are looked at."""
SHORT_POLL_MS = 20
"""Milliseconds of waiting for new records while finals are due."""
PROMPT = 1.0
"""Seconds by which the oldest due final may be late while provisional records are published."""
SETTLED_WITHIN = 300.0
"""Seconds after which the service counts as stuck if a query still waits for its acknowledgements."""


@dataclass
class PublishingService:
    """The service of one worker. It merges the snapshot partitions whose numbers are those of its source partitions."""

    kafka: Kafka
    partitions: int
    follower: Follower
    outbox: Outbox
    metrics: Metrics
    ending: Ending
    accuracy: Accuracy
    _definitions: Definitions = field(default_factory=Definitions)
    """The definitions of the snapshot partitions."""
    _assignment: set[int] = field(default_factory=set)
    _must_assign: bool = False
    """Whether the partitions must be assigned again."""
    reader: SnapshotReader = field(init=False)
    publisher: FinalPublisher = field(init=False)
    deletions: Deletions = field(init=False)
    estimators: EstimatorPool = field(default_factory=EstimatorPool)
    provisional: ProvisionalRecords = field(default_factory=ProvisionalRecords)
    _busy: dict[QueryState, float] = field(default_factory=dict)
    """The queries with records on their way, and since when."""
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _large: list[EstimateTask] = field(default_factory=list)
    """The newest tasks of large queries. Other queries do not wait for them."""
    _status_log: StatusLog = field(default_factory=StatusLog)
    _status_task: asyncio.Task[None] | None = None
    _next_status: float = 0.0
    """The time of the next status records."""
    _next_look: float = 0.0
    """The time of the next look at all queries."""
    rounds: int = 0
    """A number that rises after each round over all queries."""
    _last_round: float = field(default_factory=time.monotonic)
    """The time when `rounds` last rose."""
    _due_since: dict[QueryState, float] = field(default_factory=dict)
    """The time since when a query has due finals."""

    def __post_init__(self) -> None:
        self.reader = SnapshotReader(self.kafka, self.partitions, self.metrics, check_states, self._progress)
        self.deletions = Deletions(self.outbox, self.ending.fail)
        self.publisher = FinalPublisher(self.partitions, self.outbox, self.metrics, self.accuracy, self.deletions)

    async def _define(self) -> None:
        """Apply the newest definitions, so that a version is known before any snapshot that it concerns."""
        await self.follower.within(LOOK)
        if self._definitions is not self.follower.definitions:
            self._definitions = self.follower.definitions
            for snapshots in self.reader.partitions.values():
                snapshots.define(self._definitions.versions)

    def assign(self, partitions: set[int]) -> None:
        """Take over these partitions after a recovery. A round that is under way ends at its next answer."""
        self._assignment, self._must_assign = partitions, True
        self.estimators.withdraw()

    @property
    def ready(self) -> bool:
        return not self._must_assign and self.reader.loaded

    @property
    def lag(self) -> float:
        """Seconds since the oldest unpublished final is due."""
        return time.monotonic() - min([self._last_round, *self._due_since.values()])

    def owed_finals(self) -> int:
        """Return the number of due finals that are not acknowledged."""
        return sum(state.count_owed() for state in self._due_since)

    def _progress(self) -> None:
        waits = time.monotonic() - min(self._busy.values(), default=time.monotonic())
        if not self.estimators.is_stuck and waits < SETTLED_WITHIN:
            self.rounds += 1
            self._last_round = time.monotonic()

    def newest_finals(self) -> Iterator[NewestFinal]:
        """Yield the newest final of each query that this worker merges."""
        for snapshots in self.reader.partitions.values():
            for state in snapshots.queries.values():
                if not state.versions.newest.retired:
                    query = state.versions.query
                    yield NewestFinal(query.name, state.end, shortest_expected_age(query))

    async def run(self) -> None:
        """Merge and publish until this task is cancelled."""
        try:
            await self.reader.start()
            while True:
                self._progress()
                self.deletions.flush()
                if self._must_assign:
                    await self._assign()
                if not self.reader.partitions:
                    await asyncio.sleep(POLL_MS / 1000)
                    continue
                new = await self.reader.take(SHORT_POLL_MS if self._due_since else POLL_MS, self._define)
                await self.round(await self._states(new))
                self._report_status()
        except Exception as error:  # noqa: BLE001 - a supervisor restarts the worker
            self.ending.fail(error)
        finally:
            for task in self._tasks:
                task.cancel()
            self.deletions.cancel()
            self.estimators.close()
            await self.reader.stop()

    async def _assign(self) -> None:
        """Continue with the partitions of the newest assignment."""
        self._must_assign = False
        self.metrics.clear_finals()
        await self._define()
        self.provisional.clear()
        self._status_log.clear()
        await self.reader.assign(self._assignment, self._definitions.versions)
        self._due_since = {state: since for state, since in self._due_since.items() if self._is_current(state)}
        self.estimators.start(
            versions.query
            for digest, versions in self._definitions.versions.items()
            if keys.home(digest, self.partitions) in self._assignment and not versions.newest.retired
        )

    async def _states(self, new: set[int]) -> list[QueryState]:
        """Return the states of the queries to look at, if their partitions are read to their end.

        Those are the queries of partitions with new records or due finals, and from time to time all.
        """
        states: list[QueryState] = []
        for partition in self._partitions_to_look_at(new):
            snapshots = self.reader.partitions[partition]
            if snapshots.must_reload:
                self._must_assign = True
            elif snapshots.loaded and await self.reader.has_read_all(partition):
                states += snapshots.queries.values()
        return [] if self._must_assign else states

    def _partitions_to_look_at(self, new: set[int]) -> list[int]:
        now = time.monotonic()
        if now >= self._next_look:
            self._next_look = now + LOOK_AT_ALL
            return list(self.reader.partitions)
        due = {keys.home(state.versions.query.digest, self.partitions) for state in self._due_since}
        return sorted((new | due) & self.reader.partitions.keys())

    async def round(self, states: Sequence[QueryState]) -> None:
        """Publish for one round: due finals first, then provisional records of the queries that owe none."""
        now, active = time.monotonic(), []
        for state in states:
            if state.has_due_finals:
                self._due_since.setdefault(state, now)
            if state in self._busy:
                continue
            state.collect()
            if state in self._due_since or self.provisional.may_be_due(state, now):
                active.append(state)
        is_large = self.estimators.is_large
        small, large = ([state for state in active if is_large(state.versions.query) == each] for each in (False, True))
        tasks = self._ask(small)
        if all(task.completion.done() for task in self._large):
            self._large = self._ask(large)
        await self._until_answered(tasks)

    def _ask(self, states: Sequence[QueryState]) -> list[EstimateTask]:
        """Start to publish what is due of these queries, and return the tasks of the estimator."""
        tasks = []
        for batch in finals_round.choose(state for state in states if state in self._due_since):
            tasks.append(task := self.publisher.final_task(batch))
            self._start(batch.state, self._publish(batch.state, task))
        is_prompt = time.monotonic() - min(self._due_since.values(), default=time.monotonic()) <= PROMPT
        for state in states:
            if state in self._due_since and not state.backlog:  # only its state moves on
                self._start(state, self._publish(state, None))
            elif is_prompt and not state.has_due_finals and (windows := self.provisional.due(state, time.monotonic())):
                tasks.append(task := self.publisher.provisional_task(state, windows))
                self._start(state, self.publisher.publish_provisional(task, partial(self._is_current, state)))
        self.estimators.ask(*tasks)
        return tasks

    def _report_status(self) -> None:
        """Start to write the statuses that have changed, unless the last ones are still on their way."""
        now = time.monotonic()
        if now < self._next_status or (self._status_task is not None and not self._status_task.done()):
            return
        self._next_status = now + query_status.EVERY
        partitions = (snapshots for snapshots in self.reader.partitions.values() if snapshots.loaded)
        changes = self._status_log.changes(state for snapshots in partitions for state in snapshots.queries.values())
        if changes:
            self._status_task = asyncio.create_task(self._write_status(changes))
            self._tasks.add(self._status_task)
            self._status_task.add_done_callback(self._end_status)

    async def _write_status(self, changes: Sequence[tuple[Query, query_status.QueryStatus | None]]) -> None:
        partitions = await self.outbox.partitions(STATUS)
        by_partition: dict[int, list[OutboxRecord]] = {}
        for query, status in changes:
            record = OutboxRecord(query_status.key(query), None if status is None else query_status.encode(status))
            by_partition.setdefault(keys.home(query.digest, partitions), []).append(record)
        for partition, records in by_partition.items():
            log_failures(await self.outbox.append(STATUS, partition, records))

    def _end_status(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.ending.fail(error)

    def _is_current(self, state: QueryState) -> bool:
        """Whether this worker still merges a query from this state."""
        digest = state.versions.query.digest
        snapshots = self.reader.partitions.get(keys.home(digest, self.partitions))
        return snapshots is not None and snapshots.queries.get(digest) is state

    async def _until_answered(self, tasks: Sequence[EstimateTask]) -> None:
        """Wait for the answers, but not longer than a round. A rebalance ends the round at the next answer."""
        if not tasks:
            return
        completions = [task.completion for task in tasks]
        _, late = await asyncio.wait(completions, timeout=finals_round.SECONDS)
        if late:
            self.estimators.withdraw(large=False)
            await asyncio.wait(late)

    def _start(self, state: QueryState, work: Coroutine[Any, Any, None]) -> None:
        """Start a task of a query. The next one of the same query starts when this one has ended."""

        def end(task: asyncio.Task[None]) -> None:
            del self._busy[state]
            self._tasks.discard(task)
            if not task.cancelled() and (error := task.exception()) is not None:
                self.ending.fail(error)

        self._busy[state] = time.monotonic()
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(end)

    async def _publish(self, state: QueryState, task: EstimateTask | None) -> None:
        """Publish due finals of a query, and note how far it is published."""
        await self.publisher.publish(state, task)
        acknowledgement = state.settle()
        if state.has_due_finals:
            return
        if acknowledgement and state.watermark_ms is not None:
            self.metrics.close_to_record.observe(max(0.0, time.time() - state.watermark_ms / 1000))
        state.note_published()
        self._due_since.pop(state, None)
        self.publisher.delete(state, state.retired_keys())
