"""The Faust app: it reads the partitions of the reports that this worker owns, and keeps their tallies in its table."""

import asyncio
import functools
import logging
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from faust.types import TP

from aggregator.counting import quirks
from aggregator.counting.admission import Gate
from aggregator.counting.changelog import ChangelogUnreadable, saved
from aggregator.counting.configuration import App
from aggregator.counting.hole import Hole
from aggregator.counting.identity import Identity, check_ends, check_settings, identify
from aggregator.counting.partition import SourcePartition
from aggregator.counting.recovery import Found, Recovery, answered
from aggregator.counting.table import Table
from aggregator.errors import Guarantee
from aggregator.process.exit import Ending
from aggregator.process.metrics import Metrics
from aggregator.topics.keys import Write
from aggregator.topics.offsets import Asking
from aggregator.topics.outbox import Ack, Outbox
from aggregator.topics.settings import ANEW, TIMESTAMP
from aggregator.topics.sizes import Sizes
from hubbub.definitions import Definitions
from hubbub.definitions.follower import Follower
from hubbub.kafka import Kafka
from hubbub.names import REPORTS

log = logging.getLogger(__name__)

SEEK_AGAIN = 1.0
MANY = 5_000
"""Refused records that wait to be set aside."""


@dataclass
class Counting:
    """The sources that this worker owns, from recovery to the next rebalance."""

    kafka: Kafka
    app: App
    partitions: int
    follower: Follower
    max_frame: int
    sizes: Sizes
    """Bytes of the largest records that the topics must take."""
    asking: Asking
    outbox: Outbox
    metrics: Metrics
    ending: Ending
    on_assigned: Callable[[set[int]], None]
    """Told the owned partitions after each recovery."""
    on_closing: Callable[[], None]
    """Told that a pane has closed."""
    sources: dict[int, SourcePartition] = field(default_factory=dict)
    events: dict[int, Any] = field(default_factory=dict)
    """The newest Faust event of each partition that is not acknowledged yet."""
    arrived: dict[int, float] = field(default_factory=dict)
    """When each partition last brought something."""
    generation: int = -1
    stopping: bool = False
    _holes: dict[int, Hole] = field(default_factory=dict)
    _sought: dict[int, float] = field(default_factory=dict)
    _seeking: Any = None

    def __post_init__(self) -> None:
        app = self.app
        self.topic = self.kafka.topic(REPORTS)
        reports = app.topic(self.topic, key_serializer="raw", value_serializer="raw", partitions=self.partitions)
        self.table = Table(app, self.kafka, self.partitions, self.outbox, self._recovered)
        self._recovery = Recovery(self.kafka)
        self._shared_at = time.monotonic()
        app.on_partitions_assigned.connect(self._shared)
        app.resume_offsets = self._resume_offsets
        self.follower.on_change.append(self._define)
        app.agent(reports, name="count")(self._count)

    @property
    def current(self) -> bool:
        """Whether the sources are those of the group's present generation, and may be written."""
        return self.generation == self.app.consumer_generation_id and not self.app.rebalancing

    async def write(self, source: SourcePartition, writes: Sequence[Write]) -> list[Ack]:
        """Append these to the changelog, unless the partition is taken away while they wait; their acknowledgements."""
        partition = source.partition
        return await self.table.write(partition, writes, lambda: self.sources.get(partition) is source)

    def highwater(self, partition: int) -> int | None:
        """The end of a partition, as the last fetch has seen it."""
        try:
            end: int | None = self.app.consumer.highwater(TP(self.topic, partition))
        except AssertionError:  # aiokafka's: a rebalance has just taken the partition away
            return None
        return end

    def positions(self) -> dict[int, int]:
        """Of each owned partition, up to where the changelog says that it is counted."""
        return {partition: source.acknowledged.next_offset for partition, source in self.sources.items()}

    def behind(self) -> set[int]:
        """The owned partitions that hold more than was read."""
        ends = {partition: self.highwater(partition) or 0 for partition in self.sources}
        return {partition for partition, source in self.sources.items() if ends[partition] > source.next_offset}

    def moved(self) -> int:
        """Sums up what moves while partitions are shared out and recovered."""
        generation: int = self.app.consumer_generation_id
        return generation + self._recovery.moved

    async def _shared(self, *_: Any, **__: Any) -> None:
        self._shared_at = time.monotonic()

    def _define(self, known: Definitions) -> None:
        """Count by these definitions from here on; what is new in them speaks for panes that come later."""
        for source in self.sources.values():
            source.gate = replace(source.gate, definitions=known.versions, over=known.over)
            try:
                self._correct(source)
            except Guarantee as error:
                self.ending.fail(error)

    def _correct(self, source: SourcePartition) -> None:
        """Follow the corrections of the log's time, if they come in time."""
        late = source.correct(self.follower.known.corrections)
        if late is not None:
            said = f"a correction of the log's time is about what is counted already ({late})"
            raise Guarantee(f"{said}, so that it takes a recount; {ANEW}")

    async def _recovered(self) -> None:
        try:
            await self.follower.recall()
            await check_settings(self.kafka, self.max_frame, self.sizes)
            await self._recover()
        except Exception as error:  # noqa: BLE001 - Faust would swallow it (tables/recovery.py)
            self.ending.fail(error)

    async def _recover(self) -> None:
        """Faust finds nothing to recover (quirks); the changelog is read here.

        Where partitions are shared out anew meanwhile, Faust begins another recovery and leaves this one alone.
        """
        generation = self.app.consumer_generation_id
        wanted = functools.partial(self._is_present, generation)
        identity = await answered(lambda: identify(self.kafka, self.asking, self.partitions), wanted)
        owned = {tp.partition for tp in self.app.assignor.assigned_actives() if tp.topic == self.topic}
        kept = {p: source for p, source in self.sources.items() if p in owned and self._stays(source, generation)}
        found = await self._recovery.read(owned - kept.keys(), wanted)
        if identity is None or found is None or not wanted():
            return
        self._rebuild(owned, kept, found, identity)
        if not self.kafka.embedded:
            await answered(lambda: check_ends(self.asking, self.topic, self._resume_offsets), wanted)

    def _is_present(self, generation: int) -> bool:
        return bool(generation == self.app.consumer_generation_id) and not self.stopping

    def _stays(self, source: SourcePartition, generation: int) -> bool:
        """Whether nobody else can have counted its partition since, and nothing of it is on its way."""
        return self.generation == generation - 1 and source.at_rest and not self.kafka.embedded

    def _rebuild(self, owned: set[int], kept: Mapping[int, SourcePartition], found: Found, identity: Identity) -> None:
        for state in (self.events, self._holes, self._sought):
            state.clear()
        versions = self.follower.known.versions
        self.table.keep(kept.keys(), found)
        try:
            before = saved(found.items(), versions)
        except ChangelogUnreadable as error:
            raise ChangelogUnreadable(error.key, error.fault, self._recovery.where(error.key)) from None
        # Never the same twice: whoever was frozen deletes the records of the writers that it knew of.
        writer = secrets.token_hex(8)
        self.sources = dict(kept)
        self.arrived = {partition: self.arrived[partition] for partition in kept}
        for partition in sorted(owned - kept.keys()):
            gate = Gate(partition, self.partitions, versions, self.kafka.embedded, self.max_frame)
            self.sources[partition] = SourcePartition(gate, writer, before.get(partition))
            self.arrived[partition] = 0.0
        for source in self.sources.values():
            identity.check(source.basis, self.kafka)
            source.basis = replace(source.basis, reports=identity.reports, snapshots=identity.snapshots)
            self._correct(source)
        self.generation = self.app.consumer_generation_id
        self.metrics.recovery.observe(time.monotonic() - self._shared_at)
        where = {partition: source.next_offset for partition, source in self.sources.items()}
        log.info("recovered", extra={"generation": self.generation, "offsets": where, "kept": sorted(kept)})
        self.on_assigned(owned)

    def _resume_offsets(self) -> Mapping[Any, int]:
        topic, sources = self.topic, self.sources
        return {TP(topic, partition): source.next_offset for partition, source in sources.items()}

    async def _count(self, stream: Any) -> None:
        async for event in stream.noack().events():
            run, partition = event.value, event.message.partition
            try:
                source = self.sources.get(partition)
                if source is not None and not self.stopping:
                    if run.first > source.next_offset and not await self._is_real(source, run.first):
                        continue
                    await self.follower.cover(self._newest(run), self._fetched())
                    await self._bind(source)
                    # It may have been taken away meanwhile.
                    if self.sources.get(partition) is source and not self.stopping:
                        self._take(source, run, event)
                    # A flood of rubbish waits until what there is of it is written.
                    while len(source.rejects) > MANY and self.sources.get(partition) is source and not self.stopping:
                        self.on_closing()
                        await asyncio.sleep(0.01)
            except Exception as error:  # noqa: BLE001 - what is wrong here must end the worker, not the agent
                self.ending.fail(error)
            finally:
                run.records = ()  # the event stays until it is acknowledged, its bytes need not

    async def _bind(self, source: SourcePartition) -> None:
        """Wait until the changelog says which corrections this is counted by."""
        while source.corrections and not source.bound and self.sources.get(source.partition) is source:
            if self.stopping:
                return
            self.on_closing()
            await asyncio.sleep(0.05)

    def _fetched(self) -> int:
        return 0 if self.kafka.embedded else quirks.newest(self.topic)

    def _newest(self, run: Any) -> int:
        """When the newest of these records was logged, in ms; on the embedded broker clients say when."""
        if self.kafka.embedded:
            return time.time_ns() // 1_000_000
        return int(run.newest)

    def _take(self, source: SourcePartition, run: Any, event: Any) -> None:
        """Synchronous: nothing else runs between reading the state and changing it."""
        partition = source.partition
        untrusted = source.untrusted(run.records)
        if untrusted is not None:
            raise Guarantee(
                f"{self.topic}, partition {partition}, offset {untrusted}: its timestamp is not the log's own, since "
                f"{TIMESTAMP} was another. Run `hubbub topics`, and say what to take for it there: "
                f"`hubbub topics --correct {partition}:{untrusted}:END=none`"
            )
        taken = source.take(run.records)
        self.events[partition] = event
        self.arrived[partition] = time.monotonic()
        self.metrics.took(taken.frames, taken.reports, taken.implausible, taken.rejected)
        if source.closing:
            self.on_closing()

    async def _is_real(self, source: SourcePartition, first: int) -> bool:
        """Whether the log itself has no records between what was counted and `first`.

        If it has, the run is of a fetch that a rebalance has made stale: reading goes back. This is
        asked while a seek is under way too, else two of them can wait for one another for ever.
        """
        partition, start, now = source.partition, source.next_offset, time.monotonic()
        hole = self._holes.get(partition)
        if hole is None or not hole.answers(start, now):
            try:
                first_there = await self.asking.first(partition, start)
                hole = Hole(start, first_there, await self.asking.beginning(partition), now)
            except Exception as error:  # noqa: BLE001 - the broker is away; the run comes again
                log.warning("cannot ask about a hole in partition %s: %r", partition, error)
                return False
            if self.sources.get(partition) is not source or source.next_offset != start:
                return False
            self._holes[partition] = hole
            if hole.is_before(first) and hole.deleted:
                self._lost(source, hole.beginning)
        if hole.is_before(first):
            return True
        if now - self._sought.get(partition, 0.0) > SEEK_AGAIN:
            self._sought[partition] = now
            where = {TP(self.topic, partition): start}
            self._seeking = asyncio.ensure_future(self.app.consumer.seek_wait(where))
        return False

    def _lost(self, source: SourcePartition, beginning: int) -> None:
        if source.is_new:
            return  # nobody had begun to read it
        records = beginning - source.next_offset
        log.error(
            "lost: the log was deleted before it was read", extra={"partition": source.partition, "lost": records}
        )
        self.metrics.lost.inc(records)
        source.lost(beginning)
