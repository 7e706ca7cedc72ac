"""The two-phase checkpoint: tallies first, and only once they are acknowledged the progress that relies on them."""

import asyncio
import logging
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from aggregator.counting.app import Counting
from aggregator.counting.changelog import Pane
from aggregator.counting.clock import Progress, encode
from aggregator.counting.draft import Draft, Marks, Phase
from aggregator.counting.partition import SourcePartition
from aggregator.process.exit import Ending
from aggregator.process.metrics import Metrics
from aggregator.topics.keys import PaneKey, PartitionKey, home
from aggregator.topics.outbox import Outbox
from hubbub.names import SNAPSHOTS

log = logging.getLogger(__name__)

INTERVAL = 0.5
REFRESH = 10.0
"""Seconds until a tally that nothing was added to is written once more, and progress by ticks alone: a restart reads
from the oldest."""
OPEN_INTERVAL = 1.0


@dataclass
class Checkpoints:
    """Writes what the sources have counted, and tells the mergers."""

    counting: Counting
    outbox: Outbox
    metrics: Metrics
    ending: Ending
    bytes_per_s: int
    """Writes stay below this on average: where a checkpoint is large, the next one waits."""
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
                async with self._turn:
                    await self._once(whole=time.monotonic() >= self._whole_at)
                if time.monotonic() >= self._open_at:
                    await self._show_open()
        except Exception as error:  # noqa: BLE001 - memory may be ahead of the log: fail-stop
            self.ending.fail(error)

    async def stop(self) -> None:
        """The last one, with all that was counted."""
        async with self._turn:
            await self._once(whole=True)

    async def _once(self, *, whole: bool) -> None:
        counting = self.counting
        if not counting.current:
            if whole:
                self._whole_at = time.monotonic() + INTERVAL
            return
        began, generation = time.monotonic(), counting.generation
        refresh = whole and began - self._refreshed > REFRESH
        due = [source for source in counting.sources.values() if source.is_due(whole=whole, refresh=refresh)]
        drafts = [(source, source.draft(whole=whole, refresh=refresh)) for source in due]
        events = {source.partition: counting.events.get(source.partition) for source in due} if whole else {}
        written = 0
        for phases in zip(*(draft.phases(source.progress, source.marks) for source, draft in drafts), strict=True):
            sent = []
            for (source, _), phase in zip(drafts, phases, strict=True):
                sent += await self._send(source, phase)
                written += phase.size
            if sent:
                await asyncio.gather(*sent)
            if generation != counting.generation or not counting.current:
                return  # others own these partitions now, or will
        for source, draft in drafts:
            counting.table.delete(source.partition, source.settled(draft))
            await self._forget(source, draft)
            event = events.get(source.partition)
            if event is not None:
                event.ack()  # the newest only: what is below becomes committable through Faust's gaps
                if counting.events.get(source.partition) is event:
                    del counting.events[source.partition]
        took = time.monotonic() - began
        if whole:
            self._refreshed = began if refresh else self._refreshed
            self.interval = max(INTERVAL, written / self.bytes_per_s)
            self._whole_at = began + self.interval
        if drafts:
            self.metrics.checkpoint.observe(took)
            self.metrics.checkpoint_bytes.inc(written)

    async def _send(self, source: SourcePartition, phase: Phase) -> list[Any]:
        sent = await self.counting.write(source, phase.changelog)
        for key, value in phase.snapshots:
            target = home(key.digest, self.counting.partitions)
            sent.append(await self.outbox.send(SNAPSHOTS, key.encode(), value, partition=target))
        sent += await self.outbox.reject(source.partition, phase.rejects)
        return sent + await self._mark(source.partition, source.writer, phase.marks)

    async def _mark(self, partition: int, writer: str, marks: Marks) -> list[Any]:
        """Tell the mergers how far their queries are closed on this partition.

        Each writer has a key of its own, so that one who wakes up late takes nothing back.
        """
        key, now = PartitionKey("watermark", partition, writer).encode(), time.time_ns() // 1_000_000
        return [
            await self.outbox.send(SNAPSHOTS, key, encode(Progress(closed=closed)), partition=to, timestamp_ms=now)
            for to, closed in marks.items()
        ]

    async def _forget(self, source: SourcePartition, draft: Draft) -> None:
        """Open snapshots of panes that are closed now, and the watermarks of former writers."""
        partition = source.partition
        if source.former:
            known = self.counting.follower.known
            targets = {home(digest, self.counting.partitions) for digest in (*known.versions, *known.over)}
            for writer in source.former:
                watermark = PartitionKey("watermark", partition, writer).encode()
                for target in sorted(targets):
                    await self.outbox.send(SNAPSHOTS, watermark, None, partition=target)
            source.former = []
        shown = self._shown.get(partition, {})
        for key, _ in draft.closed:
            if shown.pop((key.digest, key.pane), None) is not None:
                name = PaneKey("open", key.digest, key.pane, partition).encode()
                await self.outbox.send(SNAPSHOTS, name, None, partition=home(key.digest, self.counting.partitions))

    async def _show_open(self) -> None:
        """Write snapshots of open tallies, for provisional records; losing one is harmless, so it is not waited for."""
        written = 0
        for source in list(self.counting.sources.values()) if self.counting.current else []:
            shown = self._shown.setdefault(source.partition, {})
            for key, n, value in source.open_snapshots(shown):
                shown[key.digest, key.pane] = n
                target = home(key.digest, self.counting.partitions)
                await self.outbox.send(SNAPSHOTS, key.encode(), value, partition=target)
                written += len(value)
        self.metrics.checkpoint_bytes.inc(written)
        self._open_at = time.monotonic() + max(OPEN_INTERVAL, written / self.bytes_per_s)
