"""A simulated stream through the real daemon, and the comparison of its finals with the truth."""

import asyncio
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import orjson
from aiokafka import AIOKafkaProducer

from benchmarks.accuracy.study import Track, seeded
from hubbub.kafka.clients import client_arguments, started
from hubbub.kafka.settings import Kafka
from oracles.frame import TICK, encode
from oracles.query import Query
from oracles.types import Floats, Ints

if TYPE_CHECKING:
    from tests.integration.workers import Place

SIZE, PARTITIONS, PEOPLE = 256, 2, 2_000
"""Numbers of values, of partitions, and of reports per pane and partition."""
SURGE, RISEN = 200, 0.05
"""The new value of the second half, and its share."""
SOON = 15
"""Seconds until the first pane, because a definition applies 2 s and its skew after a worker reads it."""
PATIENCE = 240.0


@dataclass(frozen=True)
class Stream:
    """A stream of panes, in windows of `window` seconds and in one window of kind `all`."""

    name: str
    pane: int
    panes: int
    window: int
    wall: bool
    """Whether the stream uses broker time. Otherwise its own ticks move the clocks at full speed."""

    @property
    def query(self) -> str:
        return f"""
[queries.live]
domain = {SIZE}
oracle = "olh"
epsilon = 1.0
answers = "fresh"
budget = 1e9
pane = "{self.pane}s"
lateness = "4s"
skew = "5s"
windows = ["{self.window}s", "all"]
publish = "all"
emit_every = "never"
"""

    def shares(self, pane: int) -> Floats:
        """Return the true shares of a pane. Half of the values rise and fall three times, and one value is new."""
        moves = np.where(np.arange(SIZE) % 2, 1.0, -1.0)
        weights = np.arange(1, SIZE + 1) ** -1.1 * (1.0 + 0.3 * moves * np.sin(6.0 * np.pi * pane / self.panes))
        weights /= weights.sum()
        if pane >= self.panes // 2:
            weights *= 1.0 - RISEN
            weights[SURGE] += RISEN
        return weights


class Absent(Exception):
    """A requirement of a stream is missing."""


@contextmanager
def placed(query: str, partitions: int, *, wall: bool) -> Iterator["Place"]:
    """Give topics on a broker of their own: Apache Kafka if its clock should count, otherwise the embedded one."""
    from aggregator.errors import EmbeddedError

    # Brokers come from the tests, which an installation does not have.
    try:
        from tests.brokers import Cluster, Tansu, Unavailable
        from tests.integration.workers import Place
    except ImportError as missing:
        raise Absent(str(missing)) from missing

    try:
        with (
            Cluster() if wall else Tansu() as broker,
            tempfile.TemporaryDirectory() as folder,
            Place(broker, Path(folder), query, partitions) as place,
        ):
            yield place
    except (EmbeddedError, Unavailable) as error:
        raise Absent(str(error)) from error


@dataclass
class Window:
    """A final compared with the truth. Its errors are root mean squares over all values."""

    seconds: float
    true_error: float
    stated_error: float
    coverage: float


def finals_of(stream: Stream, place: "Place", track: Track) -> dict[str, list[Window]]:
    """Return all finals of a stream through one worker, by kind of window."""
    place.start().ready()
    place.wait_for_ticks()
    begin = int(time.time()) + SOON
    begin += -begin % stream.window
    counts: dict[int, Ints] = {}
    step = stream.window // stream.pane
    for first in track(range(0, stream.panes, step), description=stream.name):
        asyncio.run(_feed(stream, place, begin, range(first, first + step), counts))
    last = begin + stream.panes * stream.pane
    if not stream.wall:
        asyncio.run(_end(place.kafka, last + 60))
    return _compare_all(_final_records(place, last), counts, begin, last)


async def _feed(stream: Stream, place: "Place", begin: int, panes: range, counts: dict[int, Ints]) -> None:
    """Send the frames of these panes, at their real time or after ticks with that time."""
    query: Query = place.queries["live"]
    rng = seeded("live", stream.name, panes.start)
    topic = place.kafka.topic("reports")
    producer = AIOKafkaProducer(**client_arguments(place.kafka), acks="all")
    async with started(producer, place.kafka):
        for pane in panes:
            start = begin + pane * stream.pane
            own = rng.multinomial(PARTITIONS * PEOPLE, stream.shares(pane))
            counts[start] = own
            reports = query.oracle.perturb(rng.permutation(np.repeat(np.arange(SIZE), own)), rng)
            if stream.wall:
                await asyncio.sleep(max(0.0, start + 0.2 * stream.pane - time.time()))
            for partition, part in enumerate(np.split(reports, PARTITIONS)):
                if not stream.wall:
                    middle = (start + stream.pane // 2) * 1000
                    await producer.send(topic, TICK, partition=partition, timestamp_ms=middle)
                await producer.send(topic, encode(query.digest, start, part), partition=partition)
            await producer.flush()


async def _end(kafka: Kafka, moment: int) -> None:
    """Close all open panes by a late tick."""
    producer = AIOKafkaProducer(**client_arguments(kafka), acks="all")
    topic = kafka.topic("reports")
    async with started(producer, kafka):
        for partition in range(PARTITIONS):
            await producer.send_and_wait(topic, TICK, partition=partition, timestamp_ms=moment * 1000)


def _final_records(place: "Place", last: int) -> list[dict]:
    """Return all final records when the last windows are final."""
    deadline = time.monotonic() + PATIENCE
    while True:
        records = [orjson.loads(value) for value in chain.from_iterable(place.finals().values())]
        kinds = {r["window"]["kind"] for r in records if r["window"]["end"] == last}
        if kinds >= {"tumbling", "all"}:
            return records
        if time.monotonic() > deadline:
            raise TimeoutError(f"after {PATIENCE:.0f} s the windows that end at {last} are not final")
        time.sleep(1.0)


def _compare_all(records: list[dict], counts: dict[int, Ints], begin: int, last: int) -> dict[str, list[Window]]:
    windows: dict[str, list[Window]] = {"tumbling": [], "all": []}
    for record in sorted(records, key=lambda r: r["window"]["end"]):
        if record["window"]["end"] <= last:
            windows[record["window"]["kind"]].append(_compare(record, counts, begin))
    return windows


def _compare(record: dict, counts: dict[int, Ints], begin: int) -> Window:
    window = record["window"]
    inside = list(_within(counts, window["start"], window["end"]))
    if record["n"] != sum(int(own.sum()) for own in inside):
        raise ValueError(
            f"the window that ends at {window['end']} counts {record['n']} reports, which is not the number sent"
        )
    order = [int(value) for value in record["values"]]
    true = (sum(inside) / record["n"])[order]
    low, high, stderr = (np.array(record[column]) for column in ("low", "high", "stderr"))
    return Window(
        float(window["end"] - begin),
        float(np.sqrt(np.mean((np.array(record["shares"]["unbiased"]) - true) ** 2))),
        float(np.sqrt(np.mean(stderr**2))),
        float(((low <= true) & (true <= high)).mean()),
    )


def _within(counts: dict[int, Ints], start: int, end: int) -> Iterator[Ints]:
    return (own for at, own in counts.items() if start <= at < end)
