"""The run of a sending command: it sends a stream of frames to Kafka, shows the progress, and ends on a signal."""

import argparse
import asyncio
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from contextlib import AsyncExitStack, contextmanager, suppress
from functools import partial
from typing import NamedTuple

from aiokafka import AIOKafkaProducer

from hubbub.command import logs
from hubbub.command.options import add_address, add_kafka, add_queries, run, whole
from hubbub.definitions import formats_record
from hubbub.definitions.follower import Follower
from hubbub.kafka.clients import producer as kafka_producer
from hubbub.kafka.clients import started
from hubbub.kafka.errors import TopicMissing
from hubbub.kafka.settings import REPORTS, TRUTH, Kafka
from oracles.query import Query
from producers.publishers import frames
from producers.publishers.routes import FRESH
from producers.simulation.delivery.schedule import SimulationClock
from producers.simulation.delivery.sender import Sender
from producers.simulation.delivery.simulated_frames import SimulatedFrame, SpreadAt
from producers.simulation.delivery.status import DeliveryCounts, progress_line, serve_metrics, show_progress
from producers.simulation.delivery.true_answers import TrueAnswers

GRACE = 5.0
"""Seconds to finish the pending frames after a signal."""

_MIB = 1 << 20
_PATIENCE = 10_000
"""The longest time of one attempt, in milliseconds."""


class Step(NamedTuple):
    """The frames of one step of a simulation or replay."""

    until: int
    """The time of the last answer of the step, in milliseconds."""
    frames: Iterable[SimulatedFrame]
    progress: float | None = None
    """The finished part of the run, in 0..1, or None if the run has no end."""
    silent: float = 0.0
    """The share of clients whose budget is spent."""


Stream = AsyncIterator[Step]
StreamFactory = Callable[[int, SpreadAt], Stream]
"""A function that begins a stream, given the number of partitions and the spread of the query for each pane."""


def add_sending_options(parser: argparse.ArgumentParser) -> None:
    add_kafka(parser)
    add_queries(parser)
    query = "query to answer (default: the only one of the file)"
    parser.add_argument("--query", metavar="Q", help=query)
    size = f"maximum reports per frame (default: {frames.REPORTS})"
    parser.add_argument("--frame", type=whole(1), default=frames.REPORTS, metavar="N", help=size)
    add_address(parser, 8804, "/metrics")


def run_sending(command: str, work: Coroutine[None, None, DeliveryCounts]) -> int:
    """Run a sending command, print its counts, and return its exit code."""

    def send() -> None:
        start = time.monotonic()
        counts = asyncio.run(work)
        seconds = time.monotonic() - start
        sys.stdout.write(f"{seconds:.0f} s in all: {progress_line(counts, counts.reports / seconds)}\n")

    logs.terse()
    return run(command, send)


async def send_stream(
    options: argparse.Namespace,
    query: Query,
    clock: SimulationClock,
    truth: TrueAnswers | None,
    stream: StreamFactory,
) -> DeliveryCounts:
    """Send the frames of `stream` until its end or a signal.

    The options have the addresses of Kafka and of /metrics.
    """
    kafka = Kafka.read(options)
    counts = DeliveryCounts()

    with _stop_on_signals(clock):
        async with serve_metrics(options.host, options.port, query.name, counts):
            try:
                await _send_stream(kafka, query, clock, truth, stream, counts)
            except asyncio.CancelledError:
                if not clock.stop.is_set():
                    raise
    return counts


async def _send_stream(
    kafka: Kafka,
    query: Query,
    clock: SimulationClock,
    truth: TrueAnswers | None,
    stream: StreamFactory,
    counts: DeliveryCounts,
) -> None:
    producer = kafka_producer(
        kafka,
        acks="all",
        linger_ms=20,
        max_batch_size=2 * _MIB,
        max_request_size=4 * _MIB,
        request_timeout_ms=_PATIENCE,
    )

    async with started(producer, kafka), AsyncExitStack() as stack:
        partitions = await _partitions(producer, kafka.topic(REPORTS))
        if truth:
            # Asked for now, since a missing topic would be found only at the end of the first pane.
            await _partitions(producer, kafka.topic(TRUTH))
        follower: Follower | None = None
        with suppress(TopicMissing):  # without definitions the query file says on which partitions reports belong
            await formats_record.check(kafka)
            follower = await stack.enter_async_context(Follower(kafka))
            _say_if_undefined(follower, query)

        def spread_at(pane: int) -> int | None:
            versions = None if follower is None else follower.definitions.versions.get(query.digest)
            return query.spread if versions is None else versions.spread_at(pane)

        sender = Sender(producer, kafka, query, truth, counts, clock.now)
        async with show_progress(counts):
            async for step in stream(partitions, spread_at):
                if follower is not None and follower.age > FRESH:
                    await follower.within(FRESH)
                for frame in step.frames:
                    await sender.send(frame)
                counts.lag = partial(sender.lag, step.until / 1000)
                counts.progress = step.progress
                counts.silent = step.silent
                await sender.retry()
                await sender.publish_truth(clock.now())

            await sender.flush()
            # All panes are over now, so that the last ones have their true counts too.
            await sender.publish_truth(float("inf"))
            await sender.flush()
            counts.lag = lambda: 0.0


def _say_if_undefined(follower: Follower, query: Query) -> None:
    """Say it if no worker has published the query, because nobody counts its reports before."""
    versions = follower.definitions.versions.get(query.digest)
    if versions is None or versions.newest.retired:
        sys.stdout.write(f"no worker has published {query.name} with these settings yet: its reports wait for one\n")


async def _partitions(producer: AIOKafkaProducer, topic: str) -> int:
    metadata = await producer.client.fetch_all_metadata()
    partitions = metadata.partitions_for_topic(topic)
    if not partitions:
        raise TopicMissing(topic)
    return len(partitions)


@contextmanager
def _stop_on_signals(clock: SimulationClock) -> Iterator[None]:
    """Stop the clock on Ctrl-C and SIGTERM.

    After `GRACE` seconds the task is cancelled, and after as long again also its clean-up.
    """
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()

    def end() -> None:
        clock.stop.set()
        if task is not None:
            loop.call_later(GRACE, task.cancel)
            loop.call_later(2 * GRACE, task.cancel)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, end)
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
