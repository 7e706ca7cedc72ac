"""Causes of failures that go on until the drill ends them: a loop of crashes, and records that nobody wants."""

import asyncio
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import numpy as np
from aiokafka import AIOKafkaProducer

from hubbub.kafka.clients import client_arguments, started
from hubbub.kafka.settings import REPORTS, Kafka
from oracles.frame import encode
from oracles.query import Query

LIFE = 9.0
"""Seconds after which a memory limit kills a worker that needs too much."""
ADDRESS = "kafka:9092"


class Killer:
    """A killer of each process of some containers, 9 s after its start, as a memory limit may do."""

    def __init__(self, containers: list) -> None:
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._kill, args=(container,)) for container in containers]
        for thread in self._threads:
            thread.start()

    def _kill(self, container) -> None:
        while not self._over.wait(0.1):
            if container.running and time.time() - container.since > LIFE:
                life = container.since
                with suppress(ProcessLookupError):  # it has just ended
                    container.signal(signal.SIGKILL)
                while container.since == life and not self._over.wait(0.1):
                    pass

    def stop(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()


class RecordSender:
    """A client of Kafka that sends the records of an iterator, at a rate a second."""

    def __init__(self, topic: str, records: Iterator[bytes], rate: float) -> None:
        self._over = threading.Event()
        self._thread = threading.Thread(target=asyncio.run, args=(self._run(topic, records, rate),))
        self._thread.start()

    async def _run(self, topic: str, records: Iterator[bytes], rate: float) -> None:
        kafka = Kafka(ADDRESS)
        async with started(AIOKafkaProducer(**client_arguments(kafka)), kafka) as producer:
            while not self._over.is_set():
                await producer.send_and_wait(kafka.topic(topic), next(records))
                await asyncio.sleep(1 / rate)

    def stop(self) -> None:
        self._over.set()
        self._thread.join()


def write(topic: str, *records: tuple[bytes, bytes | None]) -> None:
    """Append records with keys to the first partition of a topic."""

    async def run() -> None:
        kafka = Kafka(ADDRESS)
        async with started(AIOKafkaProducer(**client_arguments(kafka)), kafka) as producer:
            for key, value in records:
                await producer.send_and_wait(kafka.topic(topic), value, key, partition=0)

    asyncio.run(run())


def rubbish() -> Iterator[bytes]:
    """Yield frames without a header."""
    while True:
        yield b"no frame at all"


def frames(queries: list[Query], *, age: Callable[[], float] = lambda: 0.0) -> Iterator[bytes]:
    """Yield frames of queries in turns, of panes that are so many seconds old."""
    draw = np.random.default_rng(7)
    while True:
        for query in queries:
            pane = int(time.time() - age()) // query.pane * query.pane
            yield encode(query.digest, pane, query.oracle.perturb(draw.integers(0, query.oracle.size, 50), draw))


def flood(queries: list[Query], rate: float) -> RecordSender:
    """Send frames of these queries."""
    return RecordSender(REPORTS, frames(queries), rate)
