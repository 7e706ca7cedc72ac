"""`hubbub gateway`: takes reports over HTTP and brings them into Kafka."""

import argparse
import asyncio
import ctypes
import gc
import os
import signal
import sys
from contextlib import AsyncExitStack, suppress
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from hubbub import logs
from hubbub.definitions.follower import Follower
from hubbub.http import CONNECTIONS, DRAIN, ConnectionLimits, serving, tls
from hubbub.kafka import Kafka, partitions
from hubbub.names import QUERIES, REPORTS
from hubbub.options import add_address, add_kafka, add_max_frame, add_queries, parsed, parser_of, rate, run, size, whole
from hubbub.watched import Watched, watch
from producers.gateway import produce_request, token
from producers.gateway.addresses import networks
from producers.gateway.api import Gateway, Rules
from producers.gateway.appender import Appender
from producers.gateway.definitions import ServedDefinitions, Standing
from producers.gateway.intake import LINGER, Intake
from producers.gateway.origins import origins
from producers.gateway.rates import Rates
from producers.gateway.tokens import Tokens
from producers.http import is_local

KEPT = 64 << 20
"""Bytes that are free and yet not given back."""
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""As malloc.h has them."""

HELP = """\
Take reports over HTTP from devices that do not speak Kafka, check them, and answer once they are in
the log. Start as many as there is work for, behind any load balancer.

example:
  $ hubbub gateway token --name app >> tokens.toml      # prints the token, and its hash to the file
  $ hubbub gateway --kafka 127.0.0.1:9092 --tokens tokens.toml --tls-cert cert.pem --tls-key key.pem
  hubbub gateway: https://127.0.0.1:8802/
  $ curl -H "Authorization: Bearer $TOKEN" https://127.0.0.1:8802/v1/queries

Without --tokens it takes reports from whoever reaches it, and therefore listens on this machine alone.

Exit code: 0 ended by Ctrl-C or SIGTERM, with all answered that was accepted; 2 wrong options or
files; 3 Kafka cannot be reached; 4 a guarantee cannot be kept; 1 anything else."""


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["token"]:
        return token.main(arguments[1:])
    options = _options(arguments)
    logs.configure(options.log, options.log_level)
    return run("gateway", lambda: _served(options))


def _served(options: argparse.Namespace) -> int:
    libuv = "uvloop"  # a tenth to a fifth less CPU a request; where it is not installed asyncio has its own loop
    loops = import_module(libuv).new_event_loop if find_spec(libuv) else None
    with asyncio.Runner(loop_factory=loops) as runner:
        return runner.run(_run(Kafka.read(options), options))


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = parser_of("gateway", HELP)
    add_kafka(parser, embedded=True)
    add_queries(parser)
    add_address(parser, 8802, "the gateway")
    add_max_frame(parser)
    logs.add_options(parser)
    add = partial(_add, parser)
    add("tokens", "hashes, names and quotas of tokens", metavar="FILE")
    add("tls-cert", "certificate with its chain, in PEM; read again when it changes", metavar="FILE")
    add("tls-key", "its key, in PEM", metavar="FILE")
    add("origins", "pages that may send: https://HOST,...", "", type=parsed(origins), metavar="ORIGIN,...")
    proxies = "whose X-Forwarded-For is believed"
    add("trusted-proxies", proxies, "", type=parsed(networks), metavar="CIDR,...")
    add("rate", "requests a second and address; max: no limit", "100", type=rate, metavar="N")
    add("max-body", "the largest body, inflated too", "4MiB", type=size, metavar="SIZE")
    add("connections", "open at a time", str(CONNECTIONS), type=whole(1, 60_000), metavar="N")
    add(
        "linger", "milliseconds that reports wait for those of others", str(LINGER), type=whole(0, 10_000), metavar="MS"
    )
    options = parser.parse_args(arguments)
    if (options.tls_cert is None) != (options.tls_key is None):
        parser.error("--tls-cert and --tls-key go together")
    if options.tokens is None and not is_local(options.host):
        parser.error(f"--tokens is missing, and without it strangers could send to {options.host}")
    return options


def _add(parser: argparse.ArgumentParser, name: str, meaning: str, default: str | None = None, **more: Any) -> None:
    """An option with its environment variable; secrets may be named as what they are, a FILE, there."""
    variable = f"HUBBUB_GATEWAY_{name.upper().replace('-', '_')}"
    given = {key: os.environ[key] for key in (variable, f"{variable}_FILE") if os.environ.get(key)}
    if len(given) > 1:
        parser.error(f"{' and '.join(given)} are both set: keep one")
    said = f"{meaning} ({variable}{f'; default: {default}' if default else ''})"
    parser.add_argument(f"--{name}", default=next(iter(given.values()), default), help=said, **more)


async def _run(kafka: Kafka, options: argparse.Namespace) -> int:
    """Until SIGINT or SIGTERM, and until what is accepted by then is answered."""
    asked = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, asked.set)
    file = Watched((options.queries,), lambda: ServedDefinitions.read(options.queries))
    tokens = None if options.tokens is None else Watched((options.tokens,), lambda: Tokens.read(options.tokens))
    secured = None if options.tls_cert is None else tls(options.tls_cert, options.tls_key)
    files: list[Watched[Any]] = [watched for watched in (file, tokens, secured) if watched is not None]
    produce_request.install()
    appender, follower = Appender(kafka, options.max_frame), Follower(kafka)
    limits = ConnectionLimits(options.connections)
    definitions = Standing(file, follower)
    intake = Intake(appender, definitions, options.max_frame, options.linger / 1000)
    rules = Rules(
        max_body=options.max_body,
        max_frame=options.max_frame,
        origins=options.origins,
        trusted=options.trusted_proxies,
        hosts=None if tokens else frozenset({options.host, "localhost", "127.0.0.1", "[::1]"}),
    )
    await partitions(kafka, REPORTS, QUERIES)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(appender.running())
        await stack.enter_async_context(follower)
        gateway = Gateway(rules, definitions, tokens, Rates(options.rate), appender, intake, limits)
        for work in (follower.run(), watch(files)):
            stack.push_async_callback(_cancelled, asyncio.create_task(work))
        context = None if secured is None else secured.value
        host, port = await stack.enter_async_context(
            serving(
                gateway.application(),
                *(options.host, options.port),
                limits=limits,
                drain=DRAIN,
                context=context,
                direct=gateway.direct,
            )
        )
        _tune()
        sys.stdout.write(f"hubbub gateway: {'https' if secured else 'http'}://{host}:{port}/\n")
        sys.stdout.flush()
        ending = asyncio.create_task(asked.wait())
        ends: set[asyncio.Future[Any]] = {ending, appender.broken}
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        ending.cancel()
        gateway.draining = True
        intake.flush()
    if appender.broken.done():
        await appender.broken
    return 0


def _tune() -> None:
    """What stands by now stands to the end; of what comes, next to nothing is a cycle, and memory is needed again.

    Looking through the requests on their way, and having pages back that were just given away, cost a tenth each.
    """
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    with suppress(AttributeError, OSError):  # glibc's alone
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_TRIM_THRESHOLD, KEPT)
        mallopt(_MMAP_THRESHOLD, KEPT // 8)


async def _cancelled(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])
