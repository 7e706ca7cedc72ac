"""The two-phase checkpoint: tallies first, and only once they are acknowledged the progress that relies on them."""

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain

from aggregator.counting.app import Counting
from aggregator.counting.changelog import Pane
from aggregator.counting.clock import Progress, encode
from aggregator.counting.draft import Draft, Phase
from aggregator.counting.pace import Pace
from aggregator.counting.partition import SourcePartition
from aggregator.process.exit import Ending
from aggregator.process.metrics import Metrics
from aggregator.topics.keys import PaneKey, PartitionKey, Write, home
from aggregator.topics.outbox import Ack, Outbox, let_be
from hubbub.names import SNAPSHOTS

log = logging.getLogger(__name__)

INTERVAL = 0.5
REFRESH = 10.0
"""Seconds until a tally that nothing was added to is written once more, and progress by ticks alone: a restart reads
from the oldest."""
OPEN_INTERVAL = 1.0

Snapshots = dict[int, list[Write]]
"""What goes to each partition of the snapshots, from whatever source."""


@dataclass
class Checkpoints:
    """Writes what the sources have counted, and tells the mergers."""

    counting: Counting
    outbox: Outbox
    metrics: Metrics
    ending: Ending
    pace: Pace
    """Where a checkpoint is large or of many records, the next one and the next open snapshots wait."""
    interval: float = INTERVAL
    """Seconds from the last whole one to the next."""
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _whole_at: float = 0.0
    _refreshed: float = 0.0
    _open_at: float = 0.0
    _shown: dict[int, dict[Pane, int]] = field(default_factory=dict)
    """The n of the open snapshots that are out."""

    def closing(self) -> None:
        """A pane has closed: written at once."""
        self._wake.set()

    def assigned(self) -> None:
        """After a recovery."""
        self._shown.clear()
        self._wake.set()

    async def run(self) -> None:
        """Until cancelled."""
        try:
            while True:
                timeout = max(0.0, min(self._whole_at, self._open_at) - time.monotonic())
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), timeout)
                self._wake.clear()
                await self._round()
        except Exception as error:  # noqa: BLE001 - memory may be ahead of the log: fail-stop
            self.ending.fail(error)

    async def stop(self) -> None:
        """The last one, with all that was counted."""
        async with self._turn:
            await self._once(whole=True)

    async def _round(self) -> None:
        """What is due; closed panes always are."""
        now = time.monotonic()
        whole, shows = now >= self._whole_at, now >= self._open_at
        async with self._turn:
            await self._once(whole=whole)
        if shows:
            await self._show_open()
        if whole or shows:
            pause = self.pace.pause()
            self.interval = max(INTERVAL, pause)
            self._whole_at = max(now + pause, now + INTERVAL if whole else self._whole_at)
            self._open_at = max(now + pause, now + OPEN_INTERVAL if shows else self._open_at)

    async def _once(self, *, whole: bool) -> None:
        counting = self.counting
        if not counting.current:
            return
        began, generation = time.monotonic(), counting.generation
        refresh = whole and began - self._refreshed > REFRESH
        due = [source for source in counting.sources.values() if source.is_due(whole=whole, refresh=refresh)]
        drafts = [(source, source.draft(whole=whole, refresh=refresh)) for source in due]
        events = {source.partition: counting.events.get(source.partition) for source in due} if whole else {}
        for phases in zip(*(draft.phases(source.progress, source.marks) for source, draft in drafts), strict=True):
            acks = await self._send(dict(zip(due, phases, strict=True)), urgent=not whole)
            await asyncio.gather(*acks)
            if generation != counting.generation or not counting.current:
                return  # others own these partitions now, or will
        gone = {source: source.settled(draft) for source, draft in drafts}
        for source in due:
            event = events.get(source.partition)
            if event is not None:
                event.ack()  # the newest only: what is below becomes committable through Faust's gaps
                if counting.events.get(source.partition) is event:
                    del counting.events[source.partition]
        let_be(await self._write(gone, self._forgotten(drafts), urgent=not whole))
        if refresh:
            self._refreshed = began
        if drafts:
            self.metrics.checkpoint.observe(time.monotonic() - began)

    async def _send(self, phases: Mapping[SourcePartition, Phase], *, urgent: bool) -> list[Ack]:
        """Hand one phase of all sources on."""
        snapshots: Snapshots = defaultdict(list)
        for source, phase in phases.items():
            for key, value in phase.snapshots:
                snapshots[home(key.digest, self.counting.partitions)].append((key.encode(), value))
            # Each writer has a key of its own, so that one who wakes up late takes nothing back.
            watermark = PartitionKey("watermark", source.partition, source.writer).encode()
            for target, closed in phase.marks.items():
                snapshots[target].append((watermark, encode(Progress(closed=closed))))
        changelog = {source: phase.changelog for source, phase in phases.items()}
        acks = await self._write(changelog, snapshots, urgent=urgent)
        for source, phase in phases.items():
            acks += await self.outbox.reject(source.partition, phase.rejects)
        return acks

    async def _write(
        self, changelog: Mapping[SourcePartition, Sequence[Write]], snapshots: Snapshots, *, urgent: bool = False
    ) -> list[Ack]:
        """Hand on what goes to each partition, all of them side by side."""
        sizes = [len(key) + len(value or b"") for key, value in chain(*changelog.values(), *snapshots.values())]
        self.pace.spend(sum(sizes), len(sizes), urgent=urgent)
        self.metrics.checkpoint_bytes.inc(sum(sizes))
        sending = [self.counting.write(source, writes) for source, writes in changelog.items() if writes]
        sending += [self.outbox.write(SNAPSHOTS, target, writes) for target, writes in snapshots.items()]
        return list(chain(*await asyncio.gather(*sending)))

    def _forgotten(self, drafts: Iterable[tuple[SourcePartition, Draft]]) -> Snapshots:
        """Deletions of open snapshots of panes that are closed now, and of the watermarks of former writers."""
        deletions: Snapshots = defaultdict(list)
        for source, draft in drafts:
            partition = source.partition
            if source.former:
                known = self.counting.follower.known
                targets = {home(digest, self.counting.partitions) for digest in (*known.versions, *known.over)}
                for target in sorted(targets):
                    names = (PartitionKey("watermark", partition, writer).encode() for writer in source.former)
                    deletions[target] += [(name, None) for name in names]
                source.former = []
            shown = self._shown.get(partition, {})
            for key, _ in draft.closed:
                if shown.pop((key.digest, key.pane), None) is not None:
                    name = PaneKey("open", key.digest, key.pane, partition).encode()
                    deletions[home(key.digest, self.counting.partitions)].append((name, None))
        return deletions

    async def _show_open(self) -> None:
        """Write snapshots of open tallies, for provisional records; losing one is harmless, so it is not waited for."""
        snapshots: Snapshots = defaultdict(list)
        for source in self.counting.sources.values() if self.counting.current else ():
            shown = self._shown.setdefault(source.partition, {})
            for key, n, value in source.open_snapshots(shown):
                shown[key.digest, key.pane] = n
                snapshots[home(key.digest, self.counting.partitions)].append((key.encode(), value))
        let_be(await self._write({}, snapshots))
