"""The publishing service. It merges the snapshots of this worker's queries, and publishes records and alerts.

It works in rounds. All finals of a round go to the estimators at once. Each query is a task of its own, which ends when
the broker has acknowledged its records and states, so a partition without a leader delays only its own queries.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from aggregator.merging.kinds import kind_of
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
from aggregator.publishing.old_maps import OldMaps
from aggregator.publishing.provisional import ProvisionalRecords
from aggregator.publishing.query_tasks import QueryTasks
from aggregator.publishing.status_writer import StatusWriter
from aggregator.records.span import shortest_expected_age
from aggregator.tallies import keys
from aggregator.tallies.clock_book import ClockBook
from hubbub import outside
from hubbub.command.exit import Ending
from hubbub.definitions.catalog import Definitions
from hubbub.definitions.follower import Follower
from hubbub.kafka.outbox import Outbox
from hubbub.kafka.settings import Kafka

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
    book: ClockBook
    """The clocks of all partitions."""
    mark_end: Callable[[], Awaitable[int]]
    """Writes an empty clock record, and returns its offset."""
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
    tasks: QueryTasks = field(init=False)
    statuses: StatusWriter = field(init=False)
    old_maps: OldMaps = field(init=False)
    _large: list[EstimateTask] = field(default_factory=list)
    """The newest tasks of large queries. Other queries do not wait for them."""
    _next_look: float = 0.0
    """The time of the next look at all queries."""
    rounds: int = 0
    """A number that rises after each round over all queries."""
    _due_since: dict[QueryState, float] = field(default_factory=dict)
    """The time since when a query has due finals."""

    def __post_init__(self) -> None:
        self.reader = SnapshotReader(
            self.kafka,
            self.partitions,
            self.metrics,
            check_states,
            book=self.book,
            mark_end=self.mark_end,
            on_slice=self._progress,
        )
        self.deletions = Deletions(self.outbox, self.ending.fail)
        self.publisher = FinalPublisher(self.partitions, self.outbox, self.metrics, self.accuracy, self.deletions)
        self.tasks = QueryTasks(self.ending.fail)
        self.statuses = StatusWriter(self.outbox, self.ending.fail)
        self.old_maps = OldMaps(self.kafka, self.follower, self.outbox, self.ending.fail)

    async def _define(self) -> None:
        """Apply the newest definitions, so that a version is known before any snapshot that it concerns."""
        await self.follower.within(LOOK)
        if self._definitions is not self.follower.definitions:
            self._definitions = self.follower.definitions
            for snapshots in self.reader.partitions.values():
                snapshots.define(self._definitions.versions)
            self._count_merged()

    def _count_merged(self) -> None:
        """Have the counters of the active queries that this worker merges."""
        active = self._definitions.active.items()
        self.metrics.merge_queries(
            {name for name, query in active if keys.home(query.digest, self.partitions) in self._assignment}
        )

    def assign(self, partitions: set[int]) -> None:
        """Take over these partitions after a recovery. A round that is under way ends at its next answer."""
        self._assignment = partitions
        self._must_assign = True
        self.estimators.withdraw()

    @property
    def ready(self) -> bool:
        return not self._must_assign and self.reader.loaded

    def oldest_due(self) -> float | None:
        """Return when the oldest final of closed panes was due, in Unix seconds, or None if none is owed."""
        owed = (state.owed_since() for state in self._loaded_states())
        return min((since for since in owed if since is not None), default=None)

    def owed_finals(self) -> int:
        """Return the number of due finals that are not acknowledged."""
        return sum(state.count_owed() for state in self._due_since)

    def _progress(self) -> None:
        if not self.estimators.is_stuck and self.tasks.longest < SETTLED_WITHIN:
            self.rounds += 1

    def newest_finals(self) -> Iterator[NewestFinal]:
        """Yield the newest final of each query that this worker merges."""
        for snapshots in self.reader.partitions.values():
            for state in snapshots.queries.values():
                query = state.versions.query
                if not state.versions.newest.retired:
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
                self._delete_watermarks(new)
                await self.round(await self._states(new))
                self.statuses.report(self._loaded_states())
        except Exception as error:  # noqa: BLE001 - a supervisor restarts the worker
            self.ending.fail(error)
        finally:
            self.tasks.cancel()
            self.statuses.cancel()
            self.old_maps.cancel()
            self.deletions.cancel()
            self.estimators.close()
            await self.reader.stop()

    def _delete_watermarks(self, partitions: set[int]) -> None:
        """Delete the watermarks of older releases that clock records have passed."""
        for partition in partitions & self.reader.partitions.keys():
            self.deletions.add(partition, self.reader.partitions[partition].take_obsolete_watermarks())

    async def _assign(self) -> None:
        """Continue with the partitions of the newest assignment."""
        # Reset before the first wait, so that a rebalance meanwhile brings another assignment.
        self._must_assign = False
        # Gauges of queries that another worker merges now would stay at their last value.
        self.metrics.clear_finals()
        await self._define()
        self._count_merged()
        self.provisional.clear()
        self.statuses.clear()
        await self.reader.assign(self._assignment, self._definitions.versions)
        self._due_since = {state: since for state, since in self._due_since.items() if self._is_current(state)}
        merged = [
            versions
            for digest, versions in self._definitions.versions.items()
            if keys.home(digest, self.partitions) in self._assignment
        ]
        self.old_maps.assign([versions.query.digest for versions in merged if kind_of(versions.query).has_search])
        self.estimators.start(versions.query for versions in merged if not versions.newest.retired)

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
        moment = outside.monotonic()
        if moment >= self._next_look:
            self._next_look = moment + LOOK_AT_ALL
            return list(self.reader.partitions)
        due = {keys.home(state.versions.query.digest, self.partitions) for state in self._due_since}
        return sorted((new | due) & self.reader.partitions.keys())

    def _loaded_states(self) -> Iterator[QueryState]:
        for snapshots in self.reader.partitions.values():
            if snapshots.loaded:
                yield from snapshots.queries.values()

    async def round(self, states: Sequence[QueryState]) -> None:
        """Publish for one round: due finals first, then provisional records of the queries that owe none."""
        moment = outside.monotonic()
        small: list[QueryState] = []
        large: list[QueryState] = []
        for state in states:
            if state.has_due_finals:
                self._due_since.setdefault(state, moment)
            if state in self.tasks:
                continue

            state.collect()
            if state in self._due_since or self.provisional.may_be_due(state, moment):
                is_large = self.estimators.is_large(state.versions.query)
                (large if is_large else small).append(state)

        tasks = self._ask(small)
        if all(task.completion.done() for task in self._large):
            self._large = self._ask(large)
        await self._until_answered(tasks)

    def _ask(self, states: Sequence[QueryState]) -> list[EstimateTask]:
        """Start to publish what is due of these queries, and return the tasks of the estimator."""
        tasks = []
        for batch in finals_round.choose(state for state in states if state in self._due_since):
            task = self.publisher.final_task(batch)
            tasks.append(task)
            self.tasks.start(batch.state, self._publish(batch.state, task))

        moment = outside.monotonic()
        is_prompt = moment - min(self._due_since.values(), default=moment) <= PROMPT
        for state in states:
            if state in self._due_since and not state.backlog:
                # No final is left to make, but the state of the query moves on with the closed panes.
                self.tasks.start(state, self._publish(state, None))
            elif is_prompt and not state.has_due_finals:
                windows = self.provisional.due(state, moment)
                if windows:
                    task = self.publisher.provisional_task(state, windows)
                    tasks.append(task)
                    is_current = partial(self._is_current, state)
                    self.tasks.start(state, self.publisher.publish_provisional(task, is_current))

        # One message to a process carries all its windows.
        self.estimators.ask(*tasks)
        return tasks

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
        _, open_completions = await asyncio.wait(completions, timeout=finals_round.SECONDS)
        if open_completions:
            self.estimators.withdraw(large=False)
            await asyncio.wait(open_completions)

    async def _publish(self, state: QueryState, task: EstimateTask | None) -> None:
        """Publish due finals of a query, and note how far it is published."""
        await self.publisher.publish(state, task)
        for end in state.settle():
            self.metrics.close_to_record.observe(max(0.0, outside.wall() - state.versions.due(end)))
        if state.has_due_finals:
            return

        state.note_published()
        self._due_since.pop(state, None)
        self.publisher.delete(state, state.retired_keys())
