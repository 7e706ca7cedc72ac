"""The counting app: it reads the partitions of `reports` that this worker owns, through the group, into tallies."""

import asyncio
import functools
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from aggregator.counting.admission.gate import Gate, misplaced_reason
from aggregator.counting.changelog import ChangelogUnreadable, sort_records
from aggregator.counting.group import Group, RunEvent
from aggregator.counting.partition import SourcePartition
from aggregator.counting.recovery import ChangelogRecords, Recovery, retry
from aggregator.errors import Guarantee
from aggregator.process.metrics import Metrics
from aggregator.tallies.keys import Write
from aggregator.tallies.progress import TopicIds
from aggregator.topics.command import check_settings
from aggregator.topics.identity import check_ends, check_ids, identify
from aggregator.topics.layout import TIMESTAMP
from aggregator.topics.sizes import Sizes
from aggregator.topics.upgrade_gate import UpgradeGate
from hubbub import outside
from hubbub.command.exit import Ending
from hubbub.definitions.catalog import Definitions
from hubbub.definitions.follower import Follower
from hubbub.kafka.offsets import OffsetGap, OffsetLookup
from hubbub.kafka.outbox import Ack, Outbox
from hubbub.kafka.settings import CHANGELOG, REPORTS, Kafka

log = logging.getLogger(__name__)

SEEK_AGAIN = 1.0
"""Seconds between two seeks on a partition."""
MAX_REJECTS = 5_000
"""The number of unwritten rejects from which on counting waits."""


@dataclass
class CountingApp:
    """The source partitions that this worker owns, from each recovery to the next rebalance."""

    kafka: Kafka
    group: Group
    partitions: int
    follower: Follower
    gate: UpgradeGate
    max_frame: int
    sizes: Sizes
    """The bytes of the largest records that the topics must accept."""
    broker: OffsetLookup
    outbox: Outbox
    metrics: Metrics
    ending: Ending
    on_assignment: Callable[[set[int]], None]
    """A function that is called with the owned partitions after each recovery."""
    on_close: Callable[[], None]
    """A function that is called when a pane has closed."""
    sources: dict[int, SourcePartition] = field(default_factory=dict)
    events: dict[int, RunEvent] = field(default_factory=dict)
    """The newest unacknowledged event of each partition."""
    arrivals: dict[int, float] = field(default_factory=dict)
    """The monotonic time of the newest records of each partition."""
    generation: int = -1
    """The generation of the consumer group in which the sources were recovered."""
    topic_ids: TopicIds = field(default_factory=TopicIds)
    stopping: bool = False
    _gaps: dict[int, OffsetGap] = field(default_factory=dict)
    _seek_times: dict[int, float] = field(default_factory=dict)
    _seeking: Any = None

    def __post_init__(self) -> None:
        self.topic = self.kafka.topic(REPORTS)
        self._recovery = Recovery(self.kafka)
        self._assigned_at = outside.monotonic()
        self.follower.on_change.append(self._define)
        self.group.join(self)

    @property
    def current(self) -> bool:
        """Whether the sources belong to the present generation of the group, so that they may be written."""
        return self.generation == self.group.generation and not self.group.rebalancing

    async def write(self, source: SourcePartition, writes: Sequence[Write]) -> list[Ack]:
        """Append to the changelog in order, and return the acknowledgements.

        If a rebalance revokes the partition during a wait, leave out the remaining writes.
        """
        partition = source.partition
        return await self.outbox.write(
            CHANGELOG,
            partition,
            writes,
            is_current=lambda: self.sources.get(partition) is source,
            on_written=functools.partial(self.group.note_written, partition),
        )

    def highwater(self, partition: int) -> int | None:
        """Return the end of a partition at the last fetch, or None if it is unknown."""
        return self.group.highwater(partition)

    def positions(self) -> dict[int, int]:
        """Return the acknowledged next offset of each owned partition."""
        return {partition: source.acknowledged.next_offset for partition, source in self.sources.items()}

    def behind(self) -> set[int]:
        """Return the owned partitions that hold unread records."""
        ends = {partition: self.highwater(partition) or 0 for partition in self.sources}
        return {partition for partition, source in self.sources.items() if ends[partition] > source.next_offset}

    def count_steps(self) -> int:
        """Return a number that grows while a rebalance or a recovery makes progress."""
        return self.group.generation + self._recovery.records_read + self.gate.looks

    def note_assignment(self) -> None:
        """Note when the group has assigned partitions, to measure the recovery."""
        self._assigned_at = outside.monotonic()

    def _define(self, catalog: Definitions) -> None:
        """Count by these definitions from now on. New versions apply to later panes only."""
        for source in self.sources.values():
            source.gate = replace(source.gate, definitions=catalog.versions, over=catalog.forgotten)

    async def recover(self) -> None:
        """Recover the assigned partitions. A fault ends the worker."""
        try:
            await self.gate.wait_for_older_workers(functools.partial(self._is_present, self.group.generation))
            await self.follower.reread()
            await check_settings(self.kafka, self.max_frame, self.sizes)
            await self._recover()
        except Exception as error:  # noqa: BLE001 - Faust would hide it (tables/recovery.py)
            self.ending.fail(error)

    async def _recover(self) -> None:
        """Read the changelog, in place of Faust, which finds nothing to recover (faust_patches.py).

        After another rebalance Faust starts a new recovery, and does not stop this one.
        """
        generation = self.group.generation

        is_current = functools.partial(self._is_present, generation)

        # The changelog can hold counts of topics that were deleted, so their ids are looked up first.
        topic_ids = await retry(lambda: identify(self.kafka, self.broker, self.partitions), is_current)
        partitions = self.group.assigned_partitions()
        old_sources = {
            p: source for p, source in self.sources.items() if p in partitions and self._can_keep(source, generation)
        }
        records = await self._recovery.read(partitions - old_sources.keys(), is_current)
        if topic_ids is None or records is None or not is_current():
            return

        self._rebuild(partitions, old_sources, records, topic_ids)
        # The ends of Tansu are those of the last batch's first record, so the check would fail there for no reason.
        if self.kafka.dialect.ends_are_exact:
            await retry(lambda: check_ends(self.broker, self.topic, self.resume_offsets), is_current)

    def _is_present(self, generation: int) -> bool:
        return generation == self.group.generation and not self.stopping

    def _can_keep(self, source: SourcePartition, generation: int) -> bool:
        """Whether no other worker can have counted the partition since, and no plan of it is open."""
        return self.generation == generation - 1 and source.at_rest and self.kafka.dialect.trusts_generations

    def _rebuild(
        self,
        partitions: set[int],
        old_sources: Mapping[int, SourcePartition],
        records: ChangelogRecords,
        topic_ids: TopicIds,
    ) -> None:
        for state in (self.events, self._gaps, self._seek_times):
            state.clear()
        definitions = self.follower.definitions
        versions = definitions.versions
        try:
            recoveries = sort_records(records.items(), versions)
        except ChangelogUnreadable as error:
            raise ChangelogUnreadable(error.key, error.fault, self._recovery.place(error.key)) from None

        # A new name each time, because a frozen worker deletes the records of all writers that it knows.
        writer = outside.random_hex(8)

        self.sources = dict(old_sources)
        self.arrivals = {partition: self.arrivals[partition] for partition in old_sources}
        for partition in sorted(partitions - old_sources.keys()):
            gate = Gate(
                partition,
                self.partitions,
                versions,
                log_has_time=self.kafka.dialect.log_has_time,
                limit=self.max_frame,
                place_reason=misplaced_reason(definitions.formats.version),
            )
            self.sources[partition] = SourcePartition(gate, writer, recoveries.get(partition))
            self.arrivals[partition] = 0.0

        for source in self.sources.values():
            check_ids(topic_ids, source.topic_ids, self.kafka)
            source.topic_ids = topic_ids

        self.topic_ids = topic_ids
        self.generation = self.group.generation
        self.metrics.recovery.observe(outside.monotonic() - self._assigned_at)
        offsets = {partition: source.next_offset for partition, source in self.sources.items()}
        log.info("recovered", extra={"generation": self.generation, "offsets": offsets, "kept": sorted(old_sources)})
        self.on_assignment(partitions)

    def closes_before(self, time_s: float) -> dict[int, int]:
        """Return the log times in ms after which a pane closes, by partition, of those before a time."""
        closes = ((partition, source.next_close) for partition, source in self.sources.items())
        return {partition: close for partition, close in closes if close is not None and close < 1000 * time_s}

    def resume_offsets(self) -> Mapping[int, int]:
        """Return the offset to read from, by partition."""
        return {partition: source.next_offset for partition, source in self.sources.items()}

    async def count(self, events: AsyncIterator[RunEvent]) -> None:
        """Count the runs that arrive, until the worker ends."""
        async for event in events:
            run = event.value
            partition = event.message.partition
            try:
                source = self.sources.get(partition)
                if source is not None and not self.stopping:
                    # A run behind a gap may be a stale fetch after a rebalance. Its records would be skipped for good.
                    if run.first > source.next_offset and not await self._is_next(source, run.first):
                        continue

                    await self.follower.cover(self._newest_time(run), self._newest_fetch_time())
                    # A rebalance may have revoked the partition during the wait.
                    if self.sources.get(partition) is source and not self.stopping:
                        self._take(source, run, event)
                    # A flood of refused records waits until the earlier ones are written.

                    while (
                        len(source.rejects) > MAX_REJECTS
                        and self.sources.get(partition) is source
                        and not self.stopping
                    ):
                        self.on_close()
                        await asyncio.sleep(0.01)
            except Exception as error:  # noqa: BLE001 - a fault must end the worker, not only the agent
                self.ending.fail(error)
            finally:
                run.records = ()  # frees the bytes, because the event stays in memory until it is acknowledged

    def _newest_fetch_time(self) -> int:
        return self.group.newest_time() if self.kafka.dialect.log_has_time else 0

    def _newest_time(self, run: Any) -> int:
        """Return the log time of the newest record in ms. Without log times it is the present."""
        if not self.kafka.dialect.log_has_time:
            return outside.wall_ms()
        return int(run.newest)

    def _take(self, source: SourcePartition, run: Any, event: RunEvent) -> None:
        """Count a run. The method is synchronous, so that nothing else changes the state meanwhile."""
        partition = source.partition
        offset = source.first_without_time(run.records)
        if offset is not None:
            raise Guarantee(
                f"{self.topic}, partition {partition}, offset {offset}: the record has no log time, because "
                f"{TIMESTAMP} was changed. Run `hubbub topics`. Then delete the partition's records up to this one "
                f"(kafka-delete-records.sh with offset {offset + 1}), or start with another --prefix"
            )

        outcome = source.take(run.records)
        self.events[partition] = event
        self.arrivals[partition] = outside.monotonic()
        self.metrics.count(outcome.frames, outcome.reports, outcome.implausible, outcome.rejects)
        self.metrics.count_rejected_frames(outcome.rejected_frames)
        if source.closing:
            self.on_close()

    async def _is_next(self, source: SourcePartition, run_start: int) -> bool:
        """Whether the log has no records between the counted ones and `run_start`.

        If it has some, a rebalance has made the fetch of this run stale, and the reader seeks back.
        The check also runs during a seek: otherwise two seeks can wait for each other for ever.
        """
        partition = source.partition
        start = source.next_offset
        clock_time = outside.monotonic()
        gap = self._gaps.get(partition)
        if gap is None or not gap.answers(start, clock_time):
            try:
                next_record = await self.broker.first(partition, start)
                gap = OffsetGap(start, next_record, await self.broker.beginning(partition), clock_time)
            except Exception as error:  # noqa: BLE001 - the broker does not answer; the run comes again
                log.warning("partition %s: the broker did not answer about a gap, trying again: %r", partition, error)
                return False

            # During the wait another recovery may have replaced the source, whose offset the answer does not fit.
            if self.sources.get(partition) is not source or source.next_offset != start:
                return False
            self._gaps[partition] = gap
            if gap.is_before(run_start) and gap.is_deletion:
                self._skip_lost(source, gap.beginning)

        if gap.is_before(run_start):
            return True

        if clock_time - self._seek_times.get(partition, 0.0) > SEEK_AGAIN:
            self._seek_times[partition] = clock_time
            self._seeking = asyncio.ensure_future(self.group.seek(partition, start))
        return False

    def _skip_lost(self, source: SourcePartition, beginning: int) -> None:
        if source.is_new:
            return  # no worker has begun to read it, so nothing is lost
        records = beginning - source.next_offset
        log.error(
            "lost: the log was deleted before it was read", extra={"partition": source.partition, "lost": records}
        )
        self.metrics.lost.inc(records)
        source.skip(beginning)
