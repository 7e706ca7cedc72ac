"""The cores, workers, partitions and brokers for a rate of reports, from the cost of each step: `hubbub plan --rate`.

A worker counts in one thread and makes records in another process. The plan divides the reports evenly among the
queries, and those of a query among the partitions. It searches the smallest number of workers that can do all of the
work, because more workers need more partitions, and more partitions need more work for state.
"""

import argparse
import math
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from aggregator.counting.checkpoint_plan import BYTES_PER_S, INTERVAL, RECORDS_PER_S
from aggregator.merging.windows import ENCODED_BYTES
from aggregator.plan import costs, memory
from aggregator.process.defaults import MEMORY, RETENTION
from aggregator.records.subject import value_count
from hubbub.command.old_names import add_old_name
from hubbub.command.options import add_queries, duration, duration_text, in_bytes, share, size, size_text, whole
from oracles.errors import ParameterError
from oracles.frame import HEADER_SIZE, MAX_FRAME
from oracles.query import Query
from oracles.query.footprint import INTEGER, state_bytes, tally_size
from oracles.query.settings import Window

CLOSING = 2
"""Number of changelog records when a pane closes, for its last tally and its deletion."""
KEY = 100
"""Bytes of a state record in addition to its integers."""
ENVELOPE = 12
"""Bytes of a message in the log in addition to its frame."""
IDS = 9
"""Bytes of an id in the changelog."""
MOST_WORKERS = 100_000
"""Number of workers at which the search stops."""
MOST_RATE = 10**12
_HEADS = (
    "reports/s",
    "counting",
    "state",
    "estimates",
    "cores",
    "workers",
    "partitions",
    "brokers",
    "bytes/s",
    "memory",
)


@dataclass(frozen=True)
class Assumptions:
    """The assumptions of a plan."""

    frame: int = 1000
    """Reports in a frame, or fewer if the frame would exceed the maximum length."""
    ids: bool = True
    partitions: int = 12
    """Minimum number of partitions."""
    fill: float = 0.5
    """Busy share of a core. The rest catches up after an outage, or takes over from another worker."""
    speed: float = 1.0
    """Speed of a core relative to docs/performance.md."""
    replication: int = 3
    broker_rate: int = 100 << 20
    """Bytes per second that a broker receives, replicas included, and that it sends."""
    partition_rate: int = 10 << 20
    """Bytes per second of the reports of one partition."""
    retention: int = 7 * 86_400
    """Seconds for which Kafka keeps the reports."""


@dataclass(frozen=True)
class Fleet:
    """The fleet for one rate."""

    rate: int
    counting: float
    """Cores busy with reading and counting."""
    state: float
    """Cores busy with the changelog, snapshots, and the publication of finals and their states."""
    estimates: float
    """Cores busy with estimates and records."""
    cores: int
    """Required cores at the assumed busy share."""
    workers: int
    partitions: int
    brokers: int
    arriving: float
    """Bytes of reports per second, without replicas."""
    writing: float
    """Bytes of state per second, without replicas."""
    memory: int
    """Bytes of memory of each worker."""
    disk: int
    """Bytes of the reports on all brokers, replicas included."""
    gateways: float
    """Cores of gateways at the assumed busy share, if all reports arrive over HTTP."""


def fleet(queries: Collection[Query], rate: int, assumptions: Assumptions) -> Fleet:
    """Return the smallest fleet for a rate in reports per second."""
    query_rate = rate / len(queries)
    frames = {query.name: query_rate / per_frame(query, assumptions) for query in queries}
    arriving = sum(query_rate * query.oracle.width + frames[query.name] * (HEADER_SIZE + ENVELOPE) for query in queries)
    counting = (
        sum(_counting(query, query_rate, frames[query.name], assumptions) for query in queries) / assumptions.speed
    )
    estimates = sum(map(records, queries)) / assumptions.speed

    # One process makes all records of a query, so no number of workers helps a slow one.
    _refuse_slow(queries, assumptions)

    # More workers bring more partitions, hence more work for state, so the number rises until it is enough.
    workers = 1
    while True:
        partitions = _partitions(workers, arriving, assumptions)
        state, writing = _state(queries, frames, partitions, workers, assumptions)
        # Counting and state share the thread of a worker, and estimates have a process of their own.
        minimum = max(1, math.ceil((counting + state) / assumptions.fill), math.ceil(estimates / assumptions.fill))
        if minimum <= workers:
            break
        if minimum > MOST_WORKERS:
            raise ParameterError(
                f"{rate:,} reports per second: no number of workers can do the work for the state of {len(queries):,} "
                "queries on as many partitions; raise --fill or reduce the number of queries"
            )
        workers = minimum

    cores = math.ceil((counting + state + estimates) / assumptions.fill)
    # Kafka puts each replica of a partition on a broker of its own.
    brokers = max(
        assumptions.replication, math.ceil((arriving + writing) * assumptions.replication / assumptions.broker_rate)
    )
    share_of_worker = math.ceil(partitions / workers)
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
        memory=memory.worker(queries, share_of_worker).total,
        disk=math.ceil(arriving * assumptions.retention * assumptions.replication),
        gateways=costs.gateway(rate, assumptions.frame) / assumptions.speed / assumptions.fill,
    )


def per_frame(query: Query, assumptions: Assumptions) -> int:
    """Return the number of reports in a frame."""
    return max(1, min(assumptions.frame, (MAX_FRAME - HEADER_SIZE) // query.oracle.width))


def _counting(query: Query, reports: float, frames: float, assumptions: Assumptions) -> float:
    message = costs.message(
        per_frame(query, assumptions), query.oracle.width, ids=assumptions.ids, header=HEADER_SIZE + ENVELOPE
    )
    return frames * message + reports * costs.add(query.oracle)


def records(query: Query) -> float:
    """Return the busy share of the process that makes a query's records, provisional ones included."""
    return costs.record(query) * (costs.finals(query) + costs.provisional_records(query))


def _refuse_slow(queries: Collection[Query], assumptions: Assumptions) -> None:
    for query in queries:
        busy = records(query) / assumptions.speed
        if busy > 1.0:
            raise ParameterError(
                f"queries.{query.name}: one process makes all its records and would be {busy:.1f} times too slow; "
                "lengthen its pane, steps or emit_every, or leave calibrate out"
            )


def _partitions(workers: int, arriving: float, assumptions: Assumptions) -> int:
    """Return the number of partitions, which is equal for each worker and at least two, so that the load is even."""
    fewest = max(assumptions.partitions, 2 * workers, math.ceil(arriving / assumptions.partition_rate))
    return math.ceil(fewest / workers) * workers


def _state(
    queries: Collection[Query], frames: dict[str, float], partitions: int, workers: int, assumptions: Assumptions
) -> tuple[float, float]:
    """Return the cores and bytes per second for state. A tally changes at most as often as frames arrive."""
    writes = 0.0
    snapshots = 0.0
    finals = 0.0
    volume = 0.0
    for query in queries:
        arrivals = frames[query.name]
        tally = KEY + ENCODED_BYTES * tally_size(query)
        slots = query.slot_count(partitions)
        closes = min(slots / query.pane, arrivals)
        changes = min(slots / INTERVAL, arrivals)
        is_long = any(window.kind != "all" and window.size > query.pane for window in query.windows)
        totals = min(1 / query.pane, arrivals) if is_long else 0.0

        writes += changes + CLOSING * closes
        snapshots += closes + totals
        finals += min(costs.finals(query), arrivals)
        volume += tally * (changes + 2 * closes + totals) + IDS * arrivals * assumptions.ids
        volume += sum(
            min(1 / (window.step or query.pane), arrivals) * state_size(query, window) for window in query.windows
        )

    # A worker limits its records a second, so a busy one writes the same tally less often.
    limit = RECORDS_PER_S * workers
    total = writes + snapshots
    throttle = min(1.0, limit / total) if total else 1.0
    cores = throttle * (writes * costs.CHANGELOG + snapshots * costs.SNAPSHOT) + finals * costs.FINAL
    return cores / assumptions.speed, min(volume, BYTES_PER_S * workers)


def state_size(query: Query, window: Window) -> int:
    """Return the usual bytes of the state after a final: the total of `all`, or the windows to compare with."""
    return KEY + ENCODED_BYTES * state_bytes(window, tally_size(query), value_count(query)) // INTEGER


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add `--rate` and the options of its assumptions."""
    group = parser.add_argument_group("capacity for a rate")
    defaults = Assumptions()

    rates = "reports per second of all queries in the file together, such as 1e6; separate several with commas"
    group.add_argument("--rate", type=_rates, metavar="N[,N...]", help=rates)
    add_queries(parser)
    frame = f"reports in a frame (default: {defaults.frame:,})"
    option = group.add_argument("--frame", type=whole(1, 10**6), default=defaults.frame, metavar="N", help=frame)
    add_old_name(parser, "--per-frame", option)
    group.add_argument("--no-ids", dest="ids", action="store_false", help="plan for frames without ids")

    minimum = f"minimum number of partitions of the reports (default: {defaults.partitions})"
    group.add_argument("--partitions", type=whole(1, 10_000), default=defaults.partitions, metavar="N", help=minimum)
    busy = f"busy share of each core at this rate (default: {defaults.fill:g})"
    group.add_argument("--fill", type=share, default=defaults.fill, metavar="F", help=busy)
    speed = f"speed of a core relative to docs/performance.md (default: {defaults.speed:g}; "
    speed += "benchmarks/costs.py measures it)"
    group.add_argument("--speed", type=_speed, default=defaults.speed, metavar="X", help=speed)

    copies = f"number of copies of each partition (default: {defaults.replication})"
    count = defaults.replication
    option = group.add_argument("--replication", type=whole(1, 100), default=count, metavar="R", help=copies)
    add_old_name(parser, "--replicas", option)
    keep = "time for which Kafka keeps the reports, such as 12h or 7d, for the disk"
    keep += f" (default: {duration_text(defaults.retention)})"
    group.add_argument("--retention", type=duration, default=defaults.retention, metavar="TIME", help=keep)
    broker = "bytes per second that a broker receives, replicas included; it sends as many"
    broker += f" (default: {size_text(defaults.broker_rate)})"
    group.add_argument("--broker-rate", type=_rate_size, default=defaults.broker_rate, metavar="SIZE", help=broker)
    most = defaults.partition_rate
    partition = f"bytes per second of the reports of one partition (default: {size_text(most)})"
    group.add_argument("--partition-rate", type=_rate_size, default=most, metavar="SIZE", help=partition)


def _rates(text: str) -> list[int]:
    return [whole(1, MOST_RATE)(rate) for rate in text.split(",")]


def _speed(text: str) -> float:
    # float() alone also takes spellings such as 1_0, which no other option takes.
    number = float(text) if re.fullmatch(r"[0-9]{1,3}(\.[0-9]{1,6})?", text) else 0.0
    if not 0.01 <= number <= 100:
        raise argparse.ArgumentTypeError(f"must be a number from 0.01 to 100, got {text!r}")
    return number


def _rate_size(text: str) -> int:
    number = size(text)
    if number < 1024:
        raise argparse.ArgumentTypeError(f"must be at least 1KiB, got {text!r}")
    return number


def lines(file: str, queries: Collection[Query], fleets: Sequence[Fleet], assumptions: Assumptions) -> Iterator[str]:
    """Yield the assumptions and a line for each rate, in at most 100 columns."""
    ids = "with ids" if assumptions.ids else "without ids"
    content = f"{assumptions.frame:,} reports" if assumptions.frame > 1 else "one report"
    number = f"{len(queries):,} queries" if len(queries) != 1 else "1 query"
    yield f"{number} of {file}, frames of {content} {ids}, a core {assumptions.fill:.0%} busy"
    yield (
        f"brokers: {assumptions.replication} replicas, {in_bytes(assumptions.broker_rate)}/s each; a partition: "
        f"{in_bytes(assumptions.partition_rate)}/s"
    )

    need = sum(map(costs.finals, queries))
    core_share = costs.publishing(queries, assumptions.partitions) / assumptions.speed
    cpu = f"{1000 * core_share / need:,.3g} ms of CPU each"
    yield f"finals: {need:,.3g} per second; with few reports worker and estimator use {core_share:.2g} cores, {cpu}"
    days = f"{assumptions.retention / 86_400:,.3g} days"
    yield f"disk for {days} of reports, replicas included: {', '.join(in_bytes(fleet.disk) for fleet in fleets)}"
    cores = ", ".join(f"{fleet.gateways:,.1f}" for fleet in fleets)
    yield f"gateways: {cores} cores, if all reports arrive in requests of {content}"
    yield f"a board: {in_bytes(memory.board(queries, RETENTION, MEMORY))} of memory for {RETENTION // 3600} hours"
    yield "counting, state, estimates: busy cores; cores: required cores; memory: of each worker"
    yield ""

    rows = [_HEADS, *map(_cells, fleets)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()


def _cells(fleet: Fleet) -> Sequence[str]:
    busy = (f"{cores:,.2f}" if cores >= 0.01 else "<0.01" for cores in (fleet.counting, fleet.state, fleet.estimates))
    whole_numbers = (f"{number:,}" for number in (fleet.cores, fleet.workers, fleet.partitions, fleet.brokers))
    return f"{fleet.rate:,}", *busy, *whole_numbers, in_bytes(fleet.arriving), in_bytes(fleet.memory)
