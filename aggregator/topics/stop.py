"""The commands `hubbub stop` and `hubbub resume`, which write a stop of queries to the topic of definitions."""

import argparse
import asyncio
import sys
from collections.abc import Sequence

from hubbub import outside
from hubbub.command.options import add_kafka, parser_of, run
from hubbub.definitions import formats, stop_record
from hubbub.definitions.catalog import Definitions, DefinitionsError
from hubbub.definitions.follower import Follower
from hubbub.definitions.formats import RAISE, FormatsError
from hubbub.kafka.clients import partitions
from hubbub.kafka.settings import QUERIES, Kafka
from hubbub.moments import utc
from hubbub.texts import few

STOP_HELP = """\
Stop queries at once. Gateways refuse their reports within 5 s, and clients fall silent without a charge. A stop
survives restarts, and a query file that still has the query. `hubbub resume` ends it.

example:
  $ hubbub stop saves --reason "version 3.2 sends wrong values"
  saves: stopped since 2026-11-27 12:00:00 UTC

Exit code: 0 done, also if the queries were stopped already; 2 wrong options, or no such query; 3 Kafka cannot be
reached; 4 the topics are missing or too old; 1 other errors."""

RESUME_HELP = """\
Let stopped queries go on, with the same noise and without a new charge.

example:
  $ hubbub resume saves
  saves: goes on

Exit code: 0 done, also if the queries were not stopped; 2 wrong options, or no such query; 3 Kafka cannot be
reached; 4 the topics are missing or too old; 1 other errors."""


def main(arguments: list[str]) -> int:
    parser = _parser("stop", STOP_HELP)
    reason = f"the reason, at most {stop_record.LONGEST_REASON} characters, for everybody who sees the page"
    parser.add_argument("--reason", type=_reason, default="", metavar="R", help=reason)
    return change("stop", _parsed(parser, arguments), is_stopped=True)


def resume(arguments: list[str]) -> int:
    """Run the other command."""
    return change("resume", _parsed(_parser("resume", RESUME_HELP), arguments), is_stopped=False)


def change(command: str, options: argparse.Namespace, *, is_stopped: bool) -> int:
    """Stop the queries of the options, or let them go on, and return the exit code."""
    return run(command, lambda: asyncio.run(_change(Kafka.read(options), options, is_stopped=is_stopped)))


def _parser(command: str, text: str) -> argparse.ArgumentParser:
    parser = parser_of(command, text)
    parser.add_argument("names", nargs="*", metavar="NAME", help="name of the query; several may follow")
    parser.add_argument("--all", action="store_true", help="all queries")
    add_kafka(parser, embedded=True)
    return parser


def _parsed(parser: argparse.ArgumentParser, arguments: list[str]) -> argparse.Namespace:
    options = parser.parse_args(arguments)
    if options.all == bool(options.names):
        parser.error("give names of queries, or --all")
    return options


def _reason(text: str) -> str:
    if len(text) > stop_record.LONGEST_REASON or not text.isprintable():
        most = f"must be one line of at most {stop_record.LONGEST_REASON} characters"
        raise argparse.ArgumentTypeError(most)
    return text


async def _change(kafka: Kafka, options: argparse.Namespace, *, is_stopped: bool) -> None:
    # A consumer that asks for a missing topic may create it.
    await partitions(kafka, QUERIES)
    async with Follower(kafka) as follower:
        names = chosen(follower.definitions, options.names, is_stopped=is_stopped)
        reason = options.reason if is_stopped else ""
        writes = [
            stop_record.write(name, outside.random_hex(8), is_stopped=is_stopped, reason=reason)
            for name in names
            if (name in follower.definitions.stops) != is_stopped
        ]
        if writes:
            await follower.append(writes)
        stops = follower.definitions.stops

    for name in names:
        stop = stops.get(name)
        text = "goes on" if stop is None else f"stopped since {utc(stop.since)}"
        sys.stdout.write(f"{name}: {text}\n")


def chosen(definitions: Definitions, names: Sequence[str], *, is_stopped: bool) -> list[str]:
    """Return the queries to stop or to resume, all of them without names. Raise an error if one does not exist."""
    formats.refuse_higher(definitions.formats)
    if definitions.formats.version < stop_record.FIRST_FORMATS:
        raise FormatsError(
            f"a stop needs formats version {stop_record.FIRST_FORMATS}, and the topics have formats "
            f"{definitions.formats}. Stop all workers and run `{RAISE}` first. Nothing was changed"
        )

    possible = set(definitions.active) if is_stopped else {*definitions.active, *definitions.stops}
    missing = sorted(set(names) - possible)
    if missing:
        raise DefinitionsError(f"there is no query {few(missing)}; queries: {few(sorted(possible))}")
    return list(dict.fromkeys(names)) or sorted(possible if is_stopped else definitions.stops)
