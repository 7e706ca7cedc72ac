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
    _large_tasks: list[EstimateTask] = field(default_factory=list)
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
        self.metrics.merge_queries({name for name, query in active if self._is_merged(query.digest)})

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
        moments = (state.owed_since() for state in self.reader.loaded_states())
        return min((moment for moment in moments if moment is not None), default=None)

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
            # A survivor of a kill needs them at once, and a start takes most of a second.
            self.estimators.start(self.follower.definitions.active.values())
            await self.reader.start()
            while True:
                self._progress()
                self.deletions.flush()
                if self._must_assign:
                    await self._assign()
                if not self.reader.partitions:
                    await asyncio.sleep(POLL_MS / 1000)
                    continue

                new_partitions = await self.reader.take(SHORT_POLL_MS if self._due_since else POLL_MS, self._define)
                self._delete_watermarks(new_partitions)
                await self.round(await self._states(new_partitions))
                self.statuses.report(self.reader.loaded_states())
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

        # Both remember what this worker published. Another one may have published more since.
        self.provisional.clear()
        self.statuses.clear()
        await self.reader.assign(self._assignment, self._definitions.versions)
        self._due_since = {state: moment for state, moment in self._due_since.items() if self.reader.has(state)}

        # Maps of retired queries are still moved, but no estimator needs them.
        merged_versions = [
            versions for digest, versions in self._definitions.versions.items() if self._is_merged(digest)
        ]
        self.old_maps.assign(
            [versions.query.digest for versions in merged_versions if kind_of(versions.query).has_search]
        )
        self.estimators.start(versions.query for versions in merged_versions if not versions.newest.retired)

    def _is_merged(self, digest: bytes) -> bool:
        """Whether this worker merges a query."""
        return keys.home(digest, self.partitions) in self._assignment

    async def _states(self, new_partitions: set[int]) -> list[QueryState]:
        """Return the states of the queries to look at, if their partitions are read to their end.

        Those are the queries of partitions with new records or due finals, and from time to time all.
        """
        states: list[QueryState] = []
        for partition in self._partitions_to_look_at(new_partitions):
            snapshots = self.reader.partitions[partition]
            if snapshots.must_reload:
                self._must_assign = True
            elif snapshots.loaded and await self.reader.has_read_all(partition):
                states += snapshots.queries.values()

        # A partition that must be read again has other states afterwards.
        return [] if self._must_assign else states

    def _partitions_to_look_at(self, new_partitions: set[int]) -> list[int]:
        moment = outside.monotonic()
        if moment >= self._next_look:
            self._next_look = moment + LOOK_AT_ALL
            return list(self.reader.partitions)

        due_partitions = {keys.home(state.versions.query.digest, self.partitions) for state in self._due_since}
        return sorted((new_partitions | due_partitions) & self.reader.partitions.keys())

    async def round(self, states: Sequence[QueryState]) -> None:
        """Publish for one round: due finals first, then provisional records of the queries that owe none."""
        due_states = self._due_states(states, outside.monotonic())
        large_states: list[QueryState] = []
        small_states: list[QueryState] = []
        for state in due_states:
            is_large = self.estimators.is_large(state.versions.query)
            (large_states if is_large else small_states).append(state)

        tasks = self._ask(small_states)

        # A large query may need longer than a round, and its next windows then wait for the answer.
        if all(task.completion.done() for task in self._large_tasks):
            self._large_tasks = self._ask(large_states)
        await self.estimators.finish(tasks, finals_round.SECONDS)

    def _due_states(self, states: Sequence[QueryState], moment: float) -> list[QueryState]:
        """Return the states that have something to publish, and whose former publication has ended."""
        due_states = []
        for state in states:
            if state.has_due_finals:
                self._due_since.setdefault(state, moment)
            # A query has one task at a time, and the finals that it settles must stay as they are.
            if state in self.tasks:
                continue

            state.collect()
            if state in self._due_since or self.provisional.may_be_due(state, moment):
                due_states.append(state)
        return due_states

    def _ask(self, states: Sequence[QueryState]) -> list[EstimateTask]:
        """Start to publish what is due of these queries, and return the tasks of the estimator."""
        tasks = []
        for batch in finals_round.choose(state for state in states if state in self._due_since):
            task = self.publisher.final_task(batch)
            self.tasks.start(batch.state, self._publish(batch.state, task))
            tasks.append(task)

        moment = outside.monotonic()
        is_prompt = moment - min(self._due_since.values(), default=moment) <= PROMPT
        for state in states:
            if state in self._due_since and not state.backlog:
                # No final is left to make, but the state of the query moves on with the closed panes.
                self.tasks.start(state, self._publish(state, None))
            elif is_prompt and not state.has_due_finals:
                tasks += self._provisional_tasks(state, moment)

        # One message to a process carries all its windows.
        self.estimators.ask(*tasks)
        return tasks

    def _provisional_tasks(self, state: QueryState, moment: float) -> list[EstimateTask]:
        """Start to publish the provisional windows of a query, and return the task of the estimator, if any."""
        windows = self.provisional.due(state, moment)
        if not windows:
            return []

        task = self.publisher.provisional_task(state, windows)
        is_current = partial(self.reader.has, state)
        self.tasks.start(state, self.publisher.publish_provisional(task, is_current))
        return [task]

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
