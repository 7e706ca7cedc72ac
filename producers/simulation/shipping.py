"""A stream of shipments carried to Kafka, watched meanwhile, and ended when one is asked to end."""

import argparse
import asyncio
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

from aiokafka import AIOKafkaProducer

from hubbub import logs
from hubbub.errors import TopicMissing
from hubbub.kafka import Kafka, started
from hubbub.names import REPORTS, TRUTH
from hubbub.options import run
from oracles.query import Query
from producers.simulation.delivery import Delivery
from producers.simulation.framing import Shipment
from producers.simulation.pace import WallClock
from producers.simulation.truth import TrueAnswers
from producers.simulation.watch import Deliveries, progress, serving, showing

GRACE = 5.0
"""Seconds to bring to its end what is under way, once one is asked to end."""


_MIB = 1 << 20
_PATIENCE = 10_000
"""Milliseconds that a try takes at most."""


class Step(NamedTuple):
    """The shipments that are sent at once."""

    until: int
    """When the last of it is answered, in milliseconds."""
    shipments: Iterable[Shipment]
    done: float | None = None
    """How much of all that is, in 0..1; None where there is no end."""
    silent: float = 0.0
    """The share of clients whose budget is spent."""


Stream = AsyncIterator[Step]


def ending(command: str, work: Coroutine[None, None, Deliveries]) -> int:
    """The exit code of a command that ships, once it has said what came of it."""

    def counted() -> None:
        begun = time.monotonic()
        counts = asyncio.run(work)
        took = time.monotonic() - begun
        sys.stdout.write(f"{took:.0f} s in all: {progress(counts, counts.reports / took)}\n")

    logs.terse()
    return run(command, counted)


async def ship(
    options: argparse.Namespace,
    query: Query,
    clock: WallClock,
    truth: TrueAnswers | None,
    stream: Callable[[int], Stream],
) -> Deliveries:
    """Send what `stream` gives for a number of partitions, until its end or until one is asked to end.

    The options say where Kafka is, and where /metrics.
    """
    kafka, counts = Kafka.read(options), Deliveries()
    with _asked_to_end(clock):
        async with serving(options.host, options.port, query.name, counts):
            try:
                await _ship(kafka, query, clock, truth, stream, counts)
            except asyncio.CancelledError:
                if not clock.stop.is_set():
                    raise
    return counts


async def _ship(
    kafka: Kafka,
    query: Query,
    clock: WallClock,
    truth: TrueAnswers | None,
    stream: Callable[[int], Stream],
    counts: Deliveries,
) -> None:
    producer = AIOKafkaProducer(
        **kafka.client(),
        acks="all",
        linger_ms=20,
        max_batch_size=2 * _MIB,
        max_request_size=4 * _MIB,
        request_timeout_ms=_PATIENCE,
    )
    async with started(producer, kafka):
        partitions = await _partitions(producer, kafka.topic(REPORTS))
        if truth:
            await _partitions(producer, kafka.topic(TRUTH))
        delivery = Delivery(producer, kafka, query, truth, counts, clock.now)
        async with showing(counts):
            async for step in stream(partitions):
                for shipment in step.shipments:
                    await delivery.send(shipment)
                counts.lag, counts.done = partial(delivery.lag, step.until / 1000), step.done
                counts.silent = step.silent
                await delivery.again()
                await delivery.tell(clock.now())
            await delivery.flush()
            await delivery.tell(float("inf"))
            await delivery.flush()
            counts.lag = lambda: 0.0


async def _partitions(producer: AIOKafkaProducer, topic: str) -> int:
    metadata = await producer.client.fetch_all_metadata()
    partitions = metadata.partitions_for_topic(topic)
    if not partitions:
        raise TopicMissing(topic)
    return len(partitions)


@contextmanager
def _asked_to_end(clock: WallClock) -> Iterator[None]:
    """Ctrl-C and SIGTERM stop the clock; what has not ended soon after is cancelled, and then its cleaning up too."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()

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
