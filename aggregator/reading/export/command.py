"""`hubbub export`: published estimates as CSV, lines of JSON or Parquet."""

import argparse
import asyncio
import csv
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

import orjson

from aggregator.publishing.cell import cell
from aggregator.publishing.record_reader import Record
from aggregator.reading.export.finals import finals
from aggregator.reading.export.reader import table
from aggregator.reading.export.table import columns, rows, wanted
from hubbub.kafka import Kafka
from hubbub.options import add_kafka, parser_of, run
from oracles.errors import extra

HELP = """\
Write the published finals of a query: a row a value of each window and attribute, with its shares by
every method, its standard error and 95% interval, whether it is proved frequent, and the flags.

example:
  $ hubbub export --query homepage --from 2026-11-01 --to 2026-11-02 > day.csv
  $ hubbub export --query homepage --kind tumbling --format parquet --output homepage.parquet

Exit code: 0 done; 2 wrong options; 3 Kafka cannot be reached; 4 the topic is missing; 1 anything else."""
FORMATS = ("csv", "jsonl", "parquet")


def main(arguments: list[str]) -> int:
    options = _options(arguments)
    return run("export", lambda: asyncio.run(_export(Kafka.read(options), options)))


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = parser_of("export", HELP)
    add_kafka(parser)
    parser.add_argument("--query", required=True, metavar="Q", help="its name")
    since, until = "windows that end then or later, UTC", "windows that end earlier, UTC"
    parser.add_argument("--from", type=moment, dest="since", default=0, metavar="TIME", help=since)
    parser.add_argument("--to", type=moment, dest="until", metavar="TIME", help=until)
    parser.add_argument("--kind", choices=("tumbling", "hopping", "all"), help="windows of this kind only")
    parser.add_argument("--format", choices=FORMATS, default="csv", help="default: csv")
    parser.add_argument("--output", type=Path, metavar="FILE", help="default: the standard output; needed for parquet")
    options = parser.parse_args(arguments)
    if options.format == "parquet" and options.output is None:
        parser.error("--format parquet needs --output FILE")
    if options.until is not None and options.until <= options.since:
        parser.error("--to must be later than --from")
    if options.output is not None and not options.output.absolute().parent.is_dir():
        parser.error(f"--output: there is no folder {options.output.parent}")
    return options


def moment(text: str) -> int:
    """Unix seconds of "2026-11-01", "2026-11-01T12:30" (UTC) or "1700000000"."""
    if text.isascii() and text.isdecimal() and len(text) < 13:
        return int(text)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a date, a time or Unix seconds, got {text!r}") from None
    return int((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp())


async def _export(kafka: Kafka, options: argparse.Namespace) -> None:
    if options.format == "parquet":
        with extra("read"):
            import polars as pl  # noqa: F401 - before anything is read
    fits = wanted(options.since, options.until, options.kind)
    records = await finals(kafka, options.query, fits, _progress if sys.stderr.isatty() else None)
    if options.format == "parquet":
        table(records).write_parquet(options.output)
    elif options.output is None:
        _write(records, options.format, sys.stdout)
    else:
        with options.output.open("w", encoding="utf-8", newline="") as file:
            _write(records, options.format, file)


def _progress(done: int, total: int) -> None:
    sys.stderr.write(f"\r{done:,} of {total:,} records read{chr(10) if done >= total else ''}")


def _write(records: list[Record], form: str, file: TextIO) -> None:
    names = columns(records)
    if form == "jsonl":
        file.writelines(orjson.dumps(row).decode() + "\n" for record in records for row in rows(record))
        return
    writer = csv.writer(file, lineterminator="\r\n")
    writer.writerow(names)
    writer.writerows([cell(row.get(name)) for name in names] for record in records for row in rows(record))
