"""`hubbub tail`: estimates and alerts as they are published, in the terminal."""

import argparse
import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import AbstractContextManager, aclosing, nullcontext
from typing import Any, NamedTuple, Protocol

import orjson
from aiokafka import TopicPartition

from aggregator.process.exit import until_asked
from aggregator.publishing.alert import decode as decode_alert
from aggregator.publishing.record_reader import decode as decode_record
from aggregator.reading.tail.notation import clock, lateness
from aggregator.reading.tail.overview import Overview
from aggregator.reading.tail.summary import Heading, Notice, Summary, notice_lines
from aggregator.topics.sizes import LARGEST
from hubbub import logs
from hubbub.kafka import Kafka, consumer, partitions, started
from hubbub.names import ALERTS, ESTIMATES
from hubbub.options import add_kafka, parser_of, run, whole
from oracles.errors import QueryError
from oracles.query.settings import Place, Window, read_windows

TOP, LINE = 15, 5
"""Values in the table, and in a line."""
LAST = 50
SURGE = "\x1b[1;33m{}\x1b[0m"
"""Bold and yellow."""
POLL_MS = 250

HELP = """\
Show estimates and alerts as they are published: in a terminal a table of the most frequent values
with their 95% intervals, what each was before, which are proved to be frequent, and the alerts;
elsewhere a line for each. With --json a line of JSON for each, as hubbub/schemas describes them.

example:
  $ hubbub tail homepage
  $ hubbub tail homepage --window 1m/10s --top 30
  $ hubbub tail --json --last 0 | jq -r 'select(.kind == "surge") | .value'

Of each query the shortest window is shown unless --window names one; --json gives all. A window
that is not final yet is shown only until there is one that is.

Exit code: 0 ended by Ctrl-C, SIGTERM or the reader of a pipe; 2 wrong options; 3 Kafka cannot be
reached; 4 the topics are missing; 1 anything else."""


class News(NamedTuple):
    """The messages published since the last one; seldom more than a few, often none."""

    records: list[bytes]
    alerts: list[bytes]


class Output(Protocol):
    """Where news are shown."""

    def show(self, overview: Overview, summaries: list[Summary], notices: list[Notice]) -> None: ...


def main(arguments: list[str]) -> int:
    options = _options(arguments)
    work = _pipe if options.json else _show
    logs.terse()
    return run("tail", lambda: asyncio.run(until_asked(work(Kafka.read(options), options))))


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = parser_of("tail", HELP)
    add_kafka(parser)
    parser.add_argument("query", nargs="?", metavar="QUERY", help="only this one (default: all)")
    window = 'only this kind of window, as query files write it: "10s", "1m/10s", "all"'
    parser.add_argument("--window", type=_window, metavar="W", help=window)
    values = f"values that are shown (default: {TOP}; in a line {LINE})"
    parser.add_argument("--top", type=whole(0, 10**9), metavar="N", help=values)
    past = f"begin with what was last published, so many of each partition (default: {LAST})"
    parser.add_argument("--last", type=whole(0, 10**9), default=LAST, metavar="N", help=past)
    parser.add_argument("--json", action="store_true", help="a line of JSON for each final record and each alert")
    parser.add_argument("--provisional", action="store_true", help="with --json: records that are not final too")
    return parser.parse_args(arguments)


def _window(text: str) -> Window:
    try:
        return read_windows([text], Place("--window"), 1)[0]
    except QueryError:
        raise argparse.ArgumentTypeError(f'must be "all", a size or SIZE/STEP such as "1m/10s", got {text!r}') from None


async def _show(kafka: Kafka, options: argparse.Namespace) -> None:
    overview = Overview(options.query, options.window)
    with output(options.top) as screen:
        async with aclosing(follow(kafka, options.last)) as published:
            async for news in published:
                screen.show(overview, *take(overview, news))


async def _pipe(kafka: Kafka, options: argparse.Namespace) -> None:
    async with aclosing(follow(kafka, options.last)) as published:
        async for records, alerts in published:
            lines = [line(value) for value in records if _is_wanted_record(value, options)]
            lines += [line(value) for value in alerts if _is_wanted_alert(value, options)]
            sys.stdout.write("".join(lines))
            sys.stdout.flush()


def _is_wanted_record(value: bytes, options: argparse.Namespace) -> bool:
    try:
        record = decode_record(value)[0]
    except ValueError:
        return False
    return (record.final or options.provisional) and _fits(Heading.of(record), options)


def _is_wanted_alert(value: bytes, options: argparse.Namespace) -> bool:
    try:
        return _fits(Heading.of(decode_alert(value)), options)
    except ValueError:
        return False


def _fits(heading: Heading, options: argparse.Namespace) -> bool:
    return options.query in (None, heading.query) and options.window in (None, heading.window)


def line(value: bytes) -> str:
    """A line of JSON with nothing in it that a terminal would act on."""
    return json.dumps(orjson.loads(value), separators=(",", ":")).replace("\x7f", "\\u007f") + "\n"


def take(overview: Overview, news: News) -> tuple[list[Summary], list[Notice]]:
    """Bring news into the overview, and say what was new in them."""
    summaries = [summary for record in news.records for summary in overview.take(record)]
    return summaries, [notice for alert in news.alerts if (notice := overview.hear(alert))]


class Lines:
    """A line for each summary, and one for the notices of a kind that come together."""

    def __init__(self, top: int = LINE) -> None:
        self._top = top
        self._late: set[tuple[str, str]] = set()
        self._from_the_start: set[tuple[str, str | None, str]] = set()
        """Baselines that have been told: windows of other kinds bring them again, later."""
        self._surge = SURGE if sys.stdout.isatty() and not os.environ.get("NO_COLOR") else "{}"

    def show(self, overview: Overview, summaries: list[Summary], notices: list[Notice]) -> None:
        for summary in summaries:
            sys.stdout.write(f"{summary.line(self._top)}\n")
        late = {
            place: by
            for place, track in overview.tracks.items()
            if not summaries and (by := track.late(time.time())) > 0.0
        }
        for place in late.keys() - self._late:
            heading = overview.tracks[place].newest.heading
            sys.stdout.write(f"{heading}: no final since {clock(heading.end)}, late by {lateness(late[place])}\n")
        self._late = set(late)
        for kind, text in notice_lines(filter(self._is_new, notices), self._top):
            sys.stdout.write(f"{self._surge.format(text) if kind == 'surge' else text}\n")
        self._from_the_start.update(map(_origin, filter(_is_baseline, notices)))
        sys.stdout.flush()

    def _is_new(self, notice: Notice) -> bool:
        return not notice.baseline or _origin(notice) not in self._from_the_start


def _is_baseline(notice: Notice) -> bool:
    return notice.baseline


def _origin(notice: Notice) -> tuple[str, str | None, str]:
    """What a baseline is about, whatever its window."""
    return notice.heading.digest, notice.heading.attribute, notice.row.value


def output(top: int | None = None) -> AbstractContextManager[Output]:
    """A table in a terminal, where rich is installed; else lines."""
    if sys.stdout.isatty():
        try:
            from aggregator.reading.tail.table import Screen
        except ImportError:  # rich comes with the extra `board`
            pass
        else:
            return Screen(TOP if top is None else top)
    return nullcontext(Lines(LINE if top is None else top))


async def follow(kafka: Kafka, last: int) -> AsyncGenerator[News, None]:
    """The published records, read without a group: the last records of each partition first, then all that comes.

    Empty news come where nothing does, so that who follows can look at the clock.
    """
    counts = await partitions(kafka, ESTIMATES, ALERTS)
    tps = [TopicPartition(kafka.topic(name), number) for name, count in counts.items() for number in range(count)]
    async with started(consumer(kafka, max_partition_fetch_bytes=LARGEST), kafka) as reader:
        reader.assign(tps)
        begins, ends = await reader.beginning_offsets(tps), await reader.end_offsets(tps)
        for tp in tps:
            reader.seek(tp, max(begins[tp], ends[tp] - last))
        while True:
            found = await reader.getmany(timeout_ms=POLL_MS)
            yield News(*(_read(found, kafka.topic(name)) for name in (ESTIMATES, ALERTS)))


def _read(found: dict[TopicPartition, list[Any]], topic: str) -> list[bytes]:
    """The messages of a topic; deleted keys have none."""
    messages = (record.value for tp, records in found.items() if tp.topic == topic for record in records)
    return [value for value in messages if value is not None]
