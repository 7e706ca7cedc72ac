"""The options and the output of `hubbub plan --rate`, which predicts the capacity for rates of reports."""

import argparse
import re
from collections.abc import Collection, Iterator, Sequence

from aggregator.plan import costs, memory
from aggregator.plan.fleet import Assumptions, Fleet
from aggregator.process.defaults import MEMORY, RETENTION
from hubbub.command.options import add_queries, duration, duration_text, in_bytes, share, size, size_text, whole
from oracles.query import Query

MOST_RATE = 10**12
_HEADS = (
    *("reports/s", "counting", "state", "estimates", "cores", "workers", "partitions", "brokers"),
    *("bytes/s", "memory"),
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add `--rate` and the options of its assumptions."""
    group, defaults = parser.add_argument_group("capacity for a rate"), Assumptions()
    rates = "reports per second of all queries in the file together, such as 1e6; separate several with commas"
    group.add_argument("--rate", type=_rates, metavar="N[,N...]", help=rates)
    add_queries(parser)
    frame = f"reports in a frame (default: {defaults.per_frame:,})"
    group.add_argument("--per-frame", type=whole(1, 1_000_000), default=defaults.per_frame, metavar="N", help=frame)
    group.add_argument("--no-ids", dest="ids", action="store_false", help="plan for frames without ids")
    minimum = f"minimum number of partitions of the reports (default: {defaults.partitions})"
    group.add_argument("--partitions", type=whole(1, 10_000), default=defaults.partitions, metavar="N", help=minimum)
    busy = f"busy share of each core at this rate (default: {defaults.fill:g})"
    group.add_argument("--fill", type=share, default=defaults.fill, metavar="F", help=busy)
    speed = f"speed of a core relative to docs/performance.md (default: {defaults.speed:g}; "
    speed += "benchmarks/costs.py measures it)"
    group.add_argument("--speed", type=_speed, default=defaults.speed, metavar="X", help=speed)
    replicas = f"replicas of each partition (default: {defaults.replicas})"
    group.add_argument("--replicas", type=whole(1, 100), default=defaults.replicas, metavar="R", help=replicas)
    keep = "time for which Kafka keeps the reports, such as 12h or 7d, for the disk"
    keep += f" (default: {duration_text(defaults.retention)})"
    group.add_argument("--retention", type=duration, default=defaults.retention, metavar="D", help=keep)
    broker = "bytes per second that a broker receives, replicas included; it sends as many"
    broker += f" (default: {size_text(defaults.broker_rate)})"
    group.add_argument("--broker-rate", type=_rate_size, default=defaults.broker_rate, metavar="SIZE", help=broker)
    partition = f"bytes per second of the reports of one partition (default: {size_text(defaults.partition_rate)})"
    group.add_argument(
        "--partition-rate", type=_rate_size, default=defaults.partition_rate, metavar="SIZE", help=partition
    )


def _rates(text: str) -> list[int]:
    return [whole(1, MOST_RATE)(each) for each in text.split(",")]


def _speed(text: str) -> float:
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
    content = f"{assumptions.per_frame:,} reports" if assumptions.per_frame > 1 else "one report"
    number = f"{len(queries):,} queries" if len(queries) != 1 else "1 query"
    yield f"{number} of {file}, frames of {content} {ids}, a core {assumptions.fill:.0%} busy"
    yield (
        f"brokers: {assumptions.replicas} replicas, {in_bytes(assumptions.broker_rate)}/s each; a partition: "
        f"{in_bytes(assumptions.partition_rate)}/s"
    )
    need, delivers = sum(map(costs.finals, queries)), costs.deliverable_finals(queries) * assumptions.speed
    yield f"finals: {need:,.3g} per second needed; a core busy with them delivers about {delivers:,.3g}"
    days = f"{assumptions.retention / 86_400:,.3g} days"
    yield f"disk for {days} of reports, replicas included: {', '.join(in_bytes(each.disk) for each in fleets)}"
    cores = ", ".join(f"{each.gateways:,.1f}" for each in fleets)
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
