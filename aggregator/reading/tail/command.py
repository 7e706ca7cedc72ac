"""The command `hubbub tail`, which shows new estimates and alerts in the terminal."""

import argparse
import asyncio
import io
import json
import os
import sys
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractContextManager, aclosing, nullcontext, suppress
from typing import Any, NamedTuple, Protocol

import orjson

from aggregator.reading.tail.keyboard import keys
from aggregator.reading.tail.notice import Notice, notice_lines
from aggregator.reading.tail.overview import Overview, QueryPulse
from aggregator.reading.tail.summary import Heading, Summary
from aggregator.records.alert import COMPARISONS
from aggregator.records.alert import decode as decode_alert
from aggregator.records.decoder import decode as decode_record
from aggregator.records.maps_record import is_maps
from hubbub.command import logs
from hubbub.command.exit import until_asked
from hubbub.command.idle_options import refuse_idle
from hubbub.command.options import add_kafka, parser_of, run, whole
from hubbub.definitions import formats
from hubbub.kafka.clients import partitions
from hubbub.kafka.log_reader import Batches, open_log
from hubbub.kafka.settings import ALERTS, ESTIMATES, LARGEST, QUERIES, STATUS, Kafka
from oracles.errors import QueryError
from oracles.query.settings import Place, Window, read_windows

TOP = 15
"""Default number of values in the table."""
LINE = 5
"""Default number of values in a line."""
LAST = 50
"""Default number of records of each partition to begin with."""
SURGE = "\x1b[1;33m{}\x1b[0m"
"""The escape sequences for bold yellow text."""
END = "q"
"""The key that ends the command."""
POLL_MS = 250
BATCH = 100
"""Most records of a poll, so that a signal need not wait for thousands."""

HELP = """\
Show estimates and alerts when they are published. In a terminal: an overview of all queries, and a page
for each, with the most frequent values, their intervals, history and proofs. One key leads to each page.
Elsewhere: one line for each estimate and alert. With --json: one line of JSON for each; hubbub/schemas describes it.

example:
  $ hubbub tail homepage
  $ hubbub tail homepage --window 1m/10s --top 30
  $ hubbub tail --json --last 0 | jq -r 'select(.kind == "surge") | .value'

By default the command shows the shortest window of each query; --window names another one. --json shows
all. Provisional windows are shown only until the first final one.

Exit code: 0 ended by Ctrl-C, SIGTERM or the reader of a pipe; 2 wrong options; 3 Kafka cannot be
reached; 4 the topics are missing; 1 other errors."""


class News(NamedTuple):
    """The values of the records from one poll, often none."""

    records: list[bytes]
    alerts: list[bytes]
    statuses: Sequence[bytes] = ()
    definitions: Sequence[tuple[bytes | None, bytes | None, int]] = ()
    """Key, value and timestamp of each record of the definitions."""


class Output(Protocol):
    """An output of the command, which is a table or lines."""

    def show(self, overview: Overview, summaries: list[Summary], notices: list[Notice]) -> None: ...

    def press(self, key: str) -> None: ...


def main(arguments: list[str]) -> int:
    options = _options(arguments)
    work = _pipe if options.json else _show
    logs.terse()
    return run("tail", lambda: asyncio.run(until_asked(work(Kafka.read(options), options))))


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = parser_of("tail", HELP)
    add_kafka(parser)
    parser.add_argument("query", nargs="?", metavar="QUERY", help="name of the query (default: all queries)")
    window = 'kind of window, written as in query files: "10s", "1m/10s", "all"'
    parser.add_argument("--window", type=_window, metavar="W", help=window)
    group = "only this group, or (none) for reports without a group (default: totals of all groups)"
    parser.add_argument("--group", metavar="VALUE", help=group)
    values = f"maximum number of values (default: {TOP}; in a line {LINE})"
    parser.add_argument("--top", type=whole(0, 10**9), metavar="N", help=values)
    past = f"number of existing records of each partition to begin with (default: {LAST})"
    parser.add_argument("--last", type=whole(0, 10**9), default=LAST, metavar="N", help=past)
    parser.add_argument(
        "--json", action="store_true", help="write one line of JSON for each final record and each alert"
    )
    parser.add_argument("--provisional", action="store_true", help="with --json: include provisional records")
    options = parser.parse_args(arguments)
    if options.json:
        refuse_idle(parser, arguments, ("--top",), "with --json, which writes whole records")
    else:
        refuse_idle(parser, arguments, ("--provisional",), "without --json")
    return options


def _window(text: str) -> Window:
    try:
        return read_windows([text], Place("--window"), 1)[0]
    except QueryError:
        raise argparse.ArgumentTypeError(f'must be "all", a size or SIZE/STEP such as "1m/10s", got {text!r}') from None


async def _show(kafka: Kafka, options: argparse.Namespace) -> None:
    overview = Overview(options.query, options.window, options.group)
    end = asyncio.Event()
    with output(options.top) as screen, keys(lambda key: end.set() if key == END else screen.press(key)):
        async with aclosing(follow(kafka, options.last)) as stream:
            async for news in stream:
                screen.show(overview, *take(overview, news))
                if end.is_set():
                    return


async def _pipe(kafka: Kafka, options: argparse.Namespace) -> None:
    async with aclosing(follow(kafka, options.last)) as stream:
        async for news in stream:
            lines = [line(value) for value in news.records if _matches_record(value, options)]
            lines += [line(value) for value in news.alerts if _matches_alert(value, options)]
            # The next program of a pipe waits for these lines, and the buffer would keep them.
            sys.stdout.write("".join(lines))
            sys.stdout.flush()


def _matches_record(value: bytes, options: argparse.Namespace) -> bool:
    try:
        record = decode_record(value)
    except ValueError:
        return False  # anybody may write to the topic

    is_wanted = record.group == options.group and (record.final or options.provisional)
    return is_wanted and _matches(Heading.of(record), options)


def _matches_alert(value: bytes, options: argparse.Namespace) -> bool:
    try:
        return _matches(Heading.of(decode_alert(value)), options)
    except ValueError:
        return False


def _matches(heading: Heading, options: argparse.Namespace) -> bool:
    return options.query in (None, heading.query) and options.window in (None, heading.window)


def line(value: bytes) -> str:
    """Return a line of JSON without control characters, so that it is safe in a terminal."""
    # `json.dumps` escapes all control characters but this one.
    return json.dumps(orjson.loads(value), separators=(",", ":")).replace("\x7f", "\\u007f") + "\n"


def take(overview: Overview, news: News) -> tuple[list[Summary], list[Notice]]:
    """Add records to the overview, and return the new summaries and notices."""
    for definition in news.definitions:
        overview.define(*definition)
    for status in news.statuses:
        overview.add_status(status)

    summaries: list[Summary] = []
    for record in news.records:
        summaries += overview.add_record(record)
    notices = [overview.add_alert(alert) for alert in news.alerts]
    return summaries, [notice for notice in notices if notice is not None]


class Lines:
    """The output as lines, with one for each summary and one for simultaneous notices of a kind."""

    def __init__(self, top: int = LINE) -> None:
        self._top = top
        self._states: dict[str, str] = {}
        """The state of each query that is late, quiet or without a final, for which a line was written."""
        self._last_looks: dict[str, str] = {}
        """The state of each query at the last look."""
        self._empty_looks = 0
        """Looks that found no query of the name to show, but records of others."""
        self._from_the_start: set[tuple[str, str | None, str]] = set()
        """The baselines that were shown. Windows of other kinds repeat them later."""
        self._surge = SURGE if sys.stdout.isatty() and not os.environ.get("NO_COLOR") else "{}"

    def show(self, overview: Overview, summaries: list[Summary], notices: list[Notice]) -> None:
        for summary in summaries:
            sys.stdout.write(f"{summary.line(self._top)}\n")

        # The state of a query only matters while nothing new comes.
        names = [] if summaries else overview.names
        self._empty_looks += not summaries and not names and bool(overview.others)
        # The definitions may come after the records of others. A name that no query has stays without any.
        if self._empty_looks == 2:
            sys.stdout.write(f"{overview.waiting_text}\n")
            self._empty_looks += 1
        for name in names:
            pulse = overview.pulse(name, time.time())
            if pulse is not None:
                self._show_state(name, pulse)

        for kind, text in notice_lines(filter(self._is_new, notices), self._top):
            sys.stdout.write(f"{self._surge.format(text) if kind in COMPARISONS else text}\n")
        # Only now, since several notices of one baseline may come with the same poll.
        self._from_the_start.update(map(_origin, filter(_is_baseline, notices)))
        sys.stdout.flush()

    def press(self, key: str) -> None:
        """Lines have no pages."""

    def _show_state(self, name: str, pulse: QueryPulse) -> None:
        """Write a line if a query is late, quiet or without a first final, once for each reason."""
        state: str = pulse.state if pulse.state in ("late", "quiet") else ""
        text = pulse.text
        if pulse.state == "waiting":
            state = f"waiting {pulse.lack}"
            text = pulse.whole_text
        # The definitions are read before statuses and finals, so a state must last for two looks.
        is_stable = state == self._last_looks.get(name)
        self._last_looks[name] = state
        if not is_stable and pulse.state == "waiting":
            return
        if state and self._states.get(name) != state:
            sys.stdout.write(f"{name}: {text}\n")
        self._states[name] = state

    def _is_new(self, notice: Notice) -> bool:
        return not notice.baseline or _origin(notice) not in self._from_the_start


def _is_baseline(notice: Notice) -> bool:
    return notice.baseline


def _origin(notice: Notice) -> tuple[str, str | None, str]:
    """Return the digest, attribute and value of a notice."""
    return notice.heading.digest, notice.heading.attribute, notice.row.value


def output(top: int | None = None) -> AbstractContextManager[Output]:
    """Return a table if the output is a terminal and rich is installed, otherwise lines."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # names have letters that not every encoding has
    if sys.stdout.isatty():
        try:
            from aggregator.reading.tail.table import Screen
        except ImportError:  # rich belongs to the extra `board`
            pass
        else:
            return Screen(TOP if top is None else top)
    return nullcontext(Lines(LINE if top is None else top))


async def follow(kafka: Kafka, last: int) -> AsyncGenerator[News, None]:
    """Yield the last published records of each partition, and then all new ones.

    It reads without a consumer group. Definitions and statuses are read from the beginning.
    Polls without records yield empty news, so that the caller can check the time.
    """
    counts = await partitions(kafka, ESTIMATES, ALERTS, optional=[QUERIES, STATUS])
    # Behind the fence `queries` has a second partition, which stays empty.
    topics = {name: range(1 if name == QUERIES else count) for name, count in counts.items()}
    async with open_log(kafka, topics, max_partition_fetch_bytes=LARGEST) as log_reader:
        reader = log_reader.consumer
        begins = await reader.beginning_offsets(log_reader.partitions)
        for tp, end in log_reader.ends.items():
            if tp.topic in (kafka.topic(ESTIMATES), kafka.topic(ALERTS)):
                # Retention may have deleted the first of the last records.
                reader.seek(tp, max(begins[tp], end - last))

        async for batches in log_reader.batches(poll_ms=POLL_MS, most=BATCH):
            definitions = [
                (record.key, record.value, record.timestamp) for record in _records(batches, kafka.topic(QUERIES))
            ]
            _note_formats(definitions)
            yield News(
                records=_values(batches, kafka.topic(ESTIMATES)),
                alerts=_values(batches, kafka.topic(ALERTS)),
                statuses=_values(batches, kafka.topic(STATUS)),
                definitions=definitions,
            )


def _note_formats(definitions: Sequence[tuple[bytes | None, bytes | None, int]]) -> None:
    """Say it if the topics have forms that this release cannot read. The command shows all others."""
    for key, value, _ in definitions:
        if key != formats.KEY or value is None:
            continue
        with suppress(ValueError):
            excess = formats.read(value).excess
            if excess:
                sys.stderr.write(f"hubbub tail: shows what it can read: {excess}\n")


def _values(batches: Batches, topic: str) -> list[bytes]:
    """Return the values of the records of a topic, without tombstones and without maps, which people do not read."""
    values = [record.value for record in _records(batches, topic) if not is_maps(record.key)]
    return [value for value in values if value is not None]


def _records(batches: Batches, topic: str) -> list[Any]:
    """Return the records of a topic."""
    result: list[Any] = []
    for tp, records in batches.items():
        if tp.topic == topic:
            result += records
    return result
