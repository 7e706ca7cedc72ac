"""The command `hubbub rejects`, which shows refused frames and their reasons."""

import argparse
import asyncio
import heapq
import struct
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from itertools import chain
from typing import Any

import orjson

from aggregator.reading.tail.notation import plain
from hubbub.command.options import add_kafka, parser_of, run, whole
from hubbub.definitions.follower import Follower
from hubbub.kafka.clients import partitions
from hubbub.kafka.log_reader import open_log
from hubbub.kafka.settings import QUERIES, REJECTS, Kafka

LAST = 20
"""Default number of frames to show."""
_START = struct.Struct("<4sBBH8sq8s")
"""The part of a frame's header that the topic has: up to the id."""

HELP = """\
Show the frames that workers refused: how many for each reason, and the newest ones with the time, the
reason, the place in the topic of reports, and what the start of the frame says. The topic has no report.

example:
  $ hubbub rejects
  $ hubbub rejects --reason malformed --last 5
  $ hubbub rejects --json --last 1000 | jq -r .detail | sort | uniq -c

docs/wire-format.md explains the reasons.

Exit code: 0 done; 2 wrong options; 3 Kafka cannot be reached; 4 the topics are missing; 1 other errors."""


def main(arguments: list[str]) -> int:
    parser = parser_of("rejects", HELP)
    add_kafka(parser, embedded=True)
    count = f"number of frames to show, the newest (default: {LAST})"
    parser.add_argument("--last", type=whole(), default=LAST, metavar="N", help=count)
    parser.add_argument("--reason", metavar="R", help="only frames with this reason")
    parser.add_argument("--json", action="store_true", help="one line of JSON for each frame, without the counts")
    options = parser.parse_args(arguments)
    return run("rejects", lambda: asyncio.run(_show(Kafka.read(options), options)))


async def _show(kafka: Kafka, options: argparse.Namespace) -> None:
    counts: Counter[str] = Counter()
    heap: list[tuple[int, int, int, dict[str, Any]]] = []
    """The newest frames. The topic may hold millions, so only these stay in memory."""
    earliest = None
    numbers = await partitions(kafka, REJECTS, QUERIES)
    async with Follower(kafka) as follower:
        names = {digest: query.name for digest, query in follower.definitions.queries.items()}

    async with open_log(kafka, {REJECTS: range(numbers[REJECTS])}) as log:
        async for batches in log.batches_to_end():
            for record in chain.from_iterable(batches.values()):
                reject = describe(record, names)
                if options.reason not in (None, reject["reason"]):
                    continue
                counts[reject["reason"]] += 1
                earliest = min(earliest or record.timestamp, record.timestamp)
                # Time, partition and offset are unique, so the heap never compares the dicts.
                heapq.heappush(heap, (record.timestamp, record.partition, record.offset, reject))
                if len(heap) > options.last:
                    heapq.heappop(heap)

    rejects = [reject for *_, reject in sorted(heap, key=lambda item: item[:3])]
    if options.json:
        for reject in rejects:
            sys.stdout.write(f"{orjson.dumps(reject).decode()}\n")
        return
    for line in _lines(counts, earliest, rejects):
        sys.stdout.write(f"{line}\n")


def describe(record: Any, names: Mapping[bytes, str]) -> dict[str, Any]:
    """Return what a record of the topic says. Missing or foreign headers are null."""
    headers = {name: value.decode(errors="replace") for name, value in record.headers if value is not None}
    return {
        "time": _time(record.timestamp / 1000),
        "reason": headers.get("reason", "unknown"),
        "detail": headers.get("detail"),
        "topic": headers.get("topic"),
        "partition": _integer(headers.get("partition")),
        "offset": _integer(headers.get("offset")),
        **frame_start(record.value or b"", names),
    }


def frame_start(start: bytes, names: Mapping[bytes, str]) -> dict[str, Any]:
    """Return what the first bytes of a frame say, and the bytes themselves in hexadecimal."""
    about: dict[str, Any] = {"query": None, "digest": None, "pane": None, "id": None, "width": None}
    if len(start) >= _START.size and start[:4] == b"HBB1":
        _, _, _, width, digest, pane, identity = _START.unpack_from(start)
        about |= {"query": names.get(digest), "digest": digest.hex(), "pane": pane, "width": width}
        # An id of zeros stands for a frame without one.
        about["id"] = identity.hex() if any(identity) else None
    return about | {"bytes": start.hex()}


def _lines(counts: Counter[str], earliest: int | None, rejects: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the counts, then the frames, the newest last."""
    if earliest is None:
        yield "no refused frames"
        return

    total = counts.total()
    yield f"{total:,} refused frame{'' if total == 1 else 's'} since {_time(earliest / 1000)}"
    for reason, number in counts.most_common():
        yield f"  {number:>12,}  {plain(reason)}"

    if rejects:
        yield f"the newest {len(rejects):,}:" if len(rejects) > 1 else "the newest:"
    for reject in rejects:
        place = f"{reject['topic']}[{reject['partition']}] at offset {reject['offset']}"
        yield f"{reject['time']}  {plain(reject['reason'])}: {plain(reject['detail'] or 'no detail', 200)}"
        yield f"    {plain(place, 120)}: {_frame(reject)}"


def _frame(reject: dict[str, Any]) -> str:
    """Return the start of a frame in words."""
    start = bytes.fromhex(reject["bytes"])
    if reject["digest"] is None:
        if not start:
            return "no bytes"
        text = start.decode("latin-1")
        return f"JSON that begins with {plain(text, 60)}" if text.lstrip().startswith("{") else f"bytes {start.hex()}"

    query = reject["query"]
    about = f"query {plain(query)}" if query else f"digest {reject['digest']}, which no query has"
    identity = f"id {reject['id']}" if reject["id"] else "no id"
    return f"{about}, pane {_time(reject['pane'])}, reports of {reject['width']} bytes, {identity}"


def _integer(text: str | None) -> int | None:
    # `isdecimal` also accepts digits of other scripts, and anybody may write headers.
    return int(text) if text is not None and text.isascii() and text.isdecimal() else None


def _time(seconds: float) -> str:
    """Return a time in UTC, or the number if it is outside the calendar."""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, OSError, ValueError):
        return f"{seconds:g}"
