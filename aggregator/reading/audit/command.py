"""`hubbub audit`: folds the log again, alone, and compares with what was published, bit for bit."""

import argparse
import asyncio
import sys
from datetime import UTC, datetime
from typing import Any

from aiokafka import TopicPartition

from aggregator.merging.crowd import Shown
from aggregator.publishing.final import publish
from aggregator.reading.audit.fold import Fold
from aggregator.topics.sizes import LARGEST
from hubbub.definitions import Definitions
from hubbub.definitions.corrections import UNTRUSTED
from hubbub.definitions.follower import Follower
from hubbub.kafka import Kafka, consumer, partitions, started
from hubbub.names import ALERTS, ESTIMATES, QUERIES, REPORTS
from hubbub.options import add_kafka, add_max_frame, parser_of, run
from oracles.query import Query

BEFORE = 3600
"""Seconds that are read before the range, so that the clocks are what they were."""
SHOWN = 20
PROGRESS = 500_000

HELP = """\
Fold the log again, by the definitions and corrections of their topic, and compare each final record
with what was published, byte for byte. With --from only tumbling and hopping windows that lie within
the range can be compared; without it those since the start and the alerts too.

example:
  $ hubbub audit --from 2026-01-01T10:00:00Z --to 2026-01-01T11:00:00Z
  720 of 720 are as the log demands
  not compared: windows since the start; alerts; ...

Exit code: 0 all is as the log demands; 2 wrong options; 3 Kafka cannot be reached; 4 something
differs: a line says which."""


def main(arguments: list[str]) -> int:
    parser = parser_of("audit", HELP)
    add_kafka(parser, embedded=True)
    add_max_frame(parser)
    moment = "a time such as 2026-01-01T10:00:00Z, UTC where it names no offset, or seconds since 1970"
    parser.add_argument("--from", dest="start", type=_moment, metavar="TIME", help=f"{moment}; default: all")
    parser.add_argument("--to", dest="end", type=_moment, metavar="TIME", help="until when; default: to the end")
    options = parser.parse_args(arguments)
    return run("audit", lambda: asyncio.run(_audit(Kafka.read(options), options)))


def _moment(text: str) -> int:
    if text.isdecimal():
        return int(text)
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no time such as 2026-01-01T10:00:00Z") from error
    return int(found.replace(tzinfo=found.tzinfo or UTC).timestamp())


async def _audit(kafka: Kafka, options: argparse.Namespace) -> int:
    counts = await partitions(kafka, REPORTS, QUERIES, ESTIMATES, ALERTS)
    async with Follower(kafka) as follower:
        known = follower.known
    fold = Fold(known, counts[REPORTS], embedded=kafka.embedded, limit=options.max_frame)
    for partition in range(counts[REPORTS]):
        await _read(kafka, fold, partition, known, options)
    wanted = _wanted(fold, known, options)
    published = await _newest(kafka, ESTIMATES, counts[ESTIMATES])
    if options.start is None:
        published |= await _newest(kafka, ALERTS, counts[ALERTS])
    wrong = sorted(key for key, value in wanted.items() if published.get(key) != value)
    wrong += sorted(key for key in published if key not in wanted and _demandable(key, fold, known, options))
    for key in wrong[:SHOWN]:
        said = "differs from what the log demands" if key in published else "is missing"
        sys.stderr.write(f"hubbub audit: {key.decode()}: {said}\n")
    if len(wrong) > SHOWN:
        sys.stderr.write(f"hubbub audit: and {len(wrong) - SHOWN} more\n")
    right = sum(published.get(key) == value for key, value in wanted.items())
    sys.stdout.write(f"{right} of {len(wanted)} are as the log demands\n")
    sys.stdout.write(f"not compared: {_left_out(fold, known, options)}\n")
    return 4 if wrong else 0


async def _read(kafka: Kafka, fold: Fold, partition: int, known: Definitions, options: argparse.Namespace) -> None:
    tp = TopicPartition(kafka.topic(REPORTS), partition)
    async with started(consumer(kafka, max_partition_fetch_bytes=max(4 << 20, 2 * options.max_frame)), kafka) as reader:
        reader.assign([tp])
        end = (await reader.end_offsets([tp]))[tp]
        await _seek(reader, tp, known, options.start)
        count = 0
        while True:
            found = (await reader.getmany(tp, timeout_ms=500)).get(tp, [])
            own = [record.timestamp if record.timestamp_type or kafka.embedded else UNTRUSTED for record in found]
            fold.read(partition, [(r.offset, at, r.value) for r, at in zip(found, own, strict=True)])
            if (count + len(found)) // PROGRESS > count // PROGRESS:
                sys.stderr.write(f"partition {partition}: offset {found[-1].offset} of {end}\n")
            count += len(found)
            if options.end is not None and fold.has_passed(partition, options.end):
                return
            if not found and await reader.position(tp) >= end:
                return


async def _seek(reader: Any, tp: TopicPartition, known: Definitions, start: int | None) -> None:
    """Where to begin: an hour before the first pane of the range could be reported, by the broker's index of times."""
    if start is None:
        await reader.seek_to_beginning(tp)
        return
    skew = max((versions.skew for versions in known.versions.values()), default=0)
    found = (await reader.offsets_for_times({tp: max(0, start - skew - BEFORE) * 1000}))[tp]
    if found is None:
        await reader.seek_to_end(tp)
    else:
        reader.seek(tp, found.offset)


def _wanted(fold: Fold, known: Definitions, options: argparse.Namespace) -> dict[bytes, bytes]:
    """The final records, and where all was read the alerts, that the log demands: by key."""
    found: dict[bytes, bytes] = {}
    for versions in known.versions.values():
        states: dict[Any, list[bytes]] = {}
        shown: dict[Any, list[Shown | None]] = {}
        for final in fold.finals(versions):
            span = final.span
            query = versions.at(span.end - versions.query.pane).query
            whole = options.start is None
            if not whole and (span.start < options.start or _rests_on_others(query, span.window.kind)):
                continue
            if options.end is not None and span.end > options.end:
                continue
            told = publish(query, final, states.get(span.window, []), shown.get(span.window, []))
            states[span.window], shown[span.window] = told.states, told.shown
            found |= {**dict(told.built.records), **(dict(told.alerts) if whole else {})}
    return found


def _rests_on_others(query: Query, kind: str) -> bool:
    """Whether a final depends on what is older than the range: its sum, or whether it shows its own values."""
    return kind == "all" or (kind == "hopping" and query.crowd > 1)


def _may_hold(query: Query) -> bool:
    return any(window.kind == "hopping" and _rests_on_others(query, window.kind) for window in query.windows)


async def _newest(kafka: Kafka, name: str, count: int) -> dict[bytes, bytes]:
    """The newest value of each key of a topic."""
    tps = [TopicPartition(kafka.topic(name), partition) for partition in range(count)]
    newest: dict[bytes, bytes] = {}
    async with started(consumer(kafka, max_partition_fetch_bytes=LARGEST), kafka) as reader:
        reader.assign(tps)
        await reader.seek_to_beginning(*tps)
        ends = await reader.end_offsets(tps)
        while True:
            found = await reader.getmany(timeout_ms=500)
            for record in (record for records in found.values() for record in records):
                newest[record.key] = record.value
            if not found and all([await reader.position(tp) >= ends[tp] for tp in tps]):
                return newest


def _demandable(key: bytes, fold: Fold, known: Definitions, options: argparse.Namespace) -> bool:
    """Whether a final of this key would have been demanded if there was one: it lies in what was read."""
    try:
        _, digest, kind, size, _, end, *rest = key.decode().split("|")
        versions, start, stop = known.versions[bytes.fromhex(digest)], int(end) - int(size), int(end)
    except (ValueError, KeyError):
        return False
    through = fold.through(versions)
    other = rest and not rest[0].startswith("a:")  # a provisional record, or an alert
    if options.start is None or _rests_on_others(versions.query, kind) or other or rest[1:] or through is None:
        return False
    return bool(options.start <= start and stop <= min(through, options.end or through))


def _left_out(fold: Fold, known: Definitions, options: argparse.Namespace) -> str:
    """Windows that were not compared, in words."""
    said = [] if options.start is None else ["windows since the start", "alerts", "windows that begin before --from"]
    held = [] if options.start is None else [v.query.name for v in known.versions.values() if _may_hold(v.query)]
    said += [f"{', '.join(held)}: hopping windows, where a crowd may hold them"] if held else []
    said += [] if options.end is None else ["windows that end after --to"]
    open_ = [v.query.name for v in known.versions.values() if fold.through(v) is None]
    said += [f"{', '.join(open_)}: a partition has no record in the range"] if open_ else []
    return "; ".join([*said, "windows that the log has not closed"])
