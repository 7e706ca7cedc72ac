"""The worker, which counts reports and publishes estimates."""

import argparse
import asyncio
import logging
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count

from aggregator.counting import faust_group, faust_patches
from aggregator.counting.app import CountingApp
from aggregator.counting.checkpoint import Checkpoints
from aggregator.counting.checkpoint_plan import WriteBudget
from aggregator.counting.clock_log import ClockLog
from aggregator.counting.faust_app import Instance
from aggregator.counting.group import Group
from aggregator.errors import ClassicGroupsRefused, Fenced
from aggregator.merging.query_state import QueryState
from aggregator.process.freshness import Freshness, Unpublished
from aggregator.process.liveness import Beat
from aggregator.process.metrics import Metrics
from aggregator.process.watchdog import Watchdog
from aggregator.publishing.accuracy import Accuracy
from aggregator.publishing.finals.estimator_pool import EstimatorPool
from aggregator.publishing.service import PublishingService
from aggregator.tallies.clock_book import ClockBook
from aggregator.topics.identity import watch_identity
from aggregator.topics.upgrade_gate import UpgradeGate
from aggregator.worker.finished_definitions import finished_definitions
from aggregator.worker.gauges import WorkerGauges
from aggregator.worker.lateness import LatenessGauges, LatenessLog
from aggregator.worker.ticks import CLOCK_DELAY, LOOK, IdlePartitions, TickWriter
from aggregator.worker.unpublished_windows import oldest_due
from hubbub import outside
from hubbub.command.exit import Ending
from hubbub.definitions.catalog import Definitions
from hubbub.definitions.follower import Follower
from hubbub.definitions.registrar import Registrar
from hubbub.kafka.offsets import OffsetLookup
from hubbub.kafka.outbox import Outbox
from hubbub.kafka.settings import Kafka

log = logging.getLogger(__name__)

BEAT = 0.25
"""Seconds between two beats."""
LATENESS_BEATS = 40
"""Beats between two looks at how late finals are. A look goes through all open panes, so it is not for every beat."""
WRITE_PATIENCE = 15.0
"""Seconds without the acknowledgement of a write until the worker is not ready. The loss of a broker takes less."""
GRACE = 8.0
"""Seconds that an orderly stop may take."""


class Worker:
    """The parts of one worker, their start and their end."""

    def __init__(
        self,
        kafka: Kafka,
        follower: Follower,
        registrar: Registrar,
        partitions: int,
        options: argparse.Namespace,
        outbox: Outbox,
        broker: OffsetLookup,
        watchdog: Watchdog,
        gate: UpgradeGate,
        *,
        estimators: EstimatorPool,
    ) -> None:
        self.metrics = Metrics()
        self._watchdog = watchdog
        self._gate = gate
        self._kafka = kafka
        self._outbox = outbox
        self._follower = follower
        self._registrar = registrar
        self._broker = broker
        self._partitions = partitions
        self._ending = Ending()
        self._instance = options.instance
        self._assigned = False

        self._accuracy = Accuracy(kafka, partitions, self.metrics)
        book = ClockBook(partitions)
        self._clock_log = ClockLog(kafka, outbox, book)
        self._publishing = PublishingService(
            kafka,
            partitions,
            follower,
            outbox,
            self.metrics,
            self._ending,
            self._accuracy,
            book=book,
            mark_end=self._clock_log.mark_end,
            estimators=estimators,
        )

        instance = options.instance and Instance(options.instance, options.leave, self._end_fenced)
        self._group: Group = faust_group.build_group(kafka, partitions, options.max_frame, instance, self._end_refused)
        self._counting = CountingApp(
            kafka=kafka,
            group=self._group,
            partitions=partitions,
            follower=follower,
            gate=gate,
            max_frame=options.max_frame,
            sizes=options.sizes,
            broker=broker,
            outbox=outbox,
            metrics=self.metrics,
            ending=self._ending,
            on_assignment=self._on_assignment,
            on_close=lambda: self._checkpoints.request(),  # noqa: PLW0108 - it is created below
        )

        budget = WriteBudget(options.checkpoint_bytes_per_s)
        self._checkpoints = Checkpoints(self._counting, outbox, self.metrics, self._ending, budget, self._clock_log)

        self.metrics.write_age.set_function(lambda: outbox.write_age)
        self.metrics.add_queries(follower.definitions.active.values())
        follower.on_change.append(self._define)
        self.metrics.registry.register(Freshness(self._publishing.newest_finals))
        self._lateness = LatenessGauges(self._publishing.owed_finals, self._publishing.oldest_due)
        self.metrics.registry.register(self._lateness)
        self.metrics.registry.register(Unpublished(self._oldest_due, lambda: self._lateness.reading_lag is not None))
        self._lateness_log = LatenessLog()
        self._gauges = WorkerGauges(self.metrics, self._counting, follower, registrar)

    def _end_refused(self) -> None:
        self._ending.fail(ClassicGroupsRefused(self._kafka.servers))

    def _end_fenced(self) -> None:
        self._ending.fail(Fenced(self._instance))

    def missing(self) -> str | None:
        """Return why the worker is not ready, or None if it is."""
        if not self._assigned or not self._counting.current:
            return "recovering: the group assigns partitions"
        if not self._publishing.ready:
            return "recovering: the worker reads snapshots"
        # While too few replicas are in sync no write is acknowledged, although all brokers answer.
        if self._outbox.write_age > WRITE_PATIENCE:
            return f"Kafka has not acknowledged a write for {self._outbox.write_age:.0f} s"
        return self._watchdog.missing()

    @property
    def remark(self) -> str | None:
        """What the worker says beside that it is ready, or None."""
        return self._lateness_log.remark

    def _define(self, catalog: Definitions) -> None:
        self.metrics.add_queries(catalog.active.values())
        # Without this the labels of forgotten definitions would stay for as long as the process.
        self.metrics.retain_queries({versions.query.name for versions in catalog.versions.values()})

    def _oldest_due(self) -> dict[str, float | None]:
        states: list[QueryState] = []
        for partition in self._publishing.reader.partitions.values():
            # Of a partition that is not loaded the oldest window is unknown, and any other would be too young.
            if partition.loaded:
                states += partition.queries.values()
        return oldest_due(self._follower.definitions.versions, self._counting.sources.values(), states)

    def _on_assignment(self, partitions: set[int]) -> None:
        self._assigned = True
        self.metrics.set_partitions(partitions)
        self._clock_log.assign(self._counting.topic_ids)
        self._publishing.assign(partitions)
        # The first checkpoint announces the new writers, and says the clocks that earlier ones may not have said.
        self._checkpoints.request()

    async def run(self) -> int:
        """Run until a signal or a fault, and return the exit code."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._ending.stop)
        loop.add_signal_handler(signal.SIGHUP, self._registrar.reload)
        faust_patches.tune()
        async with self._tasks() as group_task:
            code = await self._ending.wait()
            # After a fault memory may be ahead of the log, so only an orderly stop writes a checkpoint.
            if not code:
                log.info("stopping")
                await self._stop(group_task)
        return code

    async def _stop(self, group_task: asyncio.Task[None]) -> None:
        """Write a checkpoint, so that the next owner reads nothing twice, and leave the group."""
        self._counting.stopping = True
        try:
            async with asyncio.timeout(GRACE):
                await self._checkpoints.stop()
                await self._group.stop()
                await group_task
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - the next owner continues from the last checkpoint
            log.warning("did not stop in order: %r", error)

    @asynccontextmanager
    async def _tasks(self) -> AsyncIterator[asyncio.Task[None]]:
        async def watch_crash() -> None:
            self._ending.fail(await self._group.wait_for_crash())

        group_task = asyncio.create_task(self._group.run())
        works = [
            watch_crash(),
            self._checkpoints.run(),
            self._publishing.run(),
            self._accuracy.run(),
            self._tick(),
            self._follower.run(),
            self._registrar.run(),
            self._gate.watch(),
            self._guard(),
            self._beat(),
        ]
        further_tasks = [asyncio.create_task(work) for work in works]
        for task in (group_task, *further_tasks):
            task.add_done_callback(self._check_task)

        try:
            yield group_task
        finally:
            for task in (group_task, *further_tasks):
                task.cancel()
            await asyncio.wait([group_task, *further_tasks], timeout=2.0)

    def _check_task(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            self._ending.fail(error)

    async def _guard(self) -> None:
        if self._kafka.dialect.has_topic_ids:
            await watch_identity(self._kafka, self._broker, self._partitions)
        await asyncio.Event().wait()

    async def _tick(self) -> None:
        """Write ticks, which move the clocks of idle partitions. Without log times only ticks move a clock."""
        idle = IdlePartitions(always=not self._kafka.dialect.log_has_time)
        ticks = TickWriter(self._outbox, self._gauges.own_clock)
        while not self._counting.stopping:
            if self._counting.current:
                closes = self._counting.closes_before(outside.wall() - CLOCK_DELAY)
                for partition in idle.due(self._counting.arrivals, closes, outside.monotonic()):
                    await ticks.write(partition)
            await asyncio.sleep(LOOK)

    def _look_at_lateness(self, reading_lag: float) -> None:
        due_times = (due for due in self._oldest_due().values() if due is not None)
        self._lateness_log.look(
            min(due_times, default=None),
            count_owed=self._publishing.owed_finals,
            reading_lag=reading_lag,
            write_age=self._outbox.write_age,
        )

    async def _beat(self) -> None:
        """Publish a beat for the watchdog again and again, and set the gauges."""
        for number in count(1):
            counting = self._counting
            if counting.current:
                reading_lag = self._gauges.measure()
                if self._publishing.ready:
                    self._lateness.reading_lag = reading_lag
                    if number % LATENESS_BEATS == 0:
                        self._look_at_lateness(reading_lag)

            # During a recovery a partition with open panes is missing, and their definition would be forgotten.
            if counting.current and self._publishing.ready:
                self._follower.forget(
                    finished_definitions(
                        self._follower.definitions,
                        counting.sources.values(),
                        self._publishing.reader.partitions.values(),
                    )
                )

            self._watchdog.beat = Beat(
                number=number,
                counting=self._assigned and counting.current,
                steps=counting.count_steps(),
                # Copies, because the watchdog reads them in its own thread.
                reports=counting.positions(),
                more=frozenset(counting.behind()),
                snapshots=dict(self._publishing.reader.offsets),
                rounds=self._publishing.rounds,
                pause=self._checkpoints.interval,
            )
            await asyncio.sleep(BEAT)
