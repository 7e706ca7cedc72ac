"""An hour of a simulated stream through the real daemon: the true error beside the stated one, window by window."""

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import orjson
from aiokafka import AIOKafkaProducer

from benchmarks.accuracy.study import Claim, Figure, Line, Panel, Plot, Section, Table, Track, seeded
from hubbub.kafka import started
from oracles.frame import TICK, encode
from oracles.query import Query
from oracles.types import Ints

SIZE, PANE, PANES, PARTITIONS = 256, 10, 360, 2
PEOPLE = 2_000
"""Reports a pane and partition, one frame."""
SURGE, RISEN = 200, 0.05
"""The value that takes a share of its own in the second half."""
QUERY = f"""
[queries.live]
domain = {SIZE}
oracle = "olh"
epsilon = 1.0
answers = "fresh"
budget = 1e9
pane = "{PANE}s"
lateness = "4s"
skew = "30s"
windows = ["1m", "all"]
publish = "all"
emit_every = "never"
"""
PATIENCE = 240.0

TEXT = f"""One worker, an embedded broker, {PARTITIONS} partitions: an hour of event time in a quarter of a minute,
since there only ticks move the clock, and this study appends them. {PANES} panes of {PANE} s, {PARTITIONS * PEOPLE:,}
reports each, `olh`, epsilon 1, {SIZE} values. Shares drift with the minutes, and from the middle on value {SURGE}
takes {RISEN:.0%} of all. *True error* is the root mean square over all values of published less true share of the
window's people, *stated* that of the published standard errors.

On a broker that appends its own timestamps (LogAppendTime): not measured yet."""


@dataclass
class Window:
    """A final beside the truth."""

    minute: float
    true: float
    stated: float
    covered: float


def shares(pane: int) -> np.ndarray:
    """True shares of a pane: half of the values rise and fall with the minutes; one arrives."""
    base = np.arange(1, SIZE + 1) ** -1.1
    moves = np.where(np.arange(SIZE) % 2, 1.0, -1.0)
    weights = base * (1.0 + 0.3 * moves * np.sin(2 * np.pi * pane / 120))
    weights /= weights.sum()
    if pane >= PANES // 2:
        weights *= 1.0 - RISEN
        weights[SURGE] += RISEN
    return weights


async def feed(kafka: object, query: Query, begin: int, panes: range, counts: dict[int, Ints]) -> None:
    """The frames of some panes, behind ticks that move the clocks there."""
    rng = seeded("live", panes.start)
    producer = AIOKafkaProducer(**kafka.client(), acks="all")
    async with started(producer, kafka):
        for pane in panes:
            start = begin + pane * PANE
            own = rng.multinomial(PARTITIONS * PEOPLE, shares(pane))
            counts[start] = own
            reports = query.oracle.perturb(rng.permutation(np.repeat(np.arange(SIZE), own)), rng)
            for partition, some in enumerate(np.split(reports, PARTITIONS)):
                topic = kafka.topic("reports")
                await producer.send(topic, TICK, partition=partition, timestamp_ms=(start + PANE // 2) * 1000)
                await producer.send(topic, encode(query.digest, start, some), partition=partition)
            await producer.flush()


async def end(kafka: object, moment: int) -> None:
    producer = AIOKafkaProducer(**kafka.client(), acks="all")
    async with started(producer, kafka):
        for partition in range(PARTITIONS):
            await producer.send_and_wait(kafka.topic("reports"), TICK, partition=partition, timestamp_ms=moment * 1000)


def run(track: Track, folder: Path) -> Section:
    import asyncio

    del folder
    from aggregator.errors import EmbeddedError

    section = Section(TEXT)
    try:
        from tests.brokers import Tansu
        from tests.integration.workers import Place
    except ImportError as missing:
        section.skipped.append(f"all of this study: {missing}")
        return section
    try:
        with (
            Tansu() as broker,
            tempfile.TemporaryDirectory() as place_of,
            Place(broker, Path(place_of), QUERY, PARTITIONS) as place,
        ):
            place.start().ready()
            place.ticked()
            query = place.queries["live"]
            begin = (int(time.time()) // 60 + 2) * 60
            counts: dict[int, Ints] = {}
            for first in track(range(0, PANES, 6), description="an hour, minute by minute"):
                asyncio.run(feed(place.kafka, query, begin, range(first, first + 6), counts))
            asyncio.run(end(place.kafka, begin + PANES * PANE + 60))
            last = begin + PANES * PANE
            found = settled(place, last)
    except EmbeddedError as error:
        section.skipped.append(f"all of this study: {error}")
        return section
    for name, windows in judged(found, counts, begin).items():
        section.tables.append(_table(name, windows))
        section.claims.append(_claim(name, windows))
    section.plots.append(_plot(judged(found, counts, begin)))
    return section


def settled(place: object, last: int) -> list[dict]:
    """All final records, once that of the last window is there."""
    until = time.monotonic() + PATIENCE
    while True:
        records = [orjson.loads(value) for versions in place.finals().values() for value in versions]
        if {kind for r in records for kind in [r["window"]["kind"]] if r["window"]["end"] == last} >= {
            "tumbling",
            "all",
        }:
            return records
        if time.monotonic() > until:
            raise TimeoutError(f"after {PATIENCE:.0f} s the window that ends at {last} is not final")
        time.sleep(1.0)


def judged(records: list[dict], counts: dict[int, Ints], begin: int) -> dict[str, list[Window]]:
    """Each kind of window's finals in the order of time."""
    found: dict[str, list[Window]] = {"1 minute": [], "all": []}
    for record in sorted(records, key=lambda r: r["window"]["end"]):
        window = record["window"]
        inside = [own for start, own in counts.items() if window["start"] <= start < window["end"]]
        if window["end"] > begin + PANES * PANE:
            continue
        if record["n"] != sum(int(own.sum()) for own in inside):
            raise ValueError(f"the window that ends at {window['end']} counts {record['n']} reports, others were sent")
        true = sum(inside) / record["n"]
        order = [int(value) for value in record["values"]]
        said, stderr = np.array(record["shares"]["unbiased"]), np.array(record["stderr"])
        low, high = np.array(record["low"]), np.array(record["high"])
        found["all" if window["kind"] == "all" else "1 minute"].append(
            Window(
                (window["end"] - begin) / 60,
                float(np.sqrt(np.mean((said - true[order]) ** 2))),
                float(np.sqrt(np.mean(stderr**2))),
                float(((low <= true[order]) & (true[order] <= high)).mean()),
            )
        )
    return found


def _table(name: str, windows: list[Window]) -> Table:
    shown = [w for w in windows if w.minute in (1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0)]
    rows = [[f"{w.minute:g}", f"{w.true:.3%}", f"{w.stated:.3%}", f"{w.covered:.3f}"] for w in shown]
    head = ["minute", "true error", "stated error", "values within their 95% intervals"]
    return Table(f"Windows: {name}", f"{len(windows)} finals.", head, rows)


def _claim(name: str, windows: list[Window]) -> Claim:
    ratio = Figure.of(w.true / w.stated for w in windows)
    covered = Figure.of(w.covered for w in windows)
    good = abs(ratio.mean - 1.0) < 0.05 and covered.mean > 0.94
    figures = f"true / stated error {ratio}, coverage {covered}, {len(windows)} finals"
    if name == "all":
        figures += " (each holds the ones before it, so these standard errors are too small)"
    return Claim(
        "hubbub", f"what the daemon publishes is as sure as it says ({name})", "yes" if good else "no", figures
    )


def _plot(found: dict[str, list[Window]]) -> Plot:
    panels = []
    for name, windows in found.items():
        x = [w.minute for w in windows]
        lines = [
            Line("true error", x, [w.true for w in windows], style="-"),
            Line("stated error", x, [w.stated for w in windows], style="-"),
        ]
        panels.append(
            Panel(f"windows: {name}", "minute", "root mean square error", lines, "y" if name == "all" else "")
        )
    return Plot("live", "An hour through the daemon: the true error of what is published, and the stated one.", panels)
