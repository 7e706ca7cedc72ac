"""`hubbub tail`: estimates and alerts as they are published, in the terminal."""

import argparse
import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import AbstractContextManager, aclosing, nullcontext
from typing import Any, NamedTuple, Protocol

import orjson
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from aggregator.process.exit import until_asked
from aggregator.reading.tail.overview import View
from aggregator.reading.tail.summary import Alert, Message, Sheet, Unreadable, read_alert, read_record, told
from aggregator.topics.command import TopicsError, partition_counts
from aggregator.topics.settings import ALERTS, ESTIMATES, LARGEST
from hubbub.kafka import Kafka, add_options, started
from oracles.errors import HubbubError, QueryError
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
    """What has been published since the last one; seldom more than a little, often nothing."""

    records: list[Message]
    alerts: list[Message]


class Output(Protocol):
    """Where news are shown."""

    def show(self, view: View, sheets: list[Sheet], alerts: list[Alert]) -> None: ...


def main(arguments: list[str]) -> int:
    options = _options(arguments)
    try:
        kafka = Kafka.read(options)
        work = _pipe if options.json else _show
        asyncio.run(until_asked(work(kafka, options)))
    except HubbubError as error:
        sys.stderr.write(f"hubbub tail: {error}\n")
        return int(getattr(error, "exit_code", 1))
    except KafkaError as error:
        sys.stderr.write(f"hubbub tail: Kafka refused: {error!r}\n")
        return 1
    return 0


def _options(arguments: list[str]) -> argparse.Namespace:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="hubbub tail", description=HELP, formatter_class=raw)
    add_options(parser)
    parser.add_argument("query", nargs="?", metavar="QUERY", help="only this one (default: all)")
    window = 'only this kind of window, as query files write it: "10s", "1m/10s", "all"'
    parser.add_argument("--window", type=_window, metavar="W", help=window)
    values = f"values that are shown (default: {TOP}; in a line {LINE})"
    parser.add_argument("--top", type=_whole, metavar="N", help=values)
    past = f"begin with what was last published, so many of each partition (default: {LAST})"
    parser.add_argument("--last", type=_whole, default=LAST, metavar="N", help=past)
    parser.add_argument("--json", action="store_true", help="a line of JSON for each final record and each alert")
    parser.add_argument("--provisional", action="store_true", help="with --json: records that are not final too")
    return parser.parse_args(arguments)


def _window(text: str) -> Window:
    try:
        return read_windows([text], Place("--window"), 1)[0]
    except QueryError:
        raise argparse.ArgumentTypeError(f'must be "all", a size or SIZE/STEP such as "1m/10s", got {text!r}') from None


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise argparse.ArgumentTypeError(f"must be a whole number of at most 9 digits, got {text!r}")
    return int(text)


async def _show(kafka: Kafka, options: argparse.Namespace) -> None:
    view = View(options.query, options.window)
    with output(options.top) as screen:
        async with aclosing(follow(kafka, options.last)) as published:
            async for news in published:
                screen.show(view, *take(view, news))


async def _pipe(kafka: Kafka, options: argparse.Namespace) -> None:
    async with aclosing(follow(kafka, options.last)) as published:
        async for records, alerts in published:
            lines = [line(message) for message in (*records, *alerts) if _is_wanted(message, options)]
            sys.stdout.write("".join(lines))
            sys.stdout.flush()


def _is_wanted(message: Message, options: argparse.Namespace) -> bool:
    try:
        subject = (read_record(message)[0] if "final" in message else read_alert(message)).subject
    except Unreadable:
        return False
    fits = options.query in (None, subject.query) and options.window in (None, subject.window)
    return fits and (options.provisional or bool(message.get("final", True)))


def line(message: Message) -> str:
    """A line of JSON with nothing in it that a terminal would act on."""
    return json.dumps(message, separators=(",", ":")).replace("\x7f", "\\u007f") + "\n"


def take(view: View, news: News) -> tuple[list[Sheet], list[Alert]]:
    """Bring news into the view, and say what was new in them."""
    sheets = [sheet for record in news.records for sheet in view.take(record)]
    return sheets, [alert for message in news.alerts if (alert := view.hear(message))]


class Lines:
    """A line for each sheet, and one for the alerts of a kind that come together."""

    def __init__(self, top: int = LINE) -> None:
        self._top = top
        self._surge = SURGE if sys.stdout.isatty() and not os.environ.get("NO_COLOR") else "{}"

    def show(self, view: View, sheets: list[Sheet], alerts: list[Alert]) -> None:
        del view
        for sheet in sheets:
            sys.stdout.write(f"{sheet.line(self._top)}\n")
        for kind, text in told(alerts, self._top):
            sys.stdout.write(f"{self._surge.format(text) if kind == 'surge' else text}\n")
        sys.stdout.flush()


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
    """What is published, without a group: the last records of each partition first, then all that comes.

    Empty news come where nothing does, so that who follows can look at the clock.
    """
    tps = await _partitions(kafka, (ESTIMATES, ALERTS))
    consumer = AIOKafkaConsumer(
        **kafka.client(),
        group_id=None,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        max_partition_fetch_bytes=LARGEST,
        metadata_max_age_ms=5000,
    )
    async with started(consumer, kafka):
        consumer.assign(tps)
        begins, ends = await consumer.beginning_offsets(tps), await consumer.end_offsets(tps)
        for tp in tps:
            consumer.seek(tp, max(begins[tp], ends[tp] - last))
        while True:
            found = await consumer.getmany(timeout_ms=POLL_MS)
            yield News(*(_read(found, kafka.topic(name)) for name in (ESTIMATES, ALERTS)))


async def _partitions(kafka: Kafka, names: tuple[str, ...]) -> list[TopicPartition]:
    listed = await partition_counts(kafka)
    missing = [topic for name in names if (topic := kafka.topic(name)) not in listed]
    if missing:
        raise TopicsError(f"there is no topic {missing[0]}; `hubbub topics` creates what is needed")
    return [TopicPartition(kafka.topic(name), number) for name in names for number in range(listed[kafka.topic(name)])]


def _read(found: dict[TopicPartition, list[Any]], topic: str) -> list[Message]:
    """The messages of a topic; an empty one for what is no JSON object."""
    return [_object(record.value) for tp, records in found.items() if tp.topic == topic for record in records]


def _object(value: bytes | None) -> Message:
    try:
        found = orjson.loads(value or b"{}")
    except orjson.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}
