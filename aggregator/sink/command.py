"""The command `hubbub sink`, which writes finals to files that never change."""

import argparse
import asyncio
import os
import re
import sys
from contextlib import AsyncExitStack, closing
from functools import partial
from pathlib import Path

from aggregator.sink.due_files import SinkPlan
from aggregator.sink.file_names import HOUR, PERIODS
from aggregator.sink.folder import Folder
from aggregator.sink.follower import SinkFollower
from aggregator.sink.metrics import SinkMetrics
from aggregator.sink.object_store import ObjectStore
from aggregator.sink.objects import is_store, unknown_kind
from aggregator.sink.persistence import persist
from aggregator.sink.sink_state import PATH, SinkState
from aggregator.sink.waiting_rows import WaitingRows
from aggregator.sink.writer import Target, Writer
from hubbub.command import logs
from hubbub.command.exit import until_asked
from hubbub.command.idle_options import refuse_idle
from hubbub.command.options import (
    add_health_port,
    add_kafka,
    add_option,
    duration,
    one_of,
    parsed,
    parser_of,
    port,
    run,
)
from hubbub.http.health import health, serving_alone
from hubbub.http.scrape import scrape_handler
from hubbub.kafka.settings import Kafka
from oracles.errors import extra
from oracles.query.settings import NAME

HELP = """\
Write the finals of all queries, or of some, to Parquet files in a folder or an object store. A file
below finals/ is written once, when its day or hour is complete, and never changes. Files below open/
hold the present day. A final is in the files of its name once, whatever is killed or sent again.

The region, keys and address of a store come from the environment (AWS_REGION, AWS_ACCESS_KEY_ID,
AWS_SECRET_ACCESS_KEY, AWS_ENDPOINT_URL, ...), or from the identity that the platform gives.

example:
  $ hubbub sink --to /data/estimates
  $ hubbub sink --to s3://estimates/hubbub
  $ hubbub sink --to /data/estimates --query homepage --every never --once

docs/dataout.md shows how to read the files, and docs/rows.md explains the columns.

Exit code: 0 ended by Ctrl-C or SIGTERM, or --once is done; 2 wrong options; 3 Kafka or the target
gives no answer; 4 the target belongs to another sink or to other settings, a topic is missing or was
created anew; 1 other errors."""
OPEN_INTERVAL = "5m"
SETTLE = "10m"
MOST_EVERY = HOUR
_OTHER = re.compile(r"[a-z][a-z0-9+.-]*:")


def main(arguments: list[str]) -> int:
    options = _options(arguments)
    logs.configure(options.log, options.log_level)
    return run("sink", lambda: asyncio.run(until_asked(_run(Kafka.read(options), options))))


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = parser_of("sink", HELP)
    add_kafka(parser, embedded=True)
    place = "folder of the files, or an object store: s3://BUCKET/PREFIX, gs://..., az://..."
    add_option(parser, "HUBBUB_SINK_TO", "--to", place, type=parsed(_place), metavar="PLACE")
    names = "name of the query to write; repeatable (HUBBUB_SINK_QUERY, with commas; default: all queries)"
    variable = os.environ.get("HUBBUB_SINK_QUERY", "")
    parser.add_argument("--query", action="append", metavar="Q", help=names)
    interval = "longest time from a final to its row in open/: 1s to 1h, or never"
    add_option(parser, "HUBBUB_SINK_EVERY", "--every", interval, default=OPEN_INTERVAL, type=_every, metavar="TIME")
    files = "period of a file: day or hour; windows shorter than a minute have hours in any case"
    add_option(parser, "HUBBUB_SINK_FILES", "--files", files, default="day", type=one_of(*PERIODS), metavar="PERIOD")
    settle = "time after the end of a file's period until it is written"
    add_option(parser, "HUBBUB_SINK_SETTLE", "--settle", settle, default=SETTLE, type=duration, metavar="TIME")
    keep = "delete the files of days that ended longer ago; without it nothing is deleted"
    add_option(parser, "HUBBUB_SINK_KEEP", "--keep", keep, type=duration, metavar="TIME")
    folder = "folder of the waiting rows, which are deleted at the end"
    note = "default: that for temporary files"
    add_option(parser, "HUBBUB_SINK_SPOOL", "--spool", folder, note=note, type=Path, metavar="PATH")
    alone = "accept a store without conditional writes; then nothing keeps a second sink away"
    parser.add_argument("--alone", action="store_true", help=alone)
    parser.add_argument("--once", action="store_true", help="write what the topic holds now, then exit")
    meaning = "port of /metrics, /healthz and /readyz, if --health-port is not set; 0: any free port, which is printed"
    add_option(parser, "HUBBUB_PORT", "--port", meaning, type=port, metavar="N")
    add_option(parser, "HUBBUB_HOST", "--host", "host of the port", default="127.0.0.1", metavar="H")
    add_health_port(parser)
    logs.add_options(parser)
    options = parser.parse_args(arguments)

    if options.to is None:
        parser.error("--to PLACE is required (HUBBUB_SINK_TO)")
    if options.health_port is not None:
        refuse_idle(parser, arguments, ("--port",), "with --health-port, which serves all of it")
    elif options.port is None:
        refuse_idle(parser, arguments, ("--host",), "without --health-port or --port")
    if isinstance(options.to, Path):
        refuse_idle(parser, arguments, ("--alone",), "with a folder, which has a lock")

    if options.query is None and variable:
        options.query = variable.split(",")
    for name in options.query or []:
        if not NAME.fullmatch(name):
            parser.error(f"--query: {name!r} is no name of a query")
    return options


def _place(text: str) -> Path | str:
    """Parse a folder, or the address of an object store."""
    if is_store(text):
        return text
    if _OTHER.match(text):
        raise unknown_kind(text)
    return Path(text)


def _every(text: str) -> int | None:
    """Parse the longest time from a final to its row. None means that no open files are written."""
    if text == "never":
        return None
    length = duration(text)
    if not 1 <= length <= MOST_EVERY:
        raise argparse.ArgumentTypeError(f"must be a time from 1s to 1h, or never, got {text!r}")
    return length


def _target(options: argparse.Namespace) -> Target:
    return Folder(options.to) if isinstance(options.to, Path) else ObjectStore(options.to, is_alone=options.alone)


async def _run(kafka: Kafka, options: argparse.Namespace) -> None:
    with extra("sink"):
        import polars as pl  # noqa: F401 - fails before the target is touched

    queries = None if options.query is None else frozenset(options.query)
    plan = SinkPlan(
        interval=options.every, files=options.files, settle=options.settle, keep=options.keep, queries=queries
    )
    metrics = SinkMetrics()
    metrics.lag_limit.set(plan.lag_limit)
    async with AsyncExitStack() as stack:
        target = stack.enter_context(closing(_target(options)))
        waiting_rows = stack.enter_context(closing(WaitingRows(options.spool)))
        writer = Writer(target, waiting_rows, plan, metrics)
        follower = SinkFollower(kafka, writer, waiting_rows, plan, metrics)
        number = options.port if options.health_port is None else options.health_port
        if number is not None:
            handlers = health(scrape_handler(metrics.registry), lambda: follower.missing)
            host, port_number = await stack.enter_async_context(serving_alone(handlers, options.host, number))
            sys.stdout.write(f"hubbub sink: health at http://{host}:{port_number}/\n")
            sys.stdout.flush()

        # Without Kafka the sink must not keep the target from another one.
        await follower.find()
        # The target may be away, or wait for the end of another sink's lease.
        await persist(target.take, metrics.errors)
        state = await persist(
            partial(_first_state, target, SinkState(kafka.prefix, plan.files, queries)), metrics.errors
        )
        await persist(writer.start, metrics.errors)
        sys.stdout.write(f"hubbub sink: writes to {target}\n")
        sys.stdout.flush()
        await follower.run(state, once=options.once)


def _first_state(target: Target, settings: SinkState) -> SinkState:
    """Return the state from which the sink goes on. Raise TargetRefused if the target has other settings."""
    content = target.read(PATH)
    return settings if content is None else SinkState.decode(content).continued(settings)
