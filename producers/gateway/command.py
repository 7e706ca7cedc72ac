"""`hubbub gateway`: accepts reports over HTTP and sends them to Kafka."""

import argparse
import asyncio
import ctypes
import gc
import signal
import sys
from contextlib import AsyncExitStack, suppress
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from hubbub.command import logs
from hubbub.command.exit import until_asked
from hubbub.command.options import (
    add_address,
    add_health_port,
    add_kafka,
    add_max_frame,
    add_option,
    add_queries,
    parsed,
    parser_of,
    rate,
    run,
    size,
    whole,
    whole_or_max,
)
from hubbub.definitions import formats
from hubbub.definitions.follower import Follower
from hubbub.fast_paths import note
from hubbub.file_watch import FileWatch, watch
from hubbub.http.addresses import networks
from hubbub.http.certificate import CertificateEnd, tls, warn_daily
from hubbub.http.health import health_port
from hubbub.http.port_shares import CONNECTIONS, PortShares
from hubbub.http.server import DRAIN, serving
from hubbub.kafka.clients import partitions
from hubbub.kafka.patches import produce_request
from hubbub.kafka.settings import QUERIES, REPORTS, Kafka
from producers.gateway.access import token_command
from producers.gateway.access.limits import WORK
from producers.gateway.access.origins import origins
from producers.gateway.access.tokens import Tokens
from producers.gateway.intake.active_definitions import ActiveDefinitions, ServedDefinitions
from producers.gateway.intake.appender import Appender
from producers.gateway.intake.pipeline import LINGER, Intake
from producers.gateway.openapi import STATE
from producers.gateway.server import Gateway, Rules
from producers.publishers.http_publisher import is_local

FREE_MEMORY = 64 << 20
"""Bytes of free memory that the process keeps."""
STATE_COST = 0.1
"""The part of a request of --rate that a request for the state counts as. Clients ask for it before they answer."""
_TRIM_THRESHOLD = -1
_MMAP_THRESHOLD = -3
"""Parameters of mallopt, from malloc.h."""

HELP = """\
Accept reports over HTTP from devices that cannot use Kafka. The gateway checks them, and answers when they are
in the log. Start as many gateways as you need, behind any load balancer.

example:
  $ hubbub gateway token --name app --quota 100000 >> tokens.toml  # prints the token on stderr
  $ hubbub gateway --kafka 127.0.0.1:9092 --tokens tokens.toml --tls-cert cert.pem --tls-key key.pem
  hubbub gateway: https://127.0.0.1:8802/
  $ curl -H "Authorization: Bearer $TOKEN" https://127.0.0.1:8802/v1/queries

Without --tokens anybody may send reports, so the gateway listens only on this machine.

Exit code: 0 stopped by Ctrl-C or SIGTERM, after all accepted requests are answered; 2 wrong options or
files; 3 Kafka does not answer; 4 a guarantee cannot be kept; 1 any other error."""


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["token"]:
        return token_command.main(arguments[1:])
    options = _options(arguments)
    logs.configure(options.log, options.log_level)
    return run("gateway", lambda: _serve(options))


def _serve(options: argparse.Namespace) -> int:
    libuv = "uvloop"  # 10 to 20% less CPU per request; without it asyncio uses its own loop
    loops = None
    # Beside 1,000 connections with long bodies, a gateway had 560 MiB with the TLS of uvloop, and 450 with asyncio's.
    if options.tls_cert is None:
        loops = import_module(libuv).new_event_loop if find_spec(libuv) else None
        note("loop", on=loops is not None, reason="uvloop is not installed")
    with asyncio.Runner(loop_factory=loops) as runner:
        return runner.run(until_asked(_run(Kafka.read(options), options))) or 0


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = parser_of("gateway", HELP)
    add_kafka(parser, embedded=True)
    add_queries(parser)
    add_address(parser, 8802, "the gateway")
    add_health_port(parser)
    add_max_frame(parser)
    logs.add_options(parser)

    add = partial(_add, parser)
    add("tokens", "file with names, hashes and quotas of tokens", metavar="FILE")
    add("tls-cert", "PEM file of the certificate and its chain; read again when it changes", metavar="FILE")
    add("tls-key", "PEM file of the certificate's key", metavar="FILE")
    add(
        "origins",
        "origins of web pages that may send: https://HOST,...",
        "",
        type=parsed(origins),
        metavar="ORIGIN,...",
    )
    proxies = "networks of proxies whose X-Forwarded-For is trusted, and whose connections have no limit of their own"
    add("trusted-proxies", proxies, "", type=parsed(networks), metavar="CIDR,...")
    add("rate", "limit of requests a second for each address; max: no limit", "100", type=rate, metavar="N")
    work = "limit of decoding work a second for each caller: 1 for a frame, 1 for a KiB; max: no limit"
    add("work", work, str(WORK), type=rate, metavar="N")
    add("max-body", "largest body, compressed or decompressed", "4MiB", type=size, metavar="SIZE")
    add("connections", "limit of open connections", str(CONNECTIONS), type=whole(1, 60_000), metavar="N")
    each_help = "limit of open connections of one address, which is an IPv4 address or an IPv6 /64; max: no limit"
    add("connections-each", each_help, "max", type=whole_or_max(1, 60_000), metavar="N")
    add(
        "linger",
        "milliseconds that reports without a key wait for other requests",
        str(LINGER),
        type=whole(0, 10_000),
        metavar="MS",
    )
    least_help = "least number of reports in a mix buffer, which waits at most half the lateness and 10 s"
    add("least", least_help, "1", type=whole(1, 1_000_000), metavar="N")

    options = parser.parse_args(arguments)
    if (options.tls_cert is None) != (options.tls_key is None):
        parser.error("--tls-cert and --tls-key must be set together")
    if options.tokens is None and not is_local(options.host):
        parser.error(f"--host {options.host} needs --tokens, or anybody could send reports")
    return options


def _add(parser: argparse.ArgumentParser, name: str, meaning: str, default: str | None = None, **more: Any) -> None:
    """Add an option of the gateway alone. Its variable has the same name, and may end in _FILE."""
    variable = f"HUBBUB_GATEWAY_{name.upper().replace('-', '_')}"
    add_option(parser, variable, f"--{name}", meaning, default=default, may_be_file=True, **more)


async def _run(kafka: Kafka, options: argparse.Namespace) -> int:
    """Serve until SIGINT or SIGTERM, then answer all accepted requests. Before it serves, a signal ends it at once."""
    file = FileWatch((options.queries,), lambda: ServedDefinitions.read(options.queries))
    tokens = None if options.tokens is None else FileWatch((options.tokens,), lambda: Tokens.read(options.tokens))
    if tokens is not None:
        tokens.value.warn_of_undecided()
    certificate = None if options.tls_cert is None else tls(options.tls_cert, options.tls_key)
    files: list[FileWatch[Any]] = [watch for watch in (file, tokens, certificate) if watch is not None]

    produce_request.install()
    appender = Appender(kafka, options.max_frame)
    follower = Follower(kafka)
    shares = PortShares(options.connections, options.connections_each, options.trusted_proxies, options.rate)
    definitions = ActiveDefinitions(file, follower)
    appender.definitions = lambda: definitions.value.versions
    intake = Intake(appender, definitions, options.max_frame, options.linger / 1000, least=options.least)

    rules = Rules(
        max_body=options.max_body,
        max_frame=options.max_frame,
        origins=options.origins,
        proxies=options.trusted_proxies,
        work=options.work,
        has_tls=options.tls_cert is not None,
        hosts=None if tokens else frozenset({options.host, "localhost", "127.0.0.1", "[::1]"}),
    )

    # A producer that asks for a missing topic may create it, without the settings that it needs.
    await partitions(kafka, REPORTS, QUERIES)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(appender.connect())
        await stack.enter_async_context(follower)
        formats.refuse_higher(follower.definitions.formats)
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        gateway = Gateway(rules, definitions, tokens, appender, intake, shares)

        works = [follower.run(), watch(files)]
        gateway.metrics.registry.register(CertificateEnd(certificate))
        if certificate is not None:
            works.append(warn_daily(certificate, options.tls_cert))
        for work in works:
            stack.push_async_callback(_cancel, asyncio.create_task(work))

        context = None if certificate is None else certificate.value.context
        own_port = health_port("gateway", gateway.health, options.host, options.health_port)
        line = await stack.enter_async_context(own_port)
        host, port = await stack.enter_async_context(
            serving(
                gateway.application(with_health=options.health_port is None),
                options.host,
                options.port,
                shares=shares,
                drain=DRAIN,
                context=context,
                direct=gateway.direct,
                on_rate=gateway.refuse_rate,
                costs={STATE.path: STATE_COST},
            )
        )

        _tune()
        sys.stdout.write(f"hubbub gateway: {'https' if certificate else 'http'}://{host}:{port}/\n{line}")
        sys.stdout.flush()

        ending = asyncio.create_task(stop.wait())
        ends: set[asyncio.Future[Any]] = {ending, appender.broken}
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)

        ending.cancel()
        gateway.draining = True
        intake.flush()
    if appender.broken.done():
        await appender.broken
    return 0


def _tune() -> None:
    """Tune garbage collection and malloc.

    Present objects stay for ever, and new ones are almost never cycles. Without this, scanning the requests in flight
    and returning free memory to the system would cost a tenth of the CPU each.
    """
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    with suppress(AttributeError, OSError):  # only glibc has mallopt
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_TRIM_THRESHOLD, FREE_MEMORY)
        mallopt(_MMAP_THRESHOLD, FREE_MEMORY // 8)


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])
