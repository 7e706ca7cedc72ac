"""The command `hubbub audit`, which counts the log again and compares the published records byte for byte."""

import argparse
import asyncio
import sys
from collections.abc import Collection, Iterator
from itertools import chain
from typing import Any

from aiokafka import TopicPartition

from aggregator.reading.audit.comparison import compare
from aggregator.reading.audit.fold import Fold
from aggregator.records.maps_record import maps_name
from hubbub.command.options import add_kafka, add_max_frame, moment, parser_of
from hubbub.command.report import Report, add_format
from hubbub.definitions import formats
from hubbub.definitions.catalog import Definitions
from hubbub.definitions.follower import Follower
from hubbub.kafka.clients import partitions
from hubbub.kafka.columns import UNTRUSTED
from hubbub.kafka.log_reader import open_log
from hubbub.kafka.settings import ALERTS, ESTIMATES, LARGEST, MAPS, QUERIES, REPORTS, Kafka

BEFORE = 3600
"""Seconds of the log to read before the range, so that the clocks have their former values."""
MAPS_VERSION = 3
"""The formats version from which maps have a topic of their own."""
MOST_FAULTS = 20
"""Maximum number of wrong records to list."""
PROGRESS = 500_000
"""Records between two lines of progress."""

HELP = """\
Count the log again, by the definitions of their topic, and compare each final record
with the published one, byte for byte. With --from the audit compares only tumbling and hopping windows
within the range, from the end of the first one that shows values. Without it, it also compares windows
since the start, and alerts. Incomplete windows are not compared, since the log has lost some of their
reports. Behind them the audit continues at the end of the next window that shows values. Names of
unknown strings depend on all earlier searches, so with --from only the counts of their maps are compared.

example:
  $ hubbub audit --from 2026-01-01T10:00:00Z --to 2026-01-01T11:00:00Z
  720 of 720 records match the log
  not compared: windows since the start; alerts; ...

Exit code: 0 all records match; 2 wrong options; 3 Kafka cannot be reached; 4 a record differs or is
missing, and a line names it."""


def main(arguments: list[str]) -> int:
    parser = parser_of("audit", HELP)
    add_kafka(parser, embedded=True)
    add_max_frame(parser)
    start = "start of the range: a date, a time (UTC if it has no zone) or Unix seconds (default: the whole log)"
    parser.add_argument("--from", dest="start", type=moment, metavar="TIME", help=start)
    end = "end of the range (default: the end of the log)"
    parser.add_argument("--to", dest="end", type=moment, metavar="TIME", help=end)
    add_format(parser)
    options = parser.parse_args(arguments)
    report = Report("audit", options)
    return report.run(lambda: asyncio.run(_audit(Kafka.read(options), report, options)))


async def _audit(kafka: Kafka, report: Report, options: argparse.Namespace) -> int:
    counts = await partitions(kafka, REPORTS, QUERIES, ESTIMATES, ALERTS)
    async with Follower(kafka) as follower:
        catalog = follower.definitions
    # A higher version may change how reports count, and all records would seem wrong.
    formats.refuse_higher(catalog.formats)
    if catalog.formats.version >= MAPS_VERSION:
        counts |= await partitions(kafka, MAPS)

    fold = Fold(catalog, counts[REPORTS], log_has_time=kafka.dialect.log_has_time, limit=options.max_frame)
    for partition in range(counts[REPORTS]):
        await _read(kafka, fold, partition, catalog, options)

    records = await _newest(kafka, ESTIMATES, counts[ESTIMATES])
    if MAPS in counts:
        maps = await _newest(kafka, MAPS, counts[MAPS])
        records |= {maps_name(key): value for key, value in maps.items()}
    comparison = compare(fold, catalog, records, options.start, options.end)
    # Alerts depend on all finals before them, so a range cannot tell which are right.
    if options.start is None:
        records |= await _newest(kafka, ALERTS, counts[ALERTS])

    expected = comparison.expected
    faults = sorted(key for key in expected if not comparison.is_right(key, records.get(key)))
    differences = {key: comparison.older_difference(key, records.get(key)) for key in faults}
    older = {key: text for key, text in differences.items() if text is not None}
    faults = [key for key in faults if key not in older]
    for key, text in sorted(older.items())[:MOST_FAULTS]:
        report.remark(f"{key.decode()}: an older release made it, {text}")
    match_count = len(expected) - len(faults) - len(older)
    faults += sorted(key for key in comparison.compared if key not in expected)
    for key in faults[:MOST_FAULTS]:
        fault = "differs from the log" if key in records else "is missing"
        report.fault(f"{key.decode()}: {fault}")
    if len(faults) > MOST_FAULTS:
        report.fault(f"and {len(faults) - MOST_FAULTS} more")

    exclusions = [*_exclusions(fold, catalog, options, comparison.incomplete)]
    if comparison.older_maps:
        exclusions.append(f"maps of {comparison.older_maps} finals from before the rise of the formats version")
    if comparison.older_names:
        exclusions.append(f"names of {', '.join(sorted(comparison.older_names))}, which an older release has searched")
    report.say(f"{match_count} of {len(expected)} records match the log\n")
    report.say(f"not compared: {'; '.join(exclusions)}\n")
    report.members |= {
        "records": len(expected),
        "matching": match_count,
        "wrong": [key.decode(errors="replace") for key in faults],
        "of_older_release": [key.decode(errors="replace") for key in sorted(older)],
        "not_compared": exclusions,
    }
    return 4 if faults else 0


async def _read(kafka: Kafka, fold: Fold, partition: int, catalog: Definitions, options: argparse.Namespace) -> None:
    tp = TopicPartition(kafka.topic(REPORTS), partition)
    fetch = max(4 << 20, 2 * options.max_frame)
    async with open_log(kafka, {REPORTS: [partition]}, max_partition_fetch_bytes=fetch) as log_reader:
        await _seek(log_reader.consumer, tp, catalog, options.start)
        trusts_all = not kafka.dialect.log_has_time
        count = 0
        async for batches in log_reader.batches_to_end(
            beyond=True, stop=lambda: options.end is not None and fold.has_passed(partition, options.end)
        ):
            run = []
            for record in batches.get(tp, []):
                # The embedded broker keeps the producer's time, and the worker counts by it there.
                time = record.timestamp if record.timestamp_type or trusts_all else UNTRUSTED
                run.append((record.offset, time, record.value))
            fold.read(partition, run)

            if (count + len(run)) // PROGRESS > count // PROGRESS:
                sys.stderr.write(f"partition {partition}: offset {run[-1][0]} of {log_reader.ends[tp]}\n")
            count += len(run)


async def _seek(reader: Any, tp: TopicPartition, catalog: Definitions, start: int | None) -> None:
    """Move the reader to one hour before the first possible report of the range, by the broker's index of times."""
    if start is None:
        return

    skew = max((versions.skew for versions in catalog.versions.values()), default=0)
    position = (await reader.offsets_for_times({tp: max(0, start - skew - BEFORE) * 1000}))[tp]
    if position is None:
        # No record is that late, so this partition has none of the range.
        await reader.seek_to_end(tp)
    else:
        reader.seek(tp, position.offset)


async def _newest(kafka: Kafka, name: str, count: int) -> dict[bytes, bytes]:
    """Return the newest value of each key of a topic."""
    values: dict[bytes, bytes] = {}
    async with open_log(kafka, {name: range(count)}, max_partition_fetch_bytes=LARGEST) as log_reader:
        async for batches in log_reader.batches_to_end(beyond=True):
            for record in chain(*batches.values()):
                # Compaction comes late, so older values of a key may still be there.
                values[record.key] = record.value
    return values


def _exclusions(
    fold: Fold, catalog: Definitions, options: argparse.Namespace, incomplete: Collection[str]
) -> Iterator[str]:
    """Yield which windows were not compared."""
    if options.start is not None:
        yield "windows since the start"
        yield "alerts"
        yield "windows that begin before the first one with values"
    if options.end is not None:
        yield "windows that end after --to"
    if incomplete:
        names = ", ".join(sorted(incomplete))
        yield f"windows of {names} from an incomplete one to the end of the next one with values"

    unread = [versions.query.name for versions in catalog.versions.values() if fold.through(versions) is None]
    if unread:
        yield f"windows of {', '.join(unread)}: a partition has no record in the range"
    yield "windows that the log has not closed"
