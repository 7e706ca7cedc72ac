"""The capacity that rates of reports take, as `hubbub plan --rate` asks for it and prints it."""

import argparse
import re
from collections.abc import Iterator, Sequence

from aggregator.plan.fleet import Assumptions, Fleet
from hubbub.options import add_queries, in_bytes, share, size, whole

MOST_RATE = 10**12
_HEADS = (
    *("reports/s", "counting", "state", "estimates", "cores", "workers", "partitions", "brokers"),
    *("bytes/s", "memory"),
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """All of `--rate`."""
    group, usual = parser.add_argument_group("what a rate takes"), Assumptions()
    several = "reports a second, of all queries of the file together, such as 1e6; several with commas"
    group.add_argument("--rate", type=_rates, metavar="N[,N...]", help=several)
    add_queries(parser)
    of = f"reports of a frame (default: {usual.per_frame:,})"
    group.add_argument("--per-frame", type=whole(1, 1_000_000), default=usual.per_frame, metavar="N", help=of)
    group.add_argument("--no-ids", dest="ids", action="store_false", help="frames have no ids")
    least = f"of the reports, at the least (default: {usual.partitions})"
    group.add_argument("--partitions", type=whole(1, 10_000), default=usual.partitions, metavar="N", help=least)
    full = f"of each core, the share that is busy at this rate (default: {usual.fill:g})"
    group.add_argument("--fill", type=share, default=usual.fill, metavar="F", help=full)
    fast = "how fast a core is beside that of docs/performance.md (default: 1; benchmarks/costs.py measures it)"
    group.add_argument("--speed", type=_speed, default=usual.speed, metavar="X", help=fast)
    copies = f"copies that brokers keep (default: {usual.replicas})"
    group.add_argument("--replicas", type=whole(1, 100), default=usual.replicas, metavar="R", help=copies)
    each = "bytes a second that a broker takes in, copies among them, and gives out as many (default: 100MiB)"
    group.add_argument("--broker-rate", type=_some, default="100MiB", metavar="SIZE", help=each)
    one = "bytes a second of one partition's reports (default: 10MiB)"
    group.add_argument("--partition-rate", type=_some, default="10MiB", metavar="SIZE", help=one)


def _rates(text: str) -> list[int]:
    return [whole(1, MOST_RATE)(each) for each in text.split(",")]


def _speed(text: str) -> float:
    number = float(text) if re.fullmatch(r"[0-9]{1,3}(\.[0-9]{1,6})?", text) else 0.0
    if not 0.01 <= number <= 100:
        raise argparse.ArgumentTypeError(f"must be a number from 0.01 to 100, got {text!r}")
    return number


def _some(text: str) -> int:
    number = size(text)
    if number < 1024:
        raise argparse.ArgumentTypeError(f"must be at least 1KiB, got {text!r}")
    return number


def lines(file: str, queries: int, fleets: Sequence[Fleet], assumed: Assumptions) -> Iterator[str]:
    """A line for each rate, in at most 100 columns, and what they rest upon."""
    ids = "with ids" if assumed.ids else "without ids"
    held = f"{assumed.per_frame:,} reports" if assumed.per_frame > 1 else "one report"
    many = f"{queries:,} queries" if queries != 1 else "1 query"
    yield f"{many} of {file}, frames of {held} {ids}, a core {assumed.fill:.0%} busy"
    yield (
        f"brokers: {assumed.replicas} replicas, {in_bytes(assumed.broker_rate)}/s each; a partition: "
        f"{in_bytes(assumed.partition_rate)}/s"
    )
    yield "counting, state, estimates: busy cores; cores: to have; memory: of a worker"
    yield ""
    rows = [_HEADS, *map(_cells, fleets)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()


def _cells(found: Fleet) -> Sequence[str]:
    busy = (f"{cores:,.2f}" if cores >= 0.01 else "<0.01" for cores in (found.counting, found.state, found.estimates))
    whole_numbers = (f"{number:,}" for number in (found.cores, found.workers, found.partitions, found.brokers))
    return f"{found.rate:,}", *busy, *whole_numbers, in_bytes(found.arriving), in_bytes(found.memory)
