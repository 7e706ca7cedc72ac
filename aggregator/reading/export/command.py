"""The command `hubbub export`, which writes published estimates as CSV, lines of JSON or Parquet."""

import argparse
import asyncio
import csv
import sys
import time
from itertools import chain
from pathlib import Path
from typing import TextIO

import orjson

from aggregator.reading.export.finals import finals, next_final
from aggregator.reading.export.reader import table
from aggregator.reading.tail.notation import escaped, escaped_json
from aggregator.records.flat_rows import record_filter, rows
from aggregator.records.record import Record
from aggregator.records.row_columns import COLUMNS
from aggregator.records.rows import cell
from hubbub.command.options import add_kafka, moment, parser_of, run
from hubbub.kafka.settings import Kafka
from oracles.errors import HubbubError, extra

HELP = """\
Write the published finals of a query as a table. Each row is one value of a window and attribute: its
share by every method, standard error, 95% interval, whether it is proved frequent, and the flags. Of
numbers each row is a quantile, a mean or a range, with its interval.

example:
  $ hubbub export --query homepage --from 2026-11-01 --to 2026-11-02 > day.csv
  $ hubbub export --query homepage --kind tumbling --format parquet --output homepage.parquet

Exit code: 0 done; 2 wrong options, or there is no such query; 3 Kafka cannot be reached; 4 the topic is
missing; 1 other errors."""
FORMATS = ("csv", "jsonl", "parquet")


def main(arguments: list[str]) -> int:
    options = _options(arguments)
    return run("export", lambda: asyncio.run(_export(Kafka.read(options), options)))


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = parser_of("export", HELP)
    add_kafka(parser)
    parser.add_argument("--query", required=True, metavar="Q", help="name of the query")
    earliest = "earliest end of a window: a date, a time (UTC if it has no zone) or Unix seconds"
    parser.add_argument("--from", type=moment, dest="since", default=0, metavar="TIME", help=earliest)
    limit = "upper limit of the end of a window, excluded"
    parser.add_argument("--to", type=moment, dest="until", metavar="TIME", help=limit)
    parser.add_argument("--kind", choices=("tumbling", "hopping", "all"), help="only windows of this kind")
    group = "only this group, or (none) for reports without a group (default: the total of all groups)"
    parser.add_argument("--group", metavar="VALUE", help=group)
    parser.add_argument("--all-groups", action="store_true", help="the total and each group")
    ask = "share of this string, of a query of unknown strings, in place of the names found; repeatable"
    parser.add_argument("--ask", action="append", metavar="TEXT", help=ask)
    parser.add_argument("--format", choices=FORMATS, default="csv", help="format of the output (default: csv)")
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="file to write; required for parquet (default: standard output)"
    )
    options = parser.parse_args(arguments)

    if options.format == "parquet" and options.output is None:
        parser.error("--format parquet needs --output FILE")
    if options.until is not None and options.until <= options.since:
        parser.error("--to must be later than --from")
    if options.group is not None and options.all_groups:
        parser.error("--group and --all-groups exclude each other")
    if options.output is not None and not options.output.absolute().parent.is_dir():
        parser.error(f"--output: folder {options.output.parent} does not exist")
    if options.output is not None and options.output.is_dir():
        parser.error(f"--output: {options.output} is a folder; name a file in it")
    return options


async def _export(kafka: Kafka, options: argparse.Namespace) -> None:
    if options.format == "parquet":
        with extra("read"):
            import polars as pl  # noqa: F401 - fails before the topic is read

    is_match = record_filter(options.since, options.until, options.kind, options.group, all_groups=options.all_groups)
    progress = _progress if sys.stderr.isatty() else None
    groups = [] if options.group is None else [options.group]
    records = await finals(kafka, options.query, is_match, progress, options.ask, groups=groups)

    _write_to(options.output, records, options.format)
    # A script that keeps the standard error gets no line more than before.
    is_open = options.until is None or options.until > time.time()
    if progress is not None and records and is_open:
        sys.stderr.write(f"{await next_final(kafka, options.query)}\n")


def _write_to(path: Path | None, records: list[Record], form: str) -> None:
    if path is None:
        _write(records, form, sys.stdout)
        return
    try:
        _save(records, form, path)
    except OSError as error:
        raise HubbubError(f"{path} cannot be written: {error.strerror or error}") from error


def _progress(count: int, total: int) -> None:
    # The number stays on one line of the terminal until the last one.
    sys.stderr.write(f"\r{count:,} of {total:,} records read{chr(10) if count >= total else ''}")


def _save(records: list[Record], form: str, path: Path) -> None:
    if form == "parquet":
        table(records).write_parquet(path)
        return
    # The writer ends its lines itself. Some systems would add another carriage return.
    with path.open("w", encoding="utf-8", newline="") as file:
        _write(records, form, file)


def _write(records: list[Record], form: str, file: TextIO) -> None:
    all_rows = chain.from_iterable(map(rows, records))
    if form == "jsonl":
        whole_rows = ({name: row.get(name) for name in COLUMNS} for row in all_rows)
        file.writelines(escaped_json(orjson.dumps(row).decode()) + "\n" for row in whole_rows)
        return

    # RFC 4180 asks for this end of a line on every system.
    writer = csv.writer(file, lineterminator="\r\n")
    writer.writerow(COLUMNS)
    # In a file the bytes of a name stay as they are.
    write_name = escaped if file.isatty() else str
    writer.writerows([write_name(cell(row.get(name))) for name in COLUMNS] for row in all_rows)
