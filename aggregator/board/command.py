"""`hubbub board`: follows what is published, and tells it over HTTP and on a live page."""

import argparse
import asyncio
import os
import sys
import time
from contextlib import AsyncExitStack

from aggregator.board.events import Events
from aggregator.board.follower import BoardFollower
from aggregator.board.metrics import BoardMetrics
from aggregator.board.server import application
from aggregator.board.store import Store
from aggregator.process.exit import until_asked
from hubbub import logs
from hubbub.http import serving
from hubbub.kafka import Kafka
from hubbub.options import add_address, add_kafka, duration, parser_of, run, size
from hubbub.secret import secret

HELP = """\
Show what the workers publish: a live page, and an API with the numbers behind it. A board only
reads, keeps what it needs in memory, and begins again from the topics when it is started again.

example:
  $ hubbub board --kafka 127.0.0.1:9092 --retention 6h
  hubbub board: http://127.0.0.1:8803/
  $ curl '127.0.0.1:8803/api/v1/queries/homepage/estimate?format=csv'

Where HUBBUB_TOKEN is set, or HUBBUB_TOKEN_FILE names a file that holds it, the API wants it
(Authorization: Bearer TOKEN) and the page asks for it.
Whoever else may reach the port reads what the workers publish: put TLS in front of it.

Exit code: 0 ended by Ctrl-C or SIGTERM; 2 wrong options; 3 Kafka cannot be reached; 4 a topic is
missing; 1 anything else."""


def main(arguments: list[str]) -> int:
    options = _options(arguments)
    logs.configure(options.log, options.log_level)
    return run("board", lambda: asyncio.run(_run(Kafka.read(options), options)))


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = parser_of("board", HELP)
    add_kafka(parser)
    add_address(parser, 8803, "the page and the API")
    kept = "how far back windows are kept (HUBBUB_RETENTION; default: 24h)"
    retention = os.environ.get("HUBBUB_RETENTION") or "24h"
    parser.add_argument("--retention", type=duration, default=retention, metavar="TIME", help=kept)
    most = "memory for windows and truth: the oldest go first (HUBBUB_BOARD_MEMORY; default: 256MiB)"
    memory = os.environ.get("HUBBUB_BOARD_MEMORY") or "256MiB"
    parser.add_argument("--memory", type=size, default=memory, metavar="SIZE", help=most)
    logs.add_options(parser)
    return parser.parse_args(arguments)


async def _run(kafka: Kafka, options: argparse.Namespace) -> None:
    """Until SIGINT or SIGTERM."""
    store, events = Store(options.retention, options.memory, time.time), Events()
    metrics = BoardMetrics(store)
    follower = BoardFollower(kafka, store, events, metrics)
    app = application(store, events, follower, metrics, secret("HUBBUB_TOKEN"), options.host)
    async with AsyncExitStack() as stack:
        port_open = serving(app, options.host, options.port, drain=1.0, cancel=True)
        host, port = await stack.enter_async_context(port_open)
        stack.callback(events.close)
        sys.stdout.write(f"hubbub board: http://{host}:{port}/\n")
        sys.stdout.flush()
        await until_asked(follower.run())
