"""The fleet that a rate of reports takes: cores, workers, partitions and brokers, from what each step costs.

A worker counts in one thread, and makes records in a process beside it. The reports of a file are shared out evenly
among its queries, and those of a query among the partitions. State costs by tallies, and so by partitions, which
there are at least as many of as workers: the smallest number of workers is sought that carries what it brings about.
"""

import math
from collections.abc import Collection
from dataclasses import dataclass

from aggregator.counting.pace import RECORDS_PER_S
from aggregator.merging.windows import TRAVELS
from aggregator.plan import costs, memory
from oracles.errors import ParameterError
from oracles.frame import HEADER_SIZE, MAX_FRAME
from oracles.query import Query

CHECKPOINT_SECONDS, SHOWN_SECONDS = 0.5, 1.0
"""A tally that changes is written to the changelog, and shown to its merger, once in so many seconds."""
CLOSING = 2
"""Tallies written where a pane closes: its last one, and its deletion."""
KEY = 100
"""Bytes of a record of state beside its integers."""
ENVELOPE = 12
"""Bytes of a message in the log beside its frame."""
IDS = 9
"""Bytes that an id takes in the changelog."""
CHECKPOINT_BYTES = 32 << 20
"""A second, of a worker unless it is told otherwise."""
MOST_WORKERS = 100_000


@dataclass(frozen=True)
class Assumptions:
    """What is not measured here."""

    per_frame: int = 1000
    """Reports of a frame; fewer where it would be longer than frames may be."""
    ids: bool = True
    partitions: int = 12
    """At the least."""
    fill: float = 0.5
    """Of a core, what is busy at this rate: the rest catches up after an outage, or takes over from another worker."""
    speed: float = 1.0
    """How fast a core is beside that of docs/performance.md."""
    replicas: int = 3
    broker_rate: int = 100 << 20
    """Bytes a second that a broker takes in, the copies for others among them, and gives out as many."""
    partition_rate: int = 10 << 20
    """Bytes a second of one partition's reports."""


@dataclass(frozen=True)
class Fleet:
    """What a rate takes."""

    rate: int
    counting: float
    """Cores that are busy with reading and counting."""
    state: float
    """With the changelog and snapshots."""
    estimates: float
    """With records."""
    cores: int
    """For all of these together, as full as was assumed."""
    workers: int
    partitions: int
    brokers: int
    arriving: float
    """Bytes of reports a second, before they are copied."""
    writing: float
    """Bytes of state a second, likewise."""
    memory: int
    """Of each worker."""


def fleet(queries: Collection[Query], rate: int, given: Assumptions) -> Fleet:
    """The smallest one that carries so many reports a second."""
    share = rate / len(queries)
    frames = {query.name: share / per_frame(query, given) for query in queries}
    arriving = sum(share * query.oracle.width + frames[query.name] * (HEADER_SIZE + ENVELOPE) for query in queries)
    counting = sum(_counting(query, share, frames[query.name], given) for query in queries) / given.speed
    estimates = sum(map(records, queries)) / given.speed
    _refuse_slow(queries, given)
    workers = 1
    while True:
        partitions = _partitions(workers, arriving, given)
        state, writing = _state(queries, frames, partitions, workers, given)
        needed = max(1, math.ceil((counting + state) / given.fill), math.ceil(estimates / given.fill))
        if needed <= workers:
            break
        if needed > MOST_WORKERS:
            raise ParameterError(
                f"{rate:,} reports a second: no number of workers carries what the state of {len(queries):,} queries "
                "takes on as many partitions; a fuller core (--fill) or fewer queries would do"
            )
        workers = needed
    cores = math.ceil((counting + state + estimates) / given.fill)
    brokers = max(given.replicas, math.ceil((arriving + writing) * given.replicas / given.broker_rate))
    own = math.ceil(partitions / workers)
    return Fleet(
        rate=rate,
        counting=counting,
        state=state,
        estimates=estimates,
        cores=cores,
        workers=workers,
        partitions=partitions,
        brokers=brokers,
        arriving=arriving,
        writing=writing,
        memory=memory.worker(queries, own).total,
    )


def per_frame(query: Query, given: Assumptions) -> int:
    """Reports that a frame holds."""
    return max(1, min(given.per_frame, (MAX_FRAME - HEADER_SIZE) // query.oracle.width))


def _counting(query: Query, reports: float, frames: float, given: Assumptions) -> float:
    width, held = query.oracle.width, per_frame(query, given)
    message = costs.message(held, width, ids=given.ids, header=HEADER_SIZE + ENVELOPE)
    return frames * message + reports * costs.add(query.oracle)


def records(query: Query) -> float:
    """Seconds a second that one process takes for a query's records, provisional ones too."""
    kinds = set(query.windows)
    finals = sum(1.0 / (window.step or query.pane) for window in kinds)
    provisional = 0.0 if query.emit_every is None else len(kinds) / query.emit_every
    return costs.record(query) * (finals + provisional)


def _refuse_slow(queries: Collection[Query], given: Assumptions) -> None:
    for query in queries:
        busy = records(query) / given.speed
        if busy > 1.0:
            raise ParameterError(
                f"queries.{query.name}: its records take {busy:.1f} times as long to make as is between them, and "
                "one process makes them all; lengthen its pane, steps or emit_every, or leave calibrate out"
            )


def _partitions(workers: int, arriving: float, given: Assumptions) -> int:
    """As many for each worker, and two at least: so none waits for the fullest."""
    fewest = max(given.partitions, 2 * workers, math.ceil(arriving / given.partition_rate))
    return math.ceil(fewest / workers) * workers


def _state(
    queries: Collection[Query], frames: dict[str, float], partitions: int, workers: int, given: Assumptions
) -> tuple[float, float]:
    """The cores that records of state take, and the bytes of them; no tally changes more often than a frame comes."""
    written = shown = size = 0.0
    for query in queries:
        comes, tally = frames[query.name], KEY + TRAVELS * query.oracle.state_size
        closed = min(partitions / query.pane, comes)
        changed = min(partitions / CHECKPOINT_SECONDS, comes)
        open_ones = 0.0 if query.emit_every is None else min(partitions / SHOWN_SECONDS, comes)
        written += changed + CLOSING * closed
        shown += open_ones + closed
        size += tally * (changed + 2 * closed + open_ones) + IDS * comes * given.ids
    most, total = RECORDS_PER_S * workers, written + shown
    slowed = min(1.0, most / total) if total else 1.0
    cores = slowed * (written * costs.WRITTEN + shown * costs.SHOWN) / given.speed
    return cores, min(size, CHECKPOINT_BYTES * workers)
