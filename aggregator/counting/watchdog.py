"""Fail-stop for what hangs in silence: Faust and aiokafka can stop for ever while they still heartbeat.

Seen: records dropped at start where nothing is committed, stale metadata after a leader has moved, a
recovery that receives no events, a merger that waits for ever, revoked credentials that are retried
without end. The watchdog is a thread of its own, with clients of its own, so that a hung event loop is
found too; of the worker it reads nothing but its beat.
"""

import asyncio
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Self

from aiokafka.client import AIOKafkaClient
from aiokafka.errors import KafkaError

from aggregator.process.exit import leave
from aggregator.process.liveness import GONE, SILENT, Beat, Liveness, Stage, Still
from aggregator.topics.offsets import Asking
from hubbub.kafka import Kafka
from hubbub.names import REPORTS, SNAPSHOTS

log = logging.getLogger(__name__)

TICK = 1.0
PROBE = 3.0
"""Seconds between two questions whether any broker is there, and until one is taken as unanswered."""
PATIENCE_ASKING = 120.0
LOOK_AGAIN = 5.0
"""Seconds to read what has only just come."""
HUNG, NO_BROKER = 1, 3
_TOPICS = {Stage.REPORTS: REPORTS, Stage.SNAPSHOTS: SNAPSHOTS}


class Watchdog:
    """Ends the process where a part of the worker stands still although the broker has more for it."""

    def __init__(self, kafka: Kafka, *, haste: float = 1.0, end: Callable[[int], None] = leave) -> None:
        self.beat = Beat()
        """Set by the main loop, and only there."""
        self.answered = 0.0
        self._kafka, self._end = kafka, end
        self._liveness = Liveness(haste)
        self._haste = haste
        self._over = False
        self._now = 0.0
        """Its own seconds: it counts how often it was woken, so that patience stretches where the machine is slow."""

    def __enter__(self) -> Self:
        threading.Thread(target=self._run, name="watchdog", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over = True

    def missing(self) -> str | None:
        """Why the worker is not ready, as far as the watchdog knows."""
        silent = self._now - self.answered
        if silent > SILENT * self._haste:
            return f"no broker has answered for {silent:.0f} s"
        still = self._liveness.unready(self._now)
        return f"standing still: {still}" if still else None

    def _run(self) -> None:
        try:
            asyncio.run(self._watch())
        except Exception:
            log.exception("the watchdog cannot watch")
            self._end(HUNG)

    async def _watch(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            watching = [tasks.create_task(work) for work in (self._probe(), self._look())]
            while not self._over:
                await asyncio.sleep(TICK)
                self._now += TICK
            for task in watching:
                task.cancel()

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(TICK)
            silent = self._now - self.answered
            if silent > GONE * self._haste:
                log.critical("no broker at %s has answered for %.0f s", self._kafka.servers, silent)
                self._end(NO_BROKER)
            if silent > 3 * PROBE:
                self._liveness.excuse_all()
                continue
            found = self._liveness.look(self.beat, self._now)
            for still in found:
                if not still.asks:
                    log.critical("hung: %s, and brokers answer", still)
                    self._end(HUNG)
            for part in _TOPICS:
                await self._ask([still for still in found if still.part is part], part)
            for still in found:
                self._liveness.excuse(still, self._now)

    async def _ask(self, found: list[Still], part: Stage) -> None:
        """End the process if there are records beyond one of these, which nobody reads although there was time."""
        if not found:
            return
        rounds = self.beat.rounds
        try:
            async with (
                asyncio.timeout(PATIENCE_ASKING),
                Asking(self._kafka, self._kafka.topic(_TOPICS[part])) as asking,
            ):
                there = await self._beyond(asking, found)
                await asyncio.sleep(LOOK_AGAIN + self.beat.pause if there else 0.0)
        except (KafkaError, TimeoutError, OSError) as error:  # the broker is away: nothing of ours hangs
            log.warning("the watchdog gets no answer: %r", error)
            return
        beat = self.beat
        if part is Stage.SNAPSHOTS and beat.rounds == rounds:
            return  # the merger has not come round since: a slow record, or it is the merger that hangs
        now = beat.reports if part is Stage.REPORTS else beat.snapshots
        for still, offset in there:
            if beat.counting and now.get(still.partition) == still.offset:
                log.critical("hung: %s, and offset %s is there to be read", still, offset)
                self._end(HUNG)

    async def _beyond(self, asking: Asking, found: list[Still]) -> list[tuple[Still, int]]:
        """Those that have a real record beyond: at the end may stand a transaction's marker, which nobody gets."""
        if not self._kafka.embedded:
            ends = await asking.ends(1 + max(still.partition for still in found))
            found = [still for still in found if ends[still.partition] > still.offset]
        there = []
        for still in found:
            with suppress(TimeoutError):
                there.append((still, await asking.first(still.partition, still.offset)))
        return there

    async def _probe(self) -> None:
        """Ask again and again whether any broker is there."""
        heard = True
        while True:
            client = AIOKafkaClient(**self._kafka.client(), request_timeout_ms=int(1000 * PROBE))
            try:
                await client.bootstrap()
                while True:
                    await client.fetch_all_metadata()
                    self.answered, heard = self._now, True
                    await asyncio.sleep(PROBE)
            except (KafkaError, OSError, TimeoutError) as error:
                if heard:
                    log.warning("the watchdog gets no answer: %r", error)
                heard = False
            finally:
                await client.close()
            await asyncio.sleep(TICK)
