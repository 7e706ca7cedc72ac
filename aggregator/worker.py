"""`hubbub worker`: counts what is reported, and publishes what follows from it."""

import argparse
import asyncio
import logging
import os
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition

from aggregator.counting import quirks
from aggregator.counting.app import Counting, build_app
from aggregator.counting.checkpoint import Checkpoints
from aggregator.counting.watchdog import Watchdog
from aggregator.plan.check import parse_size
from aggregator.process import logs
from aggregator.process.exit import Ending, leave
from aggregator.process.health import serving
from aggregator.process.metrics import Metrics
from aggregator.publishing.accuracy import Accuracy
from aggregator.publishing.publisher import Merging
from aggregator.topics.command import TopicsError, verify
from aggregator.topics.offsets import Asking
from aggregator.topics.outbox import Outbox
from aggregator.topics.settings import LARGEST, QUERIES, REPORTS
from hubbub import definitions
from hubbub.definitions import Definitions
from hubbub.kafka import Kafka, add_options, started
from oracles.errors import HubbubError
from oracles.query import Query, load

log = logging.getLogger(__name__)

TICK = 1.0
"""Seconds without a record after which the owner of a partition appends an empty frame."""
LOOK = 0.25
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
    try:
        kafka = Kafka.read(options)
        file = load(options.queries)
        code = asyncio.run(_run(kafka, file, options))
    except (HubbubError, TopicsError) as error:
        sys.stderr.write(f"hubbub worker: {error}\n")
        return getattr(error, "exit_code", 2)
    leave(code)
    return code


def _options(arguments: list[str]) -> argparse.Namespace:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="hubbub worker", description=HELP, formatter_class=raw)
    add_options(parser, embedded=True)
    env = os.environ
    queries = env.get("HUBBUB_QUERIES") or "hubbub.toml"
    parser.add_argument("--queries", default=queries, metavar="FILE", help="what is counted (HUBBUB_QUERIES)")
    host, port = env.get("HUBBUB_HOST") or "127.0.0.1", env.get("HUBBUB_PORT") or "8801"
    parser.add_argument("--host", default=host, help="of /metrics, /healthz and /readyz (HUBBUB_HOST; 127.0.0.1)")
    parser.add_argument("--port", type=int, default=port, help="0: any free one, printed (HUBBUB_PORT; 8801)")
    budget = env.get("HUBBUB_CHECKPOINT_BYTES_PER_S") or "32MiB"
    said = "writes stay below: large checkpoints become rarer (HUBBUB_CHECKPOINT_BYTES_PER_S; 32MiB)"
    parser.add_argument("--checkpoint-bytes-per-s", type=parse_size, default=budget, metavar="SIZE", help=said)
    largest = env.get("HUBBUB_MAX_FRAME") or "1MiB"
    said = "larger frames are refused (HUBBUB_MAX_FRAME; 1MiB)"
    parser.add_argument("--max-frame", type=parse_size, default=largest, metavar="SIZE", help=said)
    logs.add_options(parser)
    options = parser.parse_args(arguments)
    if options.checkpoint_bytes_per_s < 1:
        parser.error("--checkpoint-bytes-per-s must be above 0")
    return options


async def _run(kafka: Kafka, file: Mapping[str, Query], options: argparse.Namespace) -> int:
    partitions = await verify(kafka, options.max_frame)
    async with AsyncExitStack() as stack:
        outbox = await stack.enter_async_context(Outbox(kafka))
        asking = await stack.enter_async_context(Asking(kafka, kafka.topic(REPORTS)))
        known = await _follow(kafka, outbox, asking, file, partitions)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hubbub-worker-")))
        worker = Worker(kafka, known, partitions, options, outbox, asking, folder)
        address = serving(options.host, options.port, worker.metrics.registry, worker.missing)
        host, port = await stack.enter_async_context(address)
        sys.stdout.write(f"hubbub worker: http://{host}:{port}/metrics\n")
        sys.stdout.flush()
        return await worker.run()


async def _follow(
    kafka: Kafka, outbox: Outbox, asking: Asking, file: Mapping[str, Query], partitions: int
) -> Definitions:
    """The definitions in force, once this worker's file is among them."""
    known = definitions.read(await _read_all(kafka, QUERIES))
    writes = definitions.changes(file, known, 0)
    if writes and known.queries:
        writes = definitions.changes(file, known, await asking.newest_time(partitions))
    for key, value in writes:
        await (await outbox.send(QUERIES, key, value, partition=0))
    return definitions.read(await _read_all(kafka, QUERIES)) if writes else known


async def _read_all(kafka: Kafka, topic: str) -> list[tuple[bytes, bytes | None]]:
    """All records of a topic's one partition."""
    tp = TopicPartition(kafka.topic(topic), 0)
    consumer = AIOKafkaConsumer(
        **kafka.client(), group_id=None, auto_offset_reset="earliest", max_partition_fetch_bytes=LARGEST
    )
    async with started(consumer, kafka):
        consumer.assign([tp])
        await consumer.seek_to_beginning(tp)
        end = (await consumer.end_offsets([tp]))[tp]
        found: list[tuple[bytes, bytes | None]] = []
        while True:
            batch = (await consumer.getmany(tp, timeout_ms=500)).get(tp, [])
            found += [(record.key, record.value) for record in batch]
            if not batch and await consumer.position(tp) >= end:
                return found


class Worker:
    """The parts of one worker, and their life."""

    def __init__(
        self,
        kafka: Kafka,
        known: Definitions,
        partitions: int,
        options: argparse.Namespace,
        outbox: Outbox,
        asking: Asking,
        folder: Path,
    ) -> None:
        self.metrics = Metrics()
        self._kafka, self._outbox = kafka, outbox
        self._ending = Ending()
        self._assigned = False
        self._accuracy = Accuracy(kafka, partitions, self.metrics)
        self._merging = Merging(kafka, partitions, known, outbox, self.metrics, self._ending, self._accuracy)
        self._app = build_app(kafka, partitions, options.max_frame, folder)
        self._counting = Counting(
            kafka=kafka,
            app=self._app,
            partitions=partitions,
            definitions=known,
            max_frame=options.max_frame,
            asking=asking,
            metrics=self.metrics,
            ending=self._ending,
            on_assigned=self._on_assigned,
            on_closing=self._on_closing,
        )
        self._checkpoints = Checkpoints(
            self._counting, outbox, self.metrics, self._ending, options.checkpoint_bytes_per_s
        )
        self._watchdog = Watchdog(kafka, kafka.topic(REPORTS), self._positions, lambda: self._checkpoints.interval)

    def missing(self) -> str | None:
        """What is not ready yet."""
        if not self._assigned or not self._counting.current:
            return "recovering: partitions are being shared out"
        return None if self._merging.ready else "recovering: snapshots are being read"

    def _on_closing(self) -> None:
        self._checkpoints.closing()

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
            for work in (crashed(), self._checkpoints.run(), self._merging.run(), self._accuracy.run(), self._tick())
        ]
        for task in (app, *others):
            task.add_done_callback(self._done)
        self._watchdog.start()
        try:
            yield app
        finally:
            for task in (app, *others):
                task.cancel()
            await asyncio.wait([app, *others], timeout=2.0)

    def _done(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._ending.fail(error)

    async def _tick(self) -> None:
        """Move the clocks of idle partitions; on the embedded broker only this moves a clock."""
        ticked: dict[int, float] = {}
        while not self._counting.stopping:
            now = time.monotonic()
            if self._counting.current:
                for partition, arrived in list(self._counting.arrived.items()):
                    last = ticked.get(partition, 0.0)
                    since = last if self._kafka.embedded else max(last, arrived)
                    if now - since >= TICK:
                        ticked[partition] = now
                        await self._outbox.tick(partition)
                self._measure()
            await asyncio.sleep(LOOK)

    def _measure(self) -> None:
        """The lag of what is read, by the broker's word."""
        behind = 0.0
        for partition, source in self._counting.sources.items():
            end = self._counting.highwater(partition)
            if end is not None:
                self.metrics.lag_records.labels(str(partition)).set(max(0, end - source.next_offset))
            if source.clock is not None:
                behind = max(behind, time.time() - source.clock / 1000)
        self.metrics.lag_seconds.set(behind)

    def _positions(self) -> dict[int, tuple[int, object]]:
        return self._counting.positions()
