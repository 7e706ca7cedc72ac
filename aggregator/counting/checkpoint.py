"""The checkpoint in two phases: first tallies, and after their acknowledgement the progress that covers them."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from weakref import WeakKeyDictionary

from aggregator.counting.app import CountingApp
from aggregator.counting.checkpoint_plan import INTERVAL, Reject, WriteBudget, WritePhase
from aggregator.counting.clock_log import ClockLog
from aggregator.counting.partition import SourcePartition
from aggregator.process.metrics import Metrics
from aggregator.tallies.keys import Write, home
from hubbub import outside
from hubbub.command.exit import Ending
from hubbub.kafka.outbox import Ack, Outbox, OutboxRecord, log_failures
from hubbub.kafka.settings import REJECTS, SNAPSHOTS

log = logging.getLogger(__name__)

GATHER = 0.03
"""Seconds from the first closed pane to its checkpoint. Other partitions close the same pane meanwhile."""
LONGEST_GATHER = 0.25
"""Most of these seconds while a partition has not closed what another one has. A final needs all partitions."""
REFRESH = 10.0
"""Seconds until a tally without new reports, and progress by ticks alone, is written again.

A restart reads from the offset of the oldest tally.
"""

SILENCE = 10.0
"""Seconds after which a clock that moves is said again, although no pane closes.

Other workers delete the records of former writers only when greater clocks are in the log.
"""

Snapshots = dict[int, list[Write]]
"""The writes of all sources by snapshot partition."""


@dataclass
class Checkpoints:
    """The writer of checkpoints, to the changelog and to the topic `snapshots`."""

    counting: CountingApp
    outbox: Outbox
    metrics: Metrics
    ending: Ending
    budget: WriteBudget
    """The budget of writes. After a large checkpoint the next one waits."""
    clocks: ClockLog
    interval: float = INTERVAL
    """Seconds from the last whole checkpoint to the next."""
    _deletions: WeakKeyDictionary[SourcePartition, list[Write]] = field(default_factory=WeakKeyDictionary)
    """The deletions after the last checkpoint, which go with the next one. A recovery repeats lost ones."""
    _sent_snapshots: dict[int, tuple[list[Write], list[Ack]]] = field(default_factory=dict)
    """The snapshots that were sent last, and their acknowledgements, by snapshot partition."""
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _whole_at: float = 0.0
    _refresh_at: float = 0.0

    def request(self) -> None:
        """Request a checkpoint soon, because a pane has closed or a recovery has ended."""
        self._wake.set()

    async def run(self) -> None:
        """Write checkpoints until cancelled."""
        try:
            while True:
                timeout = max(0.0, self._whole_at - outside.monotonic())
                with suppress(TimeoutError):
                    async with asyncio.timeout(timeout):
                        await self._wake.wait()
                        await self._gather()
                self._wake.clear()
                await self._round()
        except Exception as error:  # noqa: BLE001 - memory may be ahead of the log: fail-stop
            self.ending.fail(error)

    async def _gather(self) -> None:
        """Wait until the other partitions have closed the same panes, but not for long."""
        deadline = outside.monotonic() + LONGEST_GATHER
        await asyncio.sleep(GATHER)
        # Each checkpoint is five requests, and without this a close of 12 partitions took up to six checkpoints.
        while self._lacks_closes() and outside.monotonic() < deadline:  # noqa: ASYNC110 - no event tells the last close
            await asyncio.sleep(GATHER)

    def _lacks_closes(self) -> bool:
        """Whether a partition has an open pane that the clock of another one, which has closed panes, closes."""
        sources = self.counting.sources.values()
        clocks = [source.clock for source in sources if source.closing and source.clock is not None]
        closes = [source.next_close for source in sources if source.next_close is not None]
        return bool(clocks and closes) and min(closes) < max(clocks)

    async def stop(self) -> None:
        """Write the last checkpoint, with all counts."""
        async with self._turn:
            await self._once(whole=True)
            log_failures(await self._write(self._deletions))

    async def _round(self) -> None:
        """Write what is due. Closed panes are always due."""
        start = outside.monotonic()
        is_whole = start >= self._whole_at
        async with self._turn:
            await self._once(whole=is_whole)
        if is_whole:
            self.interval = max(INTERVAL, self.budget.pause())
            # From the start, since the seconds of the checkpoint itself would lengthen each interval.
            self._whole_at = start + self.interval

    async def _once(self, *, whole: bool) -> None:
        counting = self.counting
        if not counting.current:
            return
        start = outside.monotonic()
        generation = counting.generation

        # Clock records without the offsets of earlier ones would replace what nobody else says.
        await self.clocks.catch_up(lambda: self._is_current(generation))
        if not self._is_current(generation):
            return

        refresh = whole and start - self._refresh_at > REFRESH
        sources = [source for source in counting.sources.values() if source.is_due(whole=whole, refresh=refresh)]
        says_clocks = self._must_say(sources, start, refresh=refresh)
        plans = [(source, source.plan(whole=whole, refresh=refresh, says_clock=says_clocks)) for source in sources]
        # The newest events of now: records that come during the writes are not in this checkpoint.
        events = {source.partition: counting.events.get(source.partition) for source in sources} if whole else {}

        for phases in zip(*(plan.phases(source.progress) for source, plan in plans), strict=True):
            await self._finish(dict(zip(sources, phases, strict=True)), generation, urgent=not whole)
            if not self._is_current(generation):
                return  # other workers own these partitions, or soon will
        if says_clocks and not plans:
            await self._say({})

        for source, plan in plans:
            self._deletions.setdefault(source, []).extend(source.settle(plan))

        for source in sources:
            event = events.get(source.partition)
            if event is not None:
                event.ack()  # one ack is enough, because Consumer._new_offset commits the newest event
                if counting.events.get(source.partition) is event:
                    del counting.events[source.partition]

        if refresh:
            self._refresh_at = start
        if plans:
            self.metrics.checkpoint.observe(outside.monotonic() - start)

    def _is_current(self, generation: int) -> bool:
        return generation == self.counting.generation and self.counting.current

    def _must_say(self, sources: Sequence[SourcePartition], start: float, *, refresh: bool) -> bool:
        """Whether a clock record goes with the checkpoint of these sources."""
        is_old = refresh and start - self.clocks.said_at >= SILENCE
        return self.clocks.is_new or is_old or any(source.closing for source in sources)

    async def _finish(self, phases: Mapping[SourcePartition, WritePhase], generation: int, *, urgent: bool) -> None:
        """Write one phase of all sources, and wait until it is acknowledged."""
        await asyncio.gather(*await self._send(phases, urgent=urgent))
        # An acknowledgement after a retry has no offset, and a clock record must name one.
        snapshots = self._unplaced_snapshots()
        while snapshots and self._is_current(generation):
            await asyncio.gather(*await self._write_snapshots(snapshots, urgent=urgent))
            snapshots = self._unplaced_snapshots()

        clocks = {source.partition: phase.clock for source, phase in phases.items() if phase.clock is not None}
        if clocks and self._is_current(generation):
            await self._say(clocks)

    async def _send(self, phases: Mapping[SourcePartition, WritePhase], *, urgent: bool) -> list[Ack]:
        """Send the records of one phase of all sources, and return the acknowledgements."""
        snapshots: Snapshots = defaultdict(list)
        for phase in phases.values():
            for key, value in phase.snapshots:
                snapshots[home(key.digest, self.counting.partitions)].append((key.encode(), value))
        changelog = {
            source: [*self._deletions.pop(source, ()), *phase.changelog]
            for source, phase in phases.items()
            if phase.changelog
        }

        acks = await self._write_snapshots(snapshots, urgent=urgent)
        acks += await self._write(changelog, urgent=urgent)
        for source, phase in phases.items():
            acks += await self._set_aside(source.partition, phase.rejects)
        return acks

    async def _say(self, clocks: Mapping[int, int]) -> None:
        """Write the clock record, with these clocks and the acknowledged ones of all other partitions."""
        present_clocks = {
            partition: source.acknowledged.closed_clock for partition, source in self.counting.sources.items()
        }
        known_clocks = {partition: clock for partition, clock in present_clocks.items() if clock is not None}
        await self.clocks.say({**known_clocks, **clocks})

    async def _write_snapshots(self, snapshots: Snapshots, *, urgent: bool) -> list[Ack]:
        """Send snapshots, note their offsets when they are acknowledged, and return the acknowledgements."""
        self._spend(list(chain(*snapshots.values())), urgent=urgent)
        sending = [
            self.outbox.write(SNAPSHOTS, target, writes, on_written=partial(self.clocks.book.note_offset, target))
            for target, writes in snapshots.items()
        ]
        acks = await asyncio.gather(*sending)
        self._sent_snapshots = dict(zip(snapshots, zip(snapshots.values(), acks, strict=True), strict=True))
        return list(chain(*acks))

    def _unplaced_snapshots(self) -> Snapshots:
        """Return the acknowledged snapshots whose offsets the broker did not tell."""
        return {target: writes for target, (writes, acks) in self._sent_snapshots.items() if not _have_offsets(acks)}

    async def _set_aside(self, partition: int, rejects: list[Reject]) -> list[Ack]:
        """Append refused records to their topic, in batches, because there may be a flood of them."""
        if not rejects:
            return []
        source = self.counting.topic
        targets = await self.outbox.partitions(REJECTS)
        records = (
            OutboxRecord(reject.key(source, partition), reject.start, reject.headers(source, partition))
            for reject in rejects
        )
        return await self.outbox.append(REJECTS, partition % targets, records)

    async def _write(self, changelog: Mapping[SourcePartition, Sequence[Write]], *, urgent: bool = False) -> list[Ack]:
        """Send the writes of all partitions at the same time, and return the acknowledgements."""
        self._spend(list(chain(*changelog.values())), urgent=urgent)
        sending = [self.counting.write(source, writes) for source, writes in changelog.items() if writes]
        return list(chain(*await asyncio.gather(*sending)))

    def _spend(self, writes: Sequence[Write], *, urgent: bool) -> None:
        size = sum(len(key) + len(value or b"") for key, value in writes)
        self.budget.spend(size, len(writes), urgent=urgent)
        self.metrics.checkpoint_bytes.inc(size)


def _have_offsets(acks: Sequence[Ack]) -> bool:
    return all(ack.result().offset >= 0 for ack in acks)
