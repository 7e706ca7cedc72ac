"""The command `hubbub board`, which serves the published estimates over HTTP and on a live page."""

import argparse
import asyncio
import sys
import time
from contextlib import AsyncExitStack

from aggregator.board.server.events import Events
from aggregator.board.server.follower import BoardFollower
from aggregator.board.server.metrics import BoardMetrics
from aggregator.board.server.server import application, health_handlers, refuse_rate
from aggregator.board.server.viewers import ViewerFile
from aggregator.board.store import notes
from aggregator.board.store.store import Store
from aggregator.process.defaults import MEMORY, RETENTION
from hubbub.command import logs
from hubbub.command.exit import until_asked
from hubbub.command.options import (
    add_address,
    add_health_port,
    add_kafka,
    add_option,
    duration,
    duration_text,
    parsed,
    parser_of,
    rate,
    run,
    size,
    size_text,
    whole_or_max,
)
from hubbub.file_watch import FileWatch, watch
from hubbub.http.addresses import networks
from hubbub.http.health import health_port
from hubbub.http.port_metrics import PortMetrics
from hubbub.http.port_shares import PortShares
from hubbub.http.server import serving
from hubbub.kafka.settings import Kafka
from hubbub.secret import secret

RATE = 100
"""Requests a second of an address. The page needs about 60 when it loads."""

HELP = """\
Show what the workers publish, on a live page and in an API with the same numbers. A board only
reads. It keeps its data in memory and reads the topics again when it restarts.

example:
  $ hubbub board --kafka 127.0.0.1:9092 --retention 6h
  hubbub board: http://127.0.0.1:8803/
  $ curl '127.0.0.1:8803/api/v1/queries/homepage/estimate?format=csv'

If HUBBUB_TOKEN is set, or HUBBUB_TOKEN_FILE names a file with a token, the API requires it
(Authorization: Bearer TOKEN) and the page asks for it.
With --tokens, other tokens see only the queries that a file names, for links to others.
With --notes, the histories show lines of a file, such as 2026-11-01T12:30:00Z version 3.2 is out.
Without a token, anybody who can reach the port can read the estimates. The board itself has no
TLS: put a proxy with TLS in front of it.

Exit code: 0 ended by Ctrl-C or SIGTERM; 2 wrong options; 3 Kafka cannot be reached; 4 a topic is
missing; 1 other errors."""


def main(arguments: list[str]) -> int:
    options = _options(arguments)
    logs.configure(options.log, options.log_level)
    return run("board", lambda: asyncio.run(until_asked(_run(Kafka.read(options), options))))


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = parser_of("board", HELP)
    add_kafka(parser)
    add_address(parser, 8803, "the page and the API")
    add_health_port(parser)
    add_option(
        parser,
        "HUBBUB_RETENTION",
        "--retention",
        "how long to keep windows",
        default=duration_text(RETENTION),
        type=duration,
        metavar="TIME",
    )
    add_option(
        parser,
        "HUBBUB_BOARD_MEMORY",
        "--memory",
        "memory for windows and true counts; the oldest are dropped",
        default=size_text(MEMORY),
        type=size,
        metavar="SIZE",
    )
    add_option(
        parser,
        "HUBBUB_BOARD_CONNECTIONS_EACH",
        "--connections-each",
        "limit of open connections of one address, which is an IPv4 address or an IPv6 /64; max: no limit",
        default="max",
        type=whole_or_max(1, 60_000),
        metavar="N",
    )
    add_option(
        parser,
        "HUBBUB_BOARD_TRUSTED_PROXIES",
        "--trusted-proxies",
        "networks of proxies whose X-Forwarded-For is trusted, and whose connections have no limit of their own",
        default="",
        type=parsed(networks),
        metavar="CIDR,...",
    )
    rate_help = "limit of requests a second for each address; max: no limit"
    add_option(parser, "HUBBUB_BOARD_RATE", "--rate", rate_help, default=str(RATE), type=rate, metavar="N")
    viewers = "TOML file of tokens that see named queries only, and of the queries that everybody sees"
    add_option(parser, "HUBBUB_BOARD_TOKENS", "--tokens", viewers, default="", metavar="FILE")
    notes_help = "file of notes for the histories: a line is an ISO time, a space and a text"
    add_option(parser, "HUBBUB_BOARD_NOTES", "--notes", notes_help, default="", metavar="FILE")
    logs.add_options(parser)
    return parser.parse_args(arguments)


async def _run(kafka: Kafka, options: argparse.Namespace) -> None:
    """Serve and read until cancelled."""
    store = Store(options.retention, options.memory, time.time)
    events = Events()
    metrics = BoardMetrics(store)
    follower = BoardFollower(kafka, store, events, metrics)
    token = secret("HUBBUB_TOKEN")
    viewers = FileWatch([options.tokens], lambda: ViewerFile.read(options.tokens)) if options.tokens else None
    note_file = FileWatch([options.notes], lambda: notes.read(options.notes)) if options.notes else None
    if note_file is not None:
        store.notes = lambda: note_file.value
    handlers = health_handlers(follower, metrics, token, options.host, viewers)
    with_health = handlers if options.health_port is None else {}
    app = application(store, events, follower, metrics, token, options.host, with_health, viewers)

    shares = PortShares(each=options.connections_each, proxies=options.trusted_proxies, rate=options.rate)
    metrics.registry.register(PortMetrics("board", shares, streams=events.places))
    async with AsyncExitStack() as stack:
        own_port = health_port("board", handlers, options.host, options.health_port)
        line = await stack.enter_async_context(own_port)
        port_open = serving(
            app, options.host, options.port, shares=shares, drain=1.0, cancel=True, on_rate=refuse_rate(metrics)
        )
        host, port = await stack.enter_async_context(port_open)
        # This runs before the port closes, which would otherwise wait for streams that never end.
        stack.callback(events.close)
        sys.stdout.write(f"hubbub board: http://{host}:{port}/\n{line}")
        sys.stdout.flush()
        files = [file for file in (viewers, note_file) if file is not None]
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(watch(files))
            await follower.run()
