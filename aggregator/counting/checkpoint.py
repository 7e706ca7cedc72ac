"""The checkpoint in two phases: first tallies, and after their acknowledgement the progress that covers them."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from weakref import WeakKeyDictionary

from aggregator.counting.app import CountingApp
from aggregator.counting.checkpoint_plan import INTERVAL, Reject, WriteBudget, WritePhase
from aggregator.counting.partition import SourcePartition
from aggregator.process.metrics import Metrics
from aggregator.tallies.keys import PartitionKey, Write, home
from aggregator.tallies.progress import Progress, encode
from hubbub import outside
from hubbub.command.exit import Ending
from hubbub.kafka.outbox import Ack, Outbox, OutboxRecord, log_failures
from hubbub.kafka.settings import REJECTS, SNAPSHOTS

log = logging.getLogger(__name__)

GATHER = 0.03
"""Seconds from the first closed pane to its checkpoint. Other partitions close the same pane meanwhile."""
REFRESH = 10.0
"""Seconds until a tally without new reports, and progress by ticks alone, is written again.

A restart reads from the offset of the oldest tally.
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
    interval: float = INTERVAL
    """Seconds from the last whole checkpoint to the next."""
    _deletions: WeakKeyDictionary[SourcePartition, list[Write]] = field(default_factory=WeakKeyDictionary)
    """The deletions after the last checkpoint, which go with the next one. A recovery repeats lost ones."""
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
                        await asyncio.sleep(GATHER)
                self._wake.clear()
                await self._round()
        except Exception as error:  # noqa: BLE001 - memory may be ahead of the log: fail-stop
            self.ending.fail(error)

    async def stop(self) -> None:
        """Write the last checkpoint, with all counts."""
        async with self._turn:
            await self._once(whole=True)
            log_failures(await self._write(self._deletions, {}))

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

        refresh = whole and start - self._refresh_at > REFRESH
        sources = [source for source in counting.sources.values() if source.is_due(whole=whole, refresh=refresh)]
        plans = [(source, source.plan(whole=whole, refresh=refresh)) for source in sources]
        # The newest events of now: records that come during the writes are not in this checkpoint.
        events = {source.partition: counting.events.get(source.partition) for source in sources} if whole else {}

        for phases in zip(*(plan.phases(source.progress, source.watermarks) for source, plan in plans), strict=True):
            acks = await self._send(dict(zip(sources, phases, strict=True)), urgent=not whole)
            await asyncio.gather(*acks)
            if generation != counting.generation or not counting.current:
                return  # other workers own these partitions, or soon will

        for source, plan in plans:
            self._deletions.setdefault(source, []).extend(source.settle(plan))

        for source in sources:
            event = events.get(source.partition)
            if event is not None:
                event.ack()  # one ack is enough, because Consumer._new_offset commits the newest event
                if counting.events.get(source.partition) is event:
                    del counting.events[source.partition]

        log_failures(await self._write({}, self._obsolete_watermarks(sources), urgent=not whole))

        if refresh:
            self._refresh_at = start
        if plans:
            self.metrics.checkpoint.observe(outside.monotonic() - start)

    async def _send(self, phases: Mapping[SourcePartition, WritePhase], *, urgent: bool) -> list[Ack]:
        """Send one phase of all sources, and return the acknowledgements."""
        snapshots: Snapshots = defaultdict(list)
        for source, phase in phases.items():
            for key, value in phase.snapshots:
                snapshots[home(key.digest, self.counting.partitions)].append((key.encode(), value))
            # Each writer has its own key, so that a frozen worker cannot overwrite newer watermarks.
            watermark = PartitionKey("watermark", source.partition, source.writer).encode()
            for target, ends in phase.watermarks.items():
                snapshots[target].append((watermark, encode(Progress(closed=ends))))

        changelog = {
            source: [*self._deletions.pop(source, ()), *phase.changelog]
            for source, phase in phases.items()
            if phase.changelog
        }

        acks = await self._write(changelog, snapshots, urgent=urgent)

        for source, phase in phases.items():
            acks += await self._set_aside(source.partition, phase.rejects)
        return acks

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

    async def _write(
        self, changelog: Mapping[SourcePartition, Sequence[Write]], snapshots: Snapshots, *, urgent: bool = False
    ) -> list[Ack]:
        """Send the writes of all partitions at the same time, and return the acknowledgements."""
        sizes = [len(key) + len(value or b"") for key, value in chain(*changelog.values(), *snapshots.values())]
        self.budget.spend(sum(sizes), len(sizes), urgent=urgent)
        self.metrics.checkpoint_bytes.inc(sum(sizes))
        sending = [self.counting.write(source, writes) for source, writes in changelog.items() if writes]
        sending += [self.outbox.write(SNAPSHOTS, target, writes) for target, writes in snapshots.items()]
        return list(chain(*await asyncio.gather(*sending)))

    def _obsolete_watermarks(self, sources: Iterable[SourcePartition]) -> Snapshots:
        """Return deletions of the watermarks of former writers."""
        deletions: Snapshots = defaultdict(list)
        catalog = self.counting.follower.definitions
        for source in [source for source in sources if source.former_writers]:
            targets = {home(digest, self.counting.partitions) for digest in (*catalog.versions, *catalog.forgotten)}
            for target in sorted(targets):
                for writer in source.former_writers:
                    deletions[target].append((PartitionKey("watermark", source.partition, writer).encode(), None))
            source.former_writers = []
        return deletions
