"""`hubbub worker`: counts what is reported, and publishes what follows from it."""

import argparse
import asyncio
import logging
import os
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

from aggregator.counting import quirks
from aggregator.counting.ahead import Ahead
from aggregator.counting.app import Counting
from aggregator.counting.checkpoint import Checkpoints
from aggregator.counting.clock import open_panes
from aggregator.counting.configuration import build_app
from aggregator.counting.identity import watch_identity
from aggregator.counting.idle import Idle
from aggregator.counting.pace import Pace
from aggregator.counting.watchdog import Watchdog
from aggregator.process.exit import Ending, leave
from aggregator.process.freshness import Freshness
from aggregator.process.health import serving
from aggregator.process.liveness import Beat
from aggregator.process.metrics import Metrics
from aggregator.publishing.accuracy import Accuracy
from aggregator.publishing.publisher import Merging
from aggregator.publishing.retirement import over
from aggregator.topics.command import verify
from aggregator.topics.offsets import Asking
from aggregator.topics.outbox import Outbox
from aggregator.topics.registrar import Registrar
from aggregator.topics.sizes import sizes
from hubbub import logs
from hubbub.definitions import Definitions
from hubbub.definitions.follower import Follower
from hubbub.kafka import Kafka
from hubbub.names import REPORTS
from hubbub.options import add_address, add_kafka, add_max_frame, add_queries, parser_of, run, size
from oracles.query import File, load_file

log = logging.getLogger(__name__)

LOOK = 0.25
INTEGER = 8
"""Bytes of a tally's integers in memory."""
GRACE = 8.0
"""Seconds to stop in order."""

HELP = """\
Count the reports of all queries exactly, whatever crashes, and publish estimates. Start as many
workers as there is work for: they share the partitions out, and take over from one another.

example:
  $ hubbub topics && hubbub worker --queries hubbub.toml
  $ curl 127.0.0.1:8801/readyz

Exit code: 0 ended by Ctrl-C or SIGTERM; 2 wrong options or query file; 3 Kafka cannot be reached;
4 a guarantee cannot be kept (wrong topic settings, for instance); 1 anything else. A supervisor
should start a worker again after 1: it goes on where the last checkpoint stood."""


def main(arguments: list[str]) -> int:
    options = _options(arguments)
    logs.configure(options.log, options.log_level)

    def work() -> None:
        leave(asyncio.run(_run(Kafka.read(options), load_file(options.queries), options)))

    return run("worker", work)


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = parser_of("worker", HELP)
    add_kafka(parser, embedded=True)
    add_queries(parser)
    add_address(parser, 8801, "/metrics, /healthz and /readyz")
    budget = os.environ.get("HUBBUB_CHECKPOINT_BYTES_PER_S") or "32MiB"
    said = "writes stay below: large checkpoints become rarer (HUBBUB_CHECKPOINT_BYTES_PER_S; default: 32MiB)"
    parser.add_argument("--checkpoint-bytes-per-s", type=size, default=budget, metavar="SIZE", help=said)
    add_max_frame(parser)
    gone = (os.environ.get("HUBBUB_RETIRE") or "").split(",")
    said = "a query that the file lacks and that is counted no longer; may be repeated (HUBBUB_RETIRE=a,b)"
    parser.add_argument("--retire", action="append", metavar="NAME", help=said)
    logs.add_options(parser)
    options = parser.parse_args(arguments)
    options.retire = {name.strip() for name in options.retire or gone} - {""}
    if options.checkpoint_bytes_per_s < 1:
        parser.error("--checkpoint-bytes-per-s must be above 0")
    return options


async def _run(kafka: Kafka, file: File, options: argparse.Namespace) -> int:
    async with AsyncExitStack() as stack:
        watchdog = stack.enter_context(Watchdog(kafka))
        options.sizes = sizes(file.queries.values())
        partitions = await verify(kafka, options.max_frame, options.sizes)
        outbox = await stack.enter_async_context(Outbox(kafka))
        asking = await stack.enter_async_context(Asking(kafka, kafka.topic(REPORTS)))
        follower = await stack.enter_async_context(Follower(kafka))
        registrar = Registrar(options.queries, follower)
        await registrar.register(file, options.retire)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hubbub-worker-")))
        worker = Worker(kafka, follower, registrar, partitions, options, outbox, asking, folder, watchdog)
        address = serving(options.host, options.port, worker.metrics.registry, worker.missing)
        host, port = await stack.enter_async_context(address)
        sys.stdout.write(f"hubbub worker: http://{host}:{port}/metrics\n")
        sys.stdout.flush()
        return await worker.run()


class Worker:
    """The parts of one worker, and their life."""

    def __init__(
        self,
        kafka: Kafka,
        follower: Follower,
        registrar: Registrar,
        partitions: int,
        options: argparse.Namespace,
        outbox: Outbox,
        asking: Asking,
        folder: Path,
        watchdog: Watchdog,
    ) -> None:
        self.metrics = Metrics()
        self._watchdog = watchdog
        self._kafka, self._outbox = kafka, outbox
        self._follower, self._registrar = follower, registrar
        self._asking, self._partitions = asking, partitions
        self._ending = Ending()
        self._assigned = False
        self._ahead = Ahead(self.metrics.clock_ahead)
        self._accuracy = Accuracy(kafka, partitions, self.metrics)
        self._merging = Merging(kafka, partitions, follower, outbox, self.metrics, self._ending, self._accuracy)
        self._app = build_app(kafka, partitions, options.max_frame, folder)
        self._counting = Counting(
            kafka=kafka,
            app=self._app,
            partitions=partitions,
            follower=follower,
            max_frame=options.max_frame,
            sizes=options.sizes,
            asking=asking,
            outbox=outbox,
            metrics=self.metrics,
            ending=self._ending,
            on_assigned=self._on_assigned,
            on_closing=lambda: self._checkpoints.closing(),  # noqa: PLW0108 - it is made below
        )
        pace = Pace(options.checkpoint_bytes_per_s)
        self._checkpoints = Checkpoints(self._counting, outbox, self.metrics, self._ending, pace)
        self.metrics.know(follower.known.active.values())
        follower.on_change.append(self._define)
        self.metrics.registry.register(Freshness(self._merging.newest))
        self.metrics.tally_bytes.set_function(self._tally_bytes)
        self.metrics.predicted_tally_bytes.set_function(self._predicted_bytes)

    def missing(self) -> str | None:
        """The parts that are not ready yet."""
        if not self._assigned or not self._counting.current:
            return "recovering: partitions are being shared out"
        if not self._merging.ready:
            return "recovering: snapshots are being read"
        return self._watchdog.missing()

    def _tally_bytes(self) -> int:
        sources = self._counting.sources.values()
        return sum(tally.counts.nbytes for source in sources for tally in source.tallies.values())

    def _predicted_bytes(self) -> int:
        """The memory that `check` predicts for the tallies of the partitions owned."""
        cells = sum(open_panes(query) * query.oracle.state_size for query in self._follower.known.active.values())
        return len(self._counting.sources) * cells * INTEGER

    def _define(self, known: Definitions) -> None:
        self.metrics.know(known.active.values())
        self.metrics.keep({versions.query.name for versions in known.versions.values()})

    def _on_assigned(self, owned: set[int]) -> None:
        self._assigned = True
        self.metrics.owned(owned)
        self._merging.assigned(owned)
        self._checkpoints.assigned()

    async def run(self) -> int:
        """Until it is asked to stop, or must; the exit code."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._ending.stop)
        loop.add_signal_handler(signal.SIGHUP, self._registrar.look)
        quirks.tune()
        async with self._tasks() as app:
            code = await self._ending.wait()
            if not code:
                log.info("stopping")
                await self._stop(app)
        return code

    async def _stop(self, app: Any) -> None:
        """Checkpoint first, so that the next owner reads nothing twice; then leave the group."""
        self._counting.stopping = True
        try:
            async with asyncio.timeout(GRACE):
                await self._checkpoints.stop()
                await self._app.stop()
                await app
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - whoever comes next goes on from the last one
            log.warning("did not stop in order: %r", error)

    @asynccontextmanager
    async def _tasks(self) -> AsyncIterator[Any]:
        async def start() -> None:
            await self._app.start()
            await self._app.wait_until_stopped()

        async def crashed() -> None:
            await self._app._crashed.wait()  # noqa: SLF001 - mode has no other way to wait for it
            self._ending.fail(self._app.crash_reason or RuntimeError("Faust has crashed"))

        app = asyncio.create_task(start())
        others = [
            asyncio.create_task(work)
            for work in (
                *(crashed(), self._checkpoints.run(), self._merging.run(), self._accuracy.run(), self._tick()),
                *(self._follower.run(), self._registrar.run(), self._guard(), self._beat()),
            )
        ]
        for task in (app, *others):
            task.add_done_callback(self._done)
        try:
            yield app
        finally:
            for task in (app, *others):
                task.cancel()
            await asyncio.wait([app, *others], timeout=2.0)

    def _done(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._ending.fail(error)

    async def _guard(self) -> None:
        if not self._kafka.embedded:
            await watch_identity(self._kafka, self._asking, self._partitions)
        await asyncio.Event().wait()

    async def _tick(self) -> None:
        """Move the clocks of idle partitions; on the embedded broker only this moves a clock."""
        idle = Idle(always=self._kafka.embedded)
        while not self._counting.stopping:
            for partition in idle.due(self._counting.arrived, time.monotonic()) if self._counting.current else ():
                await self._outbox.tick(partition)
            await asyncio.sleep(LOOK)

    async def _beat(self) -> None:
        """Show that the event loop turns, and where all stands."""
        for number in count(1):
            counting = self._counting
            if counting.current:
                self._measure()
            if counting.current and self._merging.ready:
                self._follower.let_go(
                    over(self._follower.known, counting.sources.values(), self._merging.reader.shelves.values())
                )
            self._watchdog.beat = Beat(
                number=number,
                counting=self._assigned and counting.current,
                moved=counting.moved(),
                reports=counting.positions(),
                more=frozenset(counting.behind()),
                snapshots=dict(self._merging.reader.offsets),
                rounds=self._merging.rounds,
                pause=self._checkpoints.interval,
            )
            await asyncio.sleep(LOOK)

    def _measure(self) -> None:
        """The lag of what is read, by the broker's word, and how the definitions are."""
        self.metrics.definitions_behind.set(self._registrar.behind)
        self.metrics.definitions_refused.set(self._registrar.refused)
        self.metrics.definitions_unread.set(len(self._follower.known.unread))
        behind = 0.0
        for partition, source in self._counting.sources.items():
            end = self._counting.highwater(partition)
            if end is not None:
                self.metrics.lag_records.labels(str(partition)).set(max(0, end - source.next_offset))
            if source.clock is not None:
                behind = max(behind, time.time() - source.clock / 1000)
                self._ahead.look(partition, source.clock / 1000 - time.time())
        self.metrics.lag_seconds.set(behind)
        self.metrics.publish_lag.set(self._merging.lag)
