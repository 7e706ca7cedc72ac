"""`hubbub board`: follows what is published, and tells it over HTTP and on a live page."""

import argparse
import asyncio
import os
import sys
from contextlib import AsyncExitStack

from aiohttp import web

from aggregator.board.events import Events
from aggregator.board.follower import Follower
from aggregator.board.metrics import Metrics
from aggregator.board.server import application
from aggregator.board.store import Store
from aggregator.plan.check import parse_size
from aggregator.process import logs
from aggregator.process.exit import until_asked
from aggregator.process.health import listen
from aggregator.topics.command import TopicsError
from hubbub.kafka import Kafka, add_options
from oracles.errors import HubbubError
from oracles.query.settings import seconds

HELP = """\
Show what the workers publish: a live page, and an API with the numbers behind it. A board only
reads, keeps what it needs in memory, and begins again from the topics when it is started again.

example:
  $ hubbub board --kafka 127.0.0.1:9092 --retention 6h
  hubbub board: http://127.0.0.1:8803/
  $ curl '127.0.0.1:8803/api/v1/queries/homepage/estimate?format=csv'

Where HUBBUB_TOKEN is set the API wants it (Authorization: Bearer TOKEN) and the page asks for it.
Whoever else may reach the port reads what the workers publish: put TLS in front of it.

Exit code: 0 ended by Ctrl-C or SIGTERM; 2 wrong options; 3 Kafka cannot be reached; 4 a topic is
missing; 1 anything else."""


def main(arguments: list[str]) -> int:
    options = _options(arguments)
    logs.configure(options.log, options.log_level)
    code = 0
    try:
        asyncio.run(_run(Kafka.read(options), options))
    except* (HubbubError, TopicsError) as group:
        error = _first(group)
        sys.stderr.write("".join(f"hubbub board: {line}\n" for line in str(error).splitlines()))
        code = getattr(error, "exit_code", 2)
    return int(code)


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _options(arguments: list[str]) -> argparse.Namespace:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="hubbub board", description=HELP, formatter_class=raw)
    add_options(parser)
    env = os.environ
    host, port = env.get("HUBBUB_HOST") or "127.0.0.1", env.get("HUBBUB_PORT") or "8803"
    parser.add_argument("--host", default=host, help="where to listen (HUBBUB_HOST; 127.0.0.1)")
    parser.add_argument("--port", type=int, default=port, help="0: any free one, printed (HUBBUB_PORT; 8803)")
    kept = "how far back windows are kept (HUBBUB_RETENTION; 24h)"
    parser.add_argument(
        "--retention", type=_duration, default=env.get("HUBBUB_RETENTION") or "24h", metavar="TIME", help=kept
    )
    most = "memory for windows and truth: the oldest go first (HUBBUB_BOARD_MEMORY; 256MiB)"
    memory = env.get("HUBBUB_BOARD_MEMORY") or "256MiB"
    parser.add_argument("--memory", type=parse_size, default=memory, metavar="SIZE", help=most)
    logs.add_options(parser)
    return parser.parse_args(arguments)


def _duration(text: str) -> int:
    length = seconds(text)
    if not length:
        raise argparse.ArgumentTypeError(f"must be a duration such as 30m, 6h or 7d, got {text!r}")
    return length


async def _run(kafka: Kafka, options: argparse.Namespace) -> None:
    """Until SIGINT or SIGTERM."""
    store, events, metrics = Store(options.retention, options.memory), Events(), Metrics()
    follower = Follower(kafka, store, events, metrics)
    app = application(store, events, follower, metrics, os.environ.get("HUBBUB_TOKEN") or None)
    async with AsyncExitStack() as stack:
        runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=1.0)
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        stack.callback(events.close)
        host, port = await listen(runner, options.host, options.port)
        sys.stdout.write(f"hubbub board: http://{host}:{port}/\n")
        sys.stdout.flush()
        await until_asked(follower.run())
