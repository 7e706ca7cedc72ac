"""The watchdog, which ends a worker that hangs: Faust and aiokafka can stop for ever while they send heartbeats.

Cases seen: Faust drops records at the start if nothing is committed; metadata stays stale after a
leader has moved; a recovery receives no events; a merger waits for ever; clients retry revoked
credentials without end. The watchdog is a thread with its own clients, so that it notices a hung
event loop too. It reads nothing of the worker but its beat.
"""

import asyncio
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Self

from aiokafka.errors import KafkaError

from aggregator.process.liveness import GONE, SILENT, Beat, Liveness, Stage, Standstill
from hubbub.command.exit import exit_process
from hubbub.kafka.clients import bare_client, stop
from hubbub.kafka.offsets import OffsetLookup
from hubbub.kafka.settings import REPORTS, SNAPSHOTS, Kafka

log = logging.getLogger(__name__)

TICK = 1.0
PROBE = 3.0
"""Seconds between two probes of the brokers, and until a probe fails."""
PATIENCE_ASKING = 120.0
"""Seconds until the questions about a standstill fail."""
LOOK_AGAIN = 5.0
"""Seconds that a worker has to read new records."""
STANDSTILL_CODE = 1
NO_BROKER = 3
"""Exit code if no broker answers."""
_TOPICS = {Stage.REPORTS: REPORTS, Stage.SNAPSHOTS: SNAPSHOTS}


class Watchdog:
    """A thread that ends the process if a part of the worker stands still although it has work."""

    def __init__(self, kafka: Kafka, *, haste: float = 1.0, end: Callable[[int], None] = exit_process) -> None:
        self.beat = Beat()
        """The newest beat, which only the main loop sets."""
        self._answer_time = 0.0
        """The time of the last answer of a broker, on the clock of the watchdog."""
        self._kafka = kafka
        self._end = end
        self._liveness = Liveness(haste)
        self._haste = haste
        self._is_closed = False
        self._now = 0.0
        """The clock of the watchdog: the seconds that it was awake, which pass more slowly on an overloaded machine."""

    def __enter__(self) -> Self:
        # A daemon thread, which does not keep a process alive that wants to exit.
        threading.Thread(target=self._run, name="watchdog", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_closed = True

    def note_start(self, steps: int) -> None:
        """Note that the start makes progress while it waits."""
        if not self.beat.number:
            self.beat = Beat(steps=steps)

    def missing(self) -> str | None:
        """Return why the worker is not ready, or None if the watchdog sees no reason."""
        silent = self._now - self._answer_time
        if silent > SILENT * self._haste:
            return f"no broker has answered for {silent:.0f} s"
        standstill = self._liveness.find_slow(self._now)
        return f"standing still: {standstill}" if standstill else None

    def _run(self) -> None:
        try:
            asyncio.run(self._watch())
        except Exception:
            log.exception("watchdog failed, so the worker exits")
            # Without the watchdog nobody would notice a hang, so its own fault ends the worker too.
            self._end(STANDSTILL_CODE)

    async def _watch(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            watching = [tasks.create_task(work) for work in (self._probe(), self._look())]
            while not self._is_closed:
                await asyncio.sleep(TICK)
                self._now += TICK
            for task in watching:
                task.cancel()

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(TICK)
            silent = self._now - self._answer_time
            if silent > GONE * self._haste:
                log.critical("no broker at %s has answered for %.0f s", self._kafka.servers, silent)
                self._end(NO_BROKER)

            # No part can move without a broker, so its time starts again with the next answer.
            if silent > 3 * PROBE:
                self._liveness.restart_all()
                continue

            standstills = self._liveness.find_hung(self.beat, self._now)
            for standstill in standstills:
                if not standstill.needs_broker:
                    log.critical("hung: %s, although the brokers answer", standstill)
                    self._end(STANDSTILL_CODE)

            for part in _TOPICS:
                await self._ask([standstill for standstill in standstills if standstill.part is part], part)

            # The brokers have answered, and there was nothing to read.
            for standstill in standstills:
                self._liveness.restart(standstill, self._now)

    async def _ask(self, standstills: list[Standstill], part: Stage) -> None:
        """End the process if one of these partitions has records that the worker had time to read."""
        if not standstills:
            return

        rounds = self.beat.rounds
        try:
            async with (
                asyncio.timeout(PATIENCE_ASKING),
                OffsetLookup(self._kafka, self._kafka.topic(_TOPICS[part])) as broker,
            ):
                candidates = await self._with_records(broker, standstills)
                await asyncio.sleep(LOOK_AGAIN + self.beat.pause if candidates else 0.0)
        except (KafkaError, TimeoutError, OSError) as error:  # without a broker, no part of the worker hangs
            log.warning("watchdog: no broker answers, trying again: %r", error)
            return

        # The worker had time to read, so its newest beat counts.
        beat = self.beat
        if part is Stage.SNAPSHOTS and beat.rounds == rounds:
            return  # the merger has made no round since: a slow record, or the merger itself hangs

        positions = beat.reports if part is Stage.REPORTS else beat.snapshots
        for standstill, offset in candidates:
            if beat.counting and positions.get(standstill.partition) == standstill.offset:
                log.critical("hung: %s, although there is a record at offset %s", standstill, offset)
                self._end(STANDSTILL_CODE)

    async def _with_records(self, broker: OffsetLookup, standstills: list[Standstill]) -> list[tuple[Standstill, int]]:
        """Return those with a real record after their offset. The marker of a transaction at the end is no record."""
        if self._kafka.dialect.ends_are_exact:
            ends = await broker.ends(1 + max(standstill.partition for standstill in standstills))
            standstills = [standstill for standstill in standstills if ends[standstill.partition] > standstill.offset]

        candidates = []
        for standstill in standstills:
            # Without a record in time the end is the marker of a transaction, and the part has nothing to read.
            with suppress(TimeoutError):
                candidates.append((standstill, await broker.first(standstill.partition, standstill.offset)))
        return candidates

    async def _probe(self) -> None:
        """Probe the brokers again and again."""
        had_answer = True
        while True:
            client = bare_client(self._kafka, request_timeout_ms=int(1000 * PROBE))
            try:
                await client.bootstrap()
                while True:
                    await client.fetch_all_metadata()
                    self._answer_time = self._now
                    had_answer = True
                    await asyncio.sleep(PROBE)
            except (KafkaError, OSError, TimeoutError) as error:
                if had_answer:
                    log.warning("watchdog: no broker answers, trying again: %r", error)
                had_answer = False
            finally:
                await stop(client)
            await asyncio.sleep(TICK)
