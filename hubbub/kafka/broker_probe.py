"""Questions to the ports of brokers, which name the likely cause of a failed connection."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from enum import Enum
from typing import TypeVar

from hubbub.kafka.errors import KafkaUnreachable
from hubbub.kafka.settings import CERT_FILE, SECURITY, Kafka

SECONDS = 3.0
"""Seconds for the answer of one port."""
PAUSE = 1.0
"""Seconds between two attempts while a broker is missing."""
PATIENCE = 60.0
"""Seconds for which a start goes on with the other brokers. Kafka needs 9 s to notice the loss of one."""

NOBODY = "start the broker, or name another one with --kafka HOST:PORT or HUBBUB_KAFKA"
"""The advice if no port answers."""

_Answer = TypeVar("_Answer")


class Port(Enum):
    """What a port answers."""

    ABSENT = "no answer"
    PLAIN = "no TLS"
    TLS = "TLS"


async def ask(servers: str) -> dict[str, Port]:
    """Return what each of these ports answers."""
    names = servers.split(",")
    return dict(zip(names, await asyncio.gather(*map(_ask_one, names)), strict=True))


async def _ask_one(server: str) -> Port:
    host, _, port = server.rpartition(":")
    host = host.strip("[]")
    # The question is only whether this is TLS, and nothing is sent. The real connection checks the certificate.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE

    try:
        await _close(asyncio.open_connection(host, int(port)))
    except (OSError, TimeoutError):
        return Port.ABSENT
    try:
        await _close(asyncio.open_connection(host, int(port), ssl=context))
    except TimeoutError:
        # The kernel accepts connections for a frozen broker too.
        return Port.ABSENT
    except OSError:
        return Port.PLAIN
    return Port.TLS


async def _close(opening: Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]) -> None:
    """Wait for a connection, and close it."""
    async with asyncio.timeout(SECONDS):
        _, writer = await opening
    writer.close()
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(SECONDS):
            await writer.wait_closed()


def likely_cause(kafka: Kafka, ports: Mapping[str, Port], reason: str) -> str:
    """Return the likely cause of a failed connection in words, or an empty text if the reason says enough."""
    absent = missing(ports)
    if len(absent) == len(ports):
        return NOBODY
    if absent:
        return absence(ports)

    other_layer = Port.PLAIN if kafka.tls else Port.TLS
    wrong = [server for server, port in ports.items() if port is other_layer]
    if wrong:
        speaks = "does not speak TLS" if kafka.tls else "speaks TLS"
        protocols = "PLAINTEXT or SASL_PLAINTEXT" if kafka.tls else "SSL or SASL_SSL"
        return f"{', '.join(wrong)} {speaks}, so {SECURITY} is probably {protocols}, not {kafka.protocol}"

    if kafka.sasl and "IllegalSaslState" in reason:
        protocol = "SSL" if kafka.tls else "PLAINTEXT"
        return f"the broker takes no login, so {SECURITY} is probably {protocol}, not {kafka.protocol}"
    if not kafka.sasl and "closed" in reason:
        protocol = "SASL_SSL" if kafka.tls else "SASL_PLAINTEXT"
        text = f"the broker closes connections without a login, so {SECURITY} is probably {protocol}"
        if kafka.tls and kafka.cert_file is None:
            text += f", or the broker asks for a certificate of the client ({CERT_FILE})"
        return text
    return ""


def missing(ports: Mapping[str, Port]) -> Sequence[str]:
    return [server for server, port in ports.items() if port is Port.ABSENT]


def absence(ports: Mapping[str, Port]) -> str:
    """Return which brokers give no answer, and which do."""
    absent = missing(ports)
    others = [server for server in ports if server not in absent]
    return f"no answer from {', '.join(absent)}, but from {', '.join(others)}"


async def with_remaining(
    kafka: Kafka, step: Callable[[Kafka], Awaitable[_Answer]], warn: Callable[[str], None]
) -> _Answer:
    """Return the answer to a question that may be asked again. While only some brokers are missing, ask for a minute.

    `warn` gets which brokers are missing, once.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + PATIENCE
    remaining = kafka
    while True:
        try:
            return await step(remaining)
        except KafkaUnreachable:
            ports = await ask(kafka.servers)
            absent = missing(ports)
            if len(absent) in (0, len(ports)) or loop.time() > end:
                raise
            if remaining is kafka:
                warn(absence(ports))
            # A client asks the first address first, and waits longer for a frozen broker than the start has time.
            remaining = replace(kafka, servers=",".join(server for server in ports if server not in absent))
        await asyncio.sleep(PAUSE)
