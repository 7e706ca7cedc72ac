"""A simulated stream through the real daemon, and its finals beside the truth."""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import orjson
from aiokafka import AIOKafkaProducer

from benchmarks.accuracy.study import Track, seeded
from hubbub.kafka import Kafka, started
from oracles.frame import TICK, encode
from oracles.query import Query
from oracles.types import Floats, Ints

if TYPE_CHECKING:
    from tests.integration.workers import Place

SIZE, PARTITIONS, PEOPLE = 256, 2, 2_000
"""Values, partitions, and reports a pane and partition."""
SURGE, RISEN = 200, 0.05
"""The value that takes a share of its own in the second half."""
SOON = 15
"""Seconds until the first pane: a definition speaks 2 s and its skew after it was read."""
PATIENCE = 240.0


@dataclass(frozen=True)
class Stream:
    """So many panes, in windows of `window` seconds and all together."""

    name: str
    pane: int
    panes: int
    window: int
    wall: bool
    """Whether time is the broker's; else ticks of ours move the clocks, as fast as they can be read."""

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
        """True shares of a pane: half of the values rise and fall, three times in all; one arrives."""
        moves = np.where(np.arange(SIZE) % 2, 1.0, -1.0)
        weights = np.arange(1, SIZE + 1) ** -1.1 * (1.0 + 0.3 * moves * np.sin(6.0 * np.pi * pane / self.panes))
        weights /= weights.sum()
        if pane >= self.panes // 2:
            weights *= 1.0 - RISEN
            weights[SURGE] += RISEN
        return weights


@dataclass
class Window:
    """A final beside the truth: errors are root mean squares over all values."""

    seconds: float
    true: float
    stated: float
    covered: float


def followed(stream: Stream, place: "Place", track: Track) -> dict[str, list[Window]]:
    """All finals of a stream through one worker, by kind of window."""
    place.start().ready()
    place.ticked()
    begin = int(time.time()) + SOON
    begin += -begin % stream.window
    counts: dict[int, Ints] = {}
    some = stream.window // stream.pane
    for first in track(range(0, stream.panes, some), description=stream.name):
        asyncio.run(_feed(stream, place, begin, range(first, first + some), counts))
    last = begin + stream.panes * stream.pane
    if not stream.wall:
        asyncio.run(_end(place.kafka, last + 60))
    return _judged(_settled(place, last), counts, begin, last)


async def _feed(stream: Stream, place: "Place", begin: int, panes: range, counts: dict[int, Ints]) -> None:
    """The frames of some panes: when it is time, or behind ticks that say that it is."""
    query: Query = place.queries["live"]
    rng, topic = seeded("live", stream.name, panes.start), place.kafka.topic("reports")
    producer = AIOKafkaProducer(**place.kafka.client(), acks="all")
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
    """Close what is open."""
    producer, topic = AIOKafkaProducer(**kafka.client(), acks="all"), kafka.topic("reports")
    async with started(producer, kafka):
        for partition in range(PARTITIONS):
            await producer.send_and_wait(topic, TICK, partition=partition, timestamp_ms=moment * 1000)


def _settled(place: "Place", last: int) -> list[dict]:
    """All final records, once those of the last windows are there."""
    until = time.monotonic() + PATIENCE
    while True:
        records = [orjson.loads(value) for versions in place.finals().values() for value in versions]
        ended = {r["window"]["kind"] for r in records if r["window"]["end"] == last}
        if ended >= {"tumbling", "all"}:
            return records
        if time.monotonic() > until:
            raise TimeoutError(f"after {PATIENCE:.0f} s the windows that end at {last} are not final")
        time.sleep(1.0)


def _judged(records: list[dict], counts: dict[int, Ints], begin: int, last: int) -> dict[str, list[Window]]:
    found: dict[str, list[Window]] = {"tumbling": [], "all": []}
    for record in sorted(records, key=lambda r: r["window"]["end"]):
        if record["window"]["end"] <= last:
            found[record["window"]["kind"]].append(_beside(record, counts, begin))
    return found


def _beside(record: dict, counts: dict[int, Ints], begin: int) -> Window:
    window = record["window"]
    inside = list(_within(counts, window["start"], window["end"]))
    if record["n"] != sum(int(own.sum()) for own in inside):
        raise ValueError(f"the window that ends at {window['end']} counts {record['n']} reports, others were sent")
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
