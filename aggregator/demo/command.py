"""The command `hubbub demo`, which runs everything on this machine, with simulated clients and a surge."""

import argparse
import asyncio
import math
import os
import signal
import sys
import threading
import time
import webbrowser
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from importlib.util import find_spec
from pathlib import Path

from aggregator.demo import crashes, pace, story
from aggregator.demo.broker import EmbeddedBroker, free_port, is_free
from aggregator.demo.child import Child
from aggregator.demo.device import static_page
from aggregator.demo.keeper import temporary_file
from aggregator.demo.screen import DemoScreen
from aggregator.errors import ChildEnded
from aggregator.reading.tail.notation import plain
from aggregator.topics.command import ensure
from hubbub.command import early_sigterm
from hubbub.command.exit import exit_process
from hubbub.command.idle_options import refuse_idle
from hubbub.command.options import parsed, parser_of, run, whole
from hubbub.kafka.settings import PREFIX, Kafka, parse_prefix, parse_servers
from oracles.errors import ParameterError
from oracles.query import Query, load

DEVICE_QUERIES = static_page.QUERIES
DEMO_PREFIX = "hubbub-demo."
PARTITIONS = 4
DEVICE_RATE = 30
"""Answers a second beside the page of a device. Among more, nobody would see his own answer."""
PAGE = 8803

HELP = f"""\
Start everything on this machine: a broker in memory, the topics, a worker, a board with its page, and
a crowd of simulated clients. Each client adds noise to its answers, and the page still shows the
shares of the crowd, and how long their pages take to load. After a minute one value surges and causes
an alert, and one page load in ten takes four times as long. The app of some clients crashes in a way that
nobody has listed. A search finds the name of this crash 75 seconds after the start. Ctrl-C ends the demo
and removes everything.

Before the start the demo measures for a second what the free cores can do, and prints how large a crowd it
keeps up with. If results are late all the same, it says so, and for when it expects what it has announced.

example:
  $ hubbub demo
  $ hubbub demo --queries hubbub.toml --no-browser --seconds 120
  $ hubbub demo --kafka 127.0.0.1:9092
  $ hubbub demo --device

With --device you are a device yourself: a page shows your answer, the coin tosses, the bytes that leave
your browser, and what an observer may conclude. The gateway takes them, and the board moves. The crowd is
small, and nothing surges. With --device-file the command writes the same page to a file, with a simulated
crowd in it, and ends. That page needs no server.

With --kafka the demo creates topics with their own prefix ({DEMO_PREFIX}) there, and they remain.
Names are then searched every five minutes of the clock.
From the environment the demo uses only the login, so that it never answers real queries.

Exit code: 0 ended by Ctrl-C, SIGTERM or --seconds; 2 wrong options or query file; 3 Kafka cannot be
reached; 4 a guarantee cannot hold (for example, wrong topic settings); 1 other errors."""


def main(arguments: list[str]) -> int:
    options = _options(arguments)
    if options.device_file is not None:
        return run("demo", lambda: _write(options.device_file))
    return run("demo", lambda: _demonstrate(options))


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = parser_of("demo", HELP)

    address = "address of a real Kafka (default: a broker in memory)"
    parser.add_argument("--kafka", type=parsed(parse_servers), metavar="HOST:PORT", help=address)
    prefix = f"prefix of the topics (default: {PREFIX}; with --kafka {DEMO_PREFIX})"
    parser.add_argument("--prefix", type=parsed(parse_prefix), metavar="P", help=prefix)
    file = "query file (default: favourites among 100 pages, loading times, and crashes)"
    parser.add_argument("--queries", type=Path, metavar="FILE", help=file)
    device = "show a page on which you are a device, beside the board (default query file: favourite drinks)"
    parser.add_argument("--device", action="store_true", help=device)
    static = "write this page to a file, with a simulated crowd, and end"
    parser.add_argument("--device-file", type=Path, metavar="FILE", help=static)
    parser.add_argument("--no-browser", action="store_true", help="do not open the page in a browser")
    parser.add_argument("--seconds", type=whole(1), metavar="N", help="seconds until the demo ends (default: never)")

    options = parser.parse_args(arguments)
    if options.device_file is not None:
        others = ("--kafka", "--prefix", "--queries", "--device", "--no-browser", "--seconds")
        refuse_idle(parser, arguments, others, "with --device-file, which writes a file and ends")
    if options.prefix is None:
        options.prefix = DEMO_PREFIX if options.kafka else PREFIX

    if options.queries is None and options.device:
        options.queries = DEVICE_QUERIES
    return options


def _demonstrate(options: argparse.Namespace) -> None:
    # Before anything else of the demo runs, and before a pane is planned, since it takes a second.
    options.pace = None if options.device else pace.measure()
    # The topics of a real Kafka remain, and the definitions in them should not change.
    options.delay = 0 if options.queries or options.kafka else crashes.clock_delay(time.time())
    text = story.query_text(options.delay)
    file = nullcontext(options.queries) if options.queries else temporary_file(story.QUERIES.name, text)
    with file as options.queries:
        asyncio.run(_run(options, load(options.queries)))


def _write(path: Path) -> None:
    """Write the page of a device as one file."""
    try:
        path.write_text(static_page.static_page(), encoding="utf-8")
    except OSError as error:
        raise ParameterError(f"{path} cannot be written: {error.strerror}") from error
    _print(f"page: {path}")


async def _run(options: argparse.Namespace, queries: Mapping[str, Query]) -> None:
    """Run the demo until a signal, or the end of `--seconds`."""
    _handle_signals()
    deadline = asyncio.timeout(options.seconds)

    try:
        async with AsyncExitStack() as stack:
            if options.kafka:
                kafka = Kafka.read(options)
            else:
                broker = await stack.enter_async_context(EmbeddedBroker())
                kafka = broker.kafka(options.prefix)
            demo = Demo(kafka, options, queries)
            stack.push_async_callback(demo.stop)
            async with deadline:
                await demo.run()
    except asyncio.CancelledError:
        return
    except TimeoutError:
        if not deadline.expired():
            raise


def _handle_signals() -> None:
    """End cleanly on the first signal and at once on the second. The children end in both cases."""
    task = asyncio.current_task()

    def end() -> None:
        if task is None or task.cancelling():
            exit_process(0)
        else:
            task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, end)
    if early_sigterm.has_come():
        end()


class Demo:
    """The processes of a demo, and its output."""

    def __init__(self, kafka: Kafka, options: argparse.Namespace, queries: Mapping[str, Query]) -> None:
        self._kafka = kafka
        self._options = options
        self._queries = queries
        self._device = static_page.device_query(queries) if options.device else None
        self._rates = dict.fromkeys(queries, DEVICE_RATE)
        if self._device is None:
            self._rates = story.rates(queries.values(), options.pace.rate)
        self._children: list[Child] = []
        self._board = ""

    async def run(self) -> None:
        """Run until cancelled, or until a process ends and cannot start again."""
        await ensure(self._kafka, PARTITIONS)
        self._introduce()

        promises = [] if self._device else story.promises(self._queries.values(), self._options.delay)
        screen = DemoScreen(self._queries, promises, _print)
        counting = [self._worker(), *map(self._crowd, self._queries.values())]

        # Counting starts before the page, which takes seconds and needs records to show.
        try:
            async with asyncio.TaskGroup() as tasks:
                for child in counting:
                    tasks.create_task(child.supervise())
                board = await self._page()
                if board is not None:
                    tasks.create_task(board.supervise())
                if self._device is None:
                    tasks.create_task(screen.watch_time())
                async with self._device_page(tasks):
                    await screen.follow(self._kafka, page=board is not None)
        except BaseExceptionGroup as group:
            # The exit code of the demo is that of the first process that ended.
            raise group.exceptions[0] from None

    async def stop(self) -> None:
        if self._children:
            _print("ending")
        await asyncio.gather(*(child.stop() for child in self._children))

    def _introduce(self) -> None:
        kafka = self._kafka
        _print(f"Kafka: {kafka.servers}, {'in memory' if kafka.embedded else f'topics {kafka.prefix}*, which remain'}")
        if self._options.pace is not None:
            _print(str(self._options.pace))
        for query in self._queries.values():
            odds = math.exp(query.record_epsilon)
            promise = f"one report changes the odds between two answers at most {odds:.3g} times"
            _print(f"crowd: {self._rates[query.name]:,} answers per second to {query.name}; {promise}")
            if self._device is None:
                for event in story.events(query, self._options.delay):
                    _print(plain(event, crashes.EVENT))

    def _child(self, name: str) -> Child:
        environment = {
            "HUBBUB_KAFKA": self._kafka.servers,
            "HUBBUB_PREFIX": self._kafka.prefix,
            "HUBBUB_EMBEDDED": str(int(self._kafka.embedded)),
            "HUBBUB_QUERIES": str(self._options.queries.resolve()),
        }
        self._children.append(Child(name, environment, login=not self._kafka.embedded))
        return self._children[-1]

    def _worker(self) -> Child:
        worker = self._child("worker")
        # Any free port, because another worker or demo may have the usual one.
        worker.start("worker", "--port", "0")
        return worker

    def _crowd(self, query: Query) -> Child:
        crowd = self._child(f"crowd of {query.name}")
        rate = str(self._rates[query.name])
        answers = ["--query", query.name, "--rate", rate, "--port", "0", *story.values(query, crowd.folder)]
        if self._device is None:
            answers += story.changes(query, self._options.delay, crowd.folder)
        crowd.start("simulate", *answers)
        return crowd

    async def _page(self) -> Child | None:
        """Start the board and wait for its page. Return None if there is no board."""
        if not find_spec("aggregator.board"):
            return None
        board = self._child("board")
        address = ""
        port = PAGE if is_free(PAGE) else free_port()
        while not address:
            if port != PAGE:
                _print(f"port {PAGE} is in use; the page uses port {port}")
            board.start("board", "--port", str(port))
            try:
                address = (await board.find_output(r"hubbub board: (http://\S+)"))[1]
            except ChildEnded as error:
                if port != PAGE or is_free(PAGE):
                    _print(f"no page: {error}")
                    return None
                port = free_port()  # another demo has taken the first one meanwhile
        _print(f"page: {address}")

        self._board = address
        if self._device is None:
            self._open(address)
        return board

    @asynccontextmanager
    async def _device_page(self, tasks: asyncio.TaskGroup) -> AsyncIterator[None]:
        """Serve the page of a device, if it is asked for and there is a board. Start a gateway for it."""
        if self._device is None or not self._board:
            yield
            return
        from aggregator.demo.device.page_server import serving_page

        gateway = self._child("gateway")
        gateway.start("gateway", "--port", str(free_port()))
        address = (await gateway.find_output(r"hubbub gateway: (http://\S+)"))[1]
        tasks.create_task(gateway.supervise())

        async with serving_page(self._device, address, self._board, free_port()) as page:
            _print(f"device: {page}")
            self._open(page)
            yield

    def _open(self, address: str) -> None:
        """Open a page in the browser, if there is a display."""
        if not self._options.no_browser and _has_display():
            # Opening may take as long as the browser runs.
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()


def _print(text: str) -> None:
    print(text, flush=True)


def _has_display() -> bool:
    return sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
