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

from hubbub.kafka import Kafka, started
from oracles.errors import HubbubError
from oracles.query import Query
from producers.simulation.delivery import Delivery
from producers.simulation.framing import Shipment
from producers.simulation.pace import Clock
from producers.simulation.truth import Truth
from producers.simulation.watch import Counts, described, serving, showing

GRACE = 5.0
"""Seconds to bring to its end what is under way, once one is asked to end."""


_MIB = 1 << 20
_PATIENCE = 10_000
"""Milliseconds that a try takes at most."""


class Step(NamedTuple):
    """What is sent at once."""

    until: int
    """When the last of it is answered, in milliseconds."""
    shipments: Iterable[Shipment]
    done: float | None = None
    """How much of all that is, in 0..1; None where there is no end."""


Stream = AsyncIterator[Step]


class TopicMissing(HubbubError):
    """Kafka has no topic to send to."""

    exit_code = 4


def run(command: str, work: Coroutine[None, None, Counts]) -> int:
    """Do the work of a command that ships, say what came of it, and give its exit code."""
    begun = time.monotonic()
    try:
        counts = asyncio.run(work)
    except HubbubError as error:
        sys.stderr.write(f"hubbub {command}: {error}\n")
        return int(getattr(error, "exit_code", 2))
    took = time.monotonic() - begun
    sys.stdout.write(f"{took:.0f} s in all: {described(counts, counts.reports / took)}\n")
    return 0


async def ship(
    options: argparse.Namespace, query: Query, clock: Clock, truth: Truth | None, stream: Callable[[int], Stream]
) -> Counts:
    """Send what `stream` gives for a number of partitions, until its end or until one is asked to end.

    The options say where Kafka is, and where /metrics.
    """
    kafka, counts = Kafka.read(options), Counts()
    with _asked_to_end(clock), serving(options.host, options.port, query.name, counts):
        try:
            await _ship(kafka, query, clock, truth, stream, counts)
        except asyncio.CancelledError:
            if not clock.stop.is_set():
                raise
    return counts


async def _ship(
    kafka: Kafka, query: Query, clock: Clock, truth: Truth | None, stream: Callable[[int], Stream], counts: Counts
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
        partitions = await _partitions(producer, kafka.topic("reports"))
        if truth:
            await _partitions(producer, kafka.topic("truth"))
        delivery = Delivery(producer, kafka, query, truth, counts, clock.now)
        async with showing(counts):
            async for step in stream(partitions):
                for shipment in step.shipments:
                    await delivery.send(shipment)
                counts.lag, counts.done = partial(delivery.lag, step.until / 1000), step.done
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
        raise TopicMissing(f"there is no topic {topic}; `hubbub topics` creates what is needed")
    return len(partitions)


@contextmanager
def _asked_to_end(clock: Clock) -> Iterator[None]:
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
