"""The publishing service. It merges the snapshots of this worker's queries, and publishes records and alerts."""

import asyncio
import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from aggregator.merging.query_state import QueryState
from aggregator.merging.small_groups import visible_windows
from aggregator.merging.snapshot_partition import SnapshotPartition
from aggregator.merging.snapshot_reader import SnapshotReader
from aggregator.merging.windows import ClosedWindow, Position, Span, shortest_expected_age
from aggregator.process.metrics import Metrics
from aggregator.publishing.accuracy import Accuracy
from aggregator.publishing.alerts.state import check_states
from aggregator.publishing.finals.estimator_pool import EstimatorPool
from aggregator.publishing.finals.final import FinalMetrics
from aggregator.publishing.freshness import NewestFinal
from aggregator.publishing.records.encoder import provisional_keys
from aggregator.tallies import keys
from aggregator.tallies.snapshot import Snapshot
from hubbub.command.exit import Ending
from hubbub.definitions.catalog import Definitions
from hubbub.definitions.follower import Follower
from hubbub.kafka.outbox import Outbox, Oversized, log_failures
from hubbub.kafka.settings import ALERTS, ESTIMATES, SNAPSHOTS, Kafka
from oracles.query import Query
from oracles.query.settings import Window

log = logging.getLogger(__name__)

LOOK = 1.0
"""Seconds after which the service reads the definitions again. Each version first applies after a longer time."""
BATCH = 64
"""Finals of a query after which their states are written."""
TURN = 0.5
"""Seconds of publishing for one query. Then other queries have their turn, and the service reads new records."""
POLL_MS = 100
"""Milliseconds of waiting for new records."""
SHORT_POLL_MS = 10
"""Milliseconds of waiting for new records while finals are due."""


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
    estimators: EstimatorPool = field(default_factory=EstimatorPool)
    _tasks: dict[bytes, asyncio.Task[None]] = field(default_factory=dict)
    """The running tasks of large queries, by digest."""
    _last_provisional: dict[tuple[bytes, Window], tuple[Span, int]] = field(default_factory=dict)
    """The newest provisional record of each kind of window, and its n."""
    _next_provisional: dict[bytes, float] = field(default_factory=dict)
    """The time of each query's next provisional records."""
    _waiting: dict[bytes, list[tuple[Span, Snapshot]]] = field(default_factory=dict)
    """The windows whose provisional records are due now."""
    rounds: int = 0
    """A number that rises after each round over all queries, and after each write."""
    _last_round: float = field(default_factory=time.monotonic)
    """The time when `rounds` last rose."""
    _due_since: dict[bytes, float] = field(default_factory=dict)
    """The time since when a query has due finals."""

    def __post_init__(self) -> None:
        self.reader = SnapshotReader(self.kafka, self.partitions, self.metrics, check_states, self._progress)

    async def _define(self) -> None:
        """Apply the newest definitions, so that a version is known before any snapshot that it concerns."""
        await self.follower.within(LOOK)
        if self._definitions is not self.follower.definitions:
            self._definitions = self.follower.definitions
            self._waiting = {d: windows for d, windows in self._waiting.items() if d in self._definitions.versions}
            for snapshots in self.reader.partitions.values():
                snapshots.define(self._definitions.versions)

    def assign(self, partitions: set[int]) -> None:
        """Take over these partitions after a recovery."""
        self._assignment, self._must_assign = partitions, True

    @property
    def ready(self) -> bool:
        return not self._must_assign and self.reader.loaded

    @property
    def lag(self) -> float:
        """Seconds since the oldest unpublished final is due."""
        return time.monotonic() - min([self._last_round, *self._due_since.values()])

    def _progress(self) -> None:
        if not self.estimators.is_stuck:
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
        reader = self.reader
        try:
            await reader.start()
            while True:
                self._progress()
                if self._must_assign:
                    await self._assign()
                if not reader.partitions:
                    await asyncio.sleep(POLL_MS / 1000)
                    continue
                await reader.take(SHORT_POLL_MS if self._due_since else POLL_MS, self._define)
                for partition, snapshots in reader.partitions.items():
                    self._must_assign |= snapshots.must_reload
                    at_end = await reader.has_read_all(partition)
                    for state in snapshots.queries.values() if snapshots.loaded and not self._must_assign else ():
                        if at_end:
                            state.collect()
                        if self.estimators.is_large(state.versions.query):
                            self._publish_large(snapshots, state, at_end=at_end)
                        else:
                            await self._publish(snapshots, state, at_end=at_end)
        except Exception as error:  # noqa: BLE001 - a supervisor restarts the worker
            self.ending.fail(error)
        finally:
            for task in self._tasks.values():
                task.cancel()
            self.estimators.close()
            await reader.stop()

    async def _assign(self) -> None:
        """Continue with the partitions of the newest assignment."""
        await asyncio.gather(*self._tasks.values())
        self._tasks.clear()
        self._must_assign = False
        self.metrics.clear_finals()
        await self._define()
        self._last_provisional.clear()
        self._next_provisional.clear()
        self._waiting.clear()
        self._due_since.clear()
        await self.reader.assign(self._assignment, self._definitions.versions)
        self.estimators.start(
            versions.query
            for digest, versions in self._definitions.versions.items()
            if keys.home(digest, self.partitions) in self._assignment and not versions.newest.retired
        )

    def _publish_large(self, snapshots: SnapshotPartition, state: QueryState, *, at_end: bool) -> None:
        """Publish a large query in a task of its own, so that no other query waits for it."""
        digest = state.versions.query.digest
        task = self._tasks.get(digest)
        if task is None or task.done():
            if task is not None:
                task.result()
            self._tasks[digest] = asyncio.create_task(self._publish(snapshots, state, at_end=at_end))

    async def _publish(self, snapshots: SnapshotPartition, state: QueryState, *, at_end: bool) -> None:
        """Publish the due finals of a query if the log is read to its end. Then publish provisional records."""
        query = state.versions.query
        if state.has_due_finals:
            self._due_since.setdefault(query.digest, time.monotonic())
        if at_end:
            count = await self._publish_finals(state)
            if self._must_assign or state.has_due_finals:
                return
            if count and (watermark_ms := snapshots.watermark_ms.get(query.digest)):
                self.metrics.close_to_record.observe(max(0.0, time.time() - watermark_ms / 1000))
            state.published_through = state.merger.closed_through
            self._due_since.pop(query.digest, None)
            await self._delete(state, state.retired_keys())
        if not state.has_due_finals:
            await self._publish_provisional(state)

    async def _publish_finals(self, state: QueryState) -> int:
        """Publish due finals of a query for one turn, and return their number."""
        batch: dict[Window, Position] = {}
        acks: list[Any] = await self._write(state, state.totals())
        count, until = 0, time.monotonic() + TURN
        for final in state.due_finals():
            acks += await self._publish_final(state, final)
            batch[final.span.window] = final.position
            count += 1
            if count % BATCH == 0:
                await self._write_states(state, batch, acks)
                batch, acks = {}, []
            if self._must_assign or time.monotonic() > until:
                break
        if acks or batch:
            await self._write_states(state, batch, acks)
        return count

    async def _publish_provisional(self, state: QueryState) -> None:
        """Publish the record of one due provisional window. Others wait, so that finals do not wait for them."""
        query = state.versions.query
        if query.emit_every is not None and time.monotonic() >= self._next_provisional.get(query.digest, 0.0):
            self._next_provisional[query.digest] = time.monotonic() + query.emit_every
            self._waiting[query.digest] = list(state.merger.provisional())
        if not (windows := self._waiting.get(query.digest)):
            return
        span, total = windows.pop()
        query = state.query_for(span)
        window = state.guard.next(query, span, total, state.visible.get(span.window, []))
        if window is not None and self._last_provisional.get((query.digest, span.window)) != (span, window[1].n):
            span, total = window
            self._last_provisional[query.digest, span.window] = span, total.n
            answer = await self.estimators.provisional(query, span, total)
            await self._send_records(query, span, answer.records, final=False)
            self.metrics.records.labels(query.name, "false").inc()

    async def _publish_final(self, state: QueryState, final: ClosedWindow) -> list[Any]:
        """Publish one final and its alerts, and return the acknowledgements to wait for."""
        query, window = state.query_for(final.span), final.span.window
        visible, last_visible = visible_windows(query, final, state.visible.get(window, []))
        measures = self.accuracy.measures(query, final.span)
        before = state.alerts.get(window, [])
        answer = await self.estimators.final(query, final.span, final.total, visible, before, with_findings=measures)
        self._progress()
        state.alerts[window], state.visible[window] = answer.states, last_visible
        observe(self.metrics, query, answer.metrics, answer.alerts)
        if measures:
            self.accuracy.enqueue(query, final.span, answer.findings)
        self.metrics.records.labels(query.name, "true").inc()
        acks = await self._send_records(query, final.span, answer.records, final=True)
        return [*acks, *[await self.outbox.send(ALERTS, *alert) for alert in answer.alerts]]

    async def _send_records(
        self, query: Query, span: Span, records: Sequence[tuple[bytes, bytes]], *, final: bool
    ) -> list[Any]:
        """Send a window's records. Log and skip a record that is too large for the broker."""
        home = keys.home(query.digest, await self.outbox.partitions(ESTIMATES))
        timestamp = 1000 * span.end if final else None
        acks = []
        for name, value in records:
            try:
                acks.append(await self.outbox.send(ESTIMATES, name, value, partition=home, timestamp_ms=timestamp))
            except Oversized as error:
                log.warning("record of query %s not published: too large (%s). Lower `publish`", query.name, error)
                self.metrics.too_large.labels(query.name).inc()
        # Deleted after the final, in the same partition: a reader of the final needs no provisional record.
        obsolete = provisional_keys(query, span) if final else []
        return acks + [await self.outbox.send(ESTIMATES, name, None, partition=home) for name in obsolete]

    async def _write_states(self, state: QueryState, batch: dict[Window, Position], acks: list[Any]) -> None:
        """Wait for finals and alerts, then write the states after them, then delete the keys that they replace."""
        await asyncio.gather(*acks)
        self._progress()
        home = keys.home(state.versions.query.digest, self.partitions)
        futures = {window: await self._send_state(state, window, position, home) for window, position in batch.items()}
        await asyncio.gather(*filter(None, futures.values()))
        for window in filter(futures.get, batch):
            await self._delete(state, state.acknowledge(window, batch[window]))
        await self._delete(state, state.replaced_keys())

    async def _delete(self, state: QueryState, names: Iterable[bytes]) -> None:
        log_failures(await self._write(state, [(name, None) for name in names]))

    async def _write(self, state: QueryState, writes: Sequence[keys.Write]) -> list[Any]:
        """Append records to the query's snapshot partition."""
        if not writes:
            return []
        return await self.outbox.write(SNAPSHOTS, keys.home(state.versions.query.digest, self.partitions), writes)

    async def _send_state(self, state: QueryState, window: Window, position: Position, home: int) -> Any:
        """Send a state. Return None if it is too large. Then a restart repeats the finals since the last one."""
        try:
            return await self.outbox.send(SNAPSHOTS, *state.state_record(window, position), partition=home)
        except Oversized as error:
            state.too_large.add(window)
            name = state.versions.query.name
            log.warning(
                "state of query %s is too large to store (%s). After a restart its last finals are published again",
                name,
                error,
            )
            self.metrics.states_too_large.labels(name).inc()
            return None


def observe(
    metrics: Metrics, query: Query, attributes: Iterable[FinalMetrics], alerts: Iterable[tuple[bytes, bytes]]
) -> None:
    """Set the metrics of a final and of its alerts."""
    flags: set[str] = set()
    for attribute in attributes:
        flags.update(attribute.flags)
        if attribute.withheld:
            continue
        labels = query.name, attribute.name or ""
        metrics.sigma.labels(*labels).set(attribute.sigma)
        metrics.detectable.labels(*labels).set(attribute.detectable if attribute.detectable is not None else 1.0)
        if attribute.threshold is not None:
            metrics.threshold.labels(*labels).set(attribute.threshold)
    for flag in flags:
        metrics.flags.labels(query.name, flag).inc()
    for _, value in alerts:
        alert = orjson.loads(value)
        baseline = "true" if alert.get("baseline") else "false"
        metrics.alerts.labels(query.name, alert["kind"], baseline).inc()
