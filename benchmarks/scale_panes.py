"""Work of a fleet that grows with its partitions: a pane without reports, a frame among many queries, a rebalance."""

import asyncio
import time
from math import ceil
from random import Random
from typing import NamedTuple

import numpy as np

from aggregator.counting.admission.gate import Gate
from aggregator.counting.assignment import Claim, assign
from aggregator.counting.partition import SourcePartition
from aggregator.tallies.clock_book import ClockBook
from aggregator.tallies.clock_record import clock_key
from aggregator.tallies.clock_record import encode as encode_clock
from benchmarks.harness import show, table_of
from hubbub.definitions.versions import Versions
from hubbub.kafka.columns import RecordColumns
from oracles.frame import encode
from oracles.query import Query, parse
from tests.clock_panes import PANE, START, QuietMerger, records_of_a_pane, worker_of

ROUNDS = 5
"""Measurements of which the least counts."""
FRAMES = 6_000
"""Frames of a run."""
REPORTS = 100
"""Reports of a frame, and the mean of varied ones."""


class Size(NamedTuple):
    """The size of a fleet."""

    partitions: int
    queries: int
    workers: int

    @property
    def share(self) -> range:
        """The partitions of the worker with most of them."""
        return range(ceil(self.partitions / self.workers))

    def __str__(self) -> str:
        return f"{self.partitions:,} x {self.queries:,}"


SIZES = (Size(16, 100, 2), Size(64, 1_000, 7), Size(256, 3_000, 1), Size(1_000, 3_000, 100))


def pane() -> None:
    """Print the records, bytes and CPU of a pane without reports."""
    rows = []
    for size in SIZES:
        records = records_of_a_pane(size.partitions, size.share, size.queries)
        clocks = sum(topic == "clocks" for topic, *_ in records)
        volume = sum(len(key) + len(value or b"") for _, key, value in records)
        progress = {len(value) for topic, _, value in records if topic == "changelog" and value is not None}
        counting, merging = pane_seconds(size)
        numbers = (size.workers, clocks * size.workers, volume * size.workers, *progress)
        seconds = (counting * size.workers, merging * size.workers, 100 * (counting + merging) / PANE)
        cells = [*(f"{number:,}" for number in numbers), *(f"{second:.3f}" for second in seconds)]
        rows.append((str(size), *cells))
    heads = ("partitions x queries", "workers", "clock records", "bytes", "of a progress")
    show(table_of((*heads, "CPU of counting, s", "of merging, s", "of one worker, % of a core"), rows))


def pane_seconds(size: Size) -> tuple[float, float]:
    """Return the CPU seconds of one worker in a pane without reports: to count and to merge."""
    counting = []
    merging = []
    for _ in range(ROUNDS):
        worker = worker_of(size.partitions, size.share, size.queries)
        start = time.process_time()
        asyncio.run(worker.pane())
        counting.append(time.process_time() - start)

        # Every worker reads the records of all, and closes the panes of the queries at its homes.
        merger = QuietMerger(size.partitions, size.share, size.queries)
        records = clock_records(size, worker.book)
        start = time.process_time()
        merger.read(records)
        merging.append(time.process_time() - start)
    return min(counting), min(merging)


def clock_records(size: Size, book: ClockBook) -> list[tuple[bytes, bytes]]:
    """Return the record of each worker after a pane."""
    shares = assign({f"{number:04}": Claim() for number in range(size.workers)}, size.partitions)
    records = []
    for place, numbers in enumerate(shares.values()):
        record = book.record(dict.fromkeys(numbers, 1000 * (START + 2 * PANE)))
        records.append((clock_key(f"{place:016x}", 0), encode_clock(record)))
    return records


def frame(counts: list[int]) -> None:
    """Print the CPU of a frame of 100 reports among several numbers of queries."""
    rows = []
    for count in counts:
        equal = frame_seconds(count, is_varied=False)
        varied = frame_seconds(count, is_varied=True)
        rows.append((f"{count:,}", f"{1e6 * equal:.2f}", f"{1e6 * varied:.2f}", f"{varied / equal:.2f}"))
    show(table_of(("queries", "CPU of a frame of 100 reports, us", "of 50 to 150 reports, us", "ratio"), rows))


def frame_seconds(count: int, *, is_varied: bool) -> float:
    """Return the least CPU seconds of a frame, its count included. The tallies exist already."""
    queries = queries_of(count)
    rng = np.random.default_rng(1)
    # Reports of all queries are alike, and an id that came before would be a duplicate.
    pool = queries[0].oracle.perturb(rng.integers(0, 64, 2 * REPORTS), rng)
    draw = Random(1)
    source = SourcePartition(Gate(0, 1, {query.digest: Versions.of(query) for query in queries}), "one")
    seconds = []
    for turn in range(ROUNDS + 1):
        run = []
        for offset in range(turn * FRAMES, (turn + 1) * FRAMES):
            query = queries[draw.randrange(count)]
            size = draw.randint(REPORTS // 2, 3 * REPORTS // 2) if is_varied else REPORTS
            frame = encode(query.digest, START, pool[:size], (offset + 1).to_bytes(8, "little"))
            run.append((offset, 1000 * START, frame))
        columns = RecordColumns.of(run)
        start = time.process_time()
        source.take(columns)
        seconds.append(time.process_time() - start)
    # The first turn makes the tallies.
    return min(seconds[1:]) / FRAMES


def queries_of(count: int) -> list[Query]:
    table = {"domain": 64, "oracle": "olh", "epsilon": 1.0, "budget": 1e9, "pane": f"{PANE}s", "windows": ["10s"]}
    return [*parse({"queries": {f"query-{number:04}": table for number in range(count)}}, "benchmark", ".").values()]


def moves() -> None:
    """Print the partitions that move in a rebalance."""
    rows = []
    for partitions, workers in ((1_000, 64), (1_000, 100), (1_000, 101), (64, 7)):
        claims = {f"{number:04}": Claim() for number in range(workers)}
        shares = assign(claims, partitions)
        claims = {name: Claim(frozenset(numbers), 1) for name, numbers in shares.items()}
        _, *remaining_names = claims
        groups = (claims, claims | {"new": Claim()}, {name: claims[name] for name in remaining_names})
        counts = [str(moved_count(shares, assign(group, partitions))) for group in groups]
        rows.append((f"{partitions:,}", f"{workers}", *counts, str(ceil(partitions / workers))))
    show(table_of(("partitions", "workers", "moves without a change", "one joins", "one leaves", "a share"), rows))


def moved_count(shares: dict[str, list[int]], results: dict[str, list[int]]) -> int:
    """Return how many partitions have another owner than before."""
    return sum(len({*numbers} - {*shares.get(name, ())}) for name, numbers in results.items())
