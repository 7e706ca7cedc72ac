"""One table of attacks on ports. A row has the held thing, the pace, the sources and the port.

A new route or a new thing is a row of THINGS.
"""

import asyncio
import random
import ssl
from contextlib import suppress
from dataclasses import dataclass
from itertools import product

from aggregator.board.server.route import ROUTES
from tests.hostile.reports import keyed_report, keyed_request, report, unfinished_request

HOST = b" HTTP/1.1\r\nHost: 127.0.0.1\r\n"
REPORT = b"POST /v1/reports" + HOST + b"Content-Type: application/vnd.hubbub.frames\r\n"
HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
"""The beginning of a TLS handshake of 516 bytes."""
_PIPELINE = 400


def whole_hello():
    """Return the first message of a TLS client."""
    outgoing = ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="127.0.0.1")
    with suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


PARAMETERS = {"set": "?name=fun", "history": "?value=a", "range": "?from=0&to=1"}
"""The parameters that routes of a board require, by the last word of their paths."""


def route_requests(route):
    """Return requests in a row for a route of a board."""
    path = route.path.replace("{query}", "homepage") + PARAMETERS.get(route.path.rpartition("/")[2], "")
    return _PIPELINE * (b"GET " + path.encode() + HOST + b"\r\n")


def any_route_requests():
    return route_requests(random.choice(ROUTES))


THINGS = {
    "header": ("gateway", b"GET / HTTP/1.1\r\nX: "),
    "handshake": ("gateway with TLS", HELLO),
    "handshake after its hello": ("gateway with TLS", whole_hello()),
    "body by length": ("gateway", REPORT + b"Content-Length: 60000\r\n\r\nHBB"),
    "body by chunks": ("gateway", REPORT + b"Transfer-Encoding: chunked\r\n\r\nea60\r\nHBB"),
    "answers": ("gateway", _PIPELINE * (b"GET /openapi.json" + HOST + b"\r\n")),
    "listing": ("gateway", _PIPELINE * (b"GET /v1/queries" + HOST + b"\r\n")),
    "errors": ("gateway", 4 * _PIPELINE * (b"GET /nothing" + HOST + b"\r\n")),
    "page": ("board", _PIPELINE * (b"GET /static/page.js" + HOST + b"\r\n")),
    "answers of the API": ("board", any_route_requests),
    "stream": ("board", b"GET /api/v1/events" + HOST + b"\r\n"),
    "header of a board": ("board", b"GET / HTTP/1.1\r\nX: "),
    "metrics": ("worker", _PIPELINE * (b"GET /metrics" + HOST + b"\r\n")),
    "header of a worker": ("worker", b"GET / HTTP/1.1\r\nX: "),
    "ids of a pane": ("gateway with ids", keyed_request),
    "memory of a name": ("gateway with tokens", unfinished_request),
}
"""The things that a connection holds, each with the port and the first bytes, or a function that makes them."""
ROUTE_THINGS = {f"GET {route.path}": ("board", route_requests(route)) for route in ROUTES}
"""The answers of each route of a board's API."""
NEW = -1
PACES = {
    "nothing moves": 0,
    "1 byte a second": 1,
    "500 bytes a second": 500,
    "1,000 bytes a second": 1_000,
    "a new one at once": NEW,
}
"""The bytes that a connection moves in a second. With NEW it is closed, and another one comes.

1,000 bytes of each of 1,000 connections are the volume that SECURITY.md claims.
"""
MIXTURE = "all mixed"
SOURCES = {
    "1 address": ["127.0.1.1"],
    "17 addresses": [f"127.0.1.{number}" for number in range(1, 18)],
    "100 networks": [f"127.1.{number}.1" for number in range(100)],
    "an IPv6 /48": [f"2001:db8:1:{number:x}::1" for number in range(1_000)],
    "the honest networks": [f"127.2.{number}.1" for number in range(10)],
}
"""The addresses of attackers. Those of IPv6 need the network namespace of `campaign`."""
HONEST = [f"127.2.{number}.1" for number in range(10)]
"""The addresses of honest clients, each in a network of its own."""
LISTING = b"GET /v1/queries" + HOST + b"Connection: close\r\n\r\n"
REQUESTS = {
    "gateway": lambda: LISTING,
    "gateway with TLS": lambda: LISTING,
    "gateway with ids": keyed_report,
    "gateway with tokens": report,
    "board": lambda: b"GET /api/v1/queries" + HOST + b"Connection: close\r\n\r\n",
    "worker": lambda: b"GET /healthz" + HOST + b"Connection: close\r\n\r\n",
}
"""The requests of honest clients, by port."""
NEW_CONNECTIONS = 150
"""New connections of all attackers in a second, by the claim of SECURITY.md."""


@dataclass(frozen=True)
class Attack:
    """A row of the table."""

    thing: str
    pace: str
    source: str

    @property
    def port(self):
        return _ALL_THINGS[self.thing][0]

    @property
    def first_bytes(self):
        """The first bytes of a new connection."""
        content = _ALL_THINGS[self.thing][1]
        return content() if callable(content) else content

    @property
    def is_claimed(self):
        """Whether SECURITY.md claims that honest clients are served. In their own networks progress alone decides."""
        return self.source != "the honest networks"

    def pace_of(self, index):
        paces = list(PACES.values())
        return paces[index % len(paces)] if self.pace == MIXTURE else PACES[self.pace]

    def __str__(self):
        return f"{self.thing}, {self.pace}, {self.source}"


_ALL_THINGS = THINGS | ROUTE_THINGS
ATTACKS = [Attack(*row) for row in product(THINGS, (*PACES, MIXTURE), SOURCES)]
ATTACKS += [Attack(*row) for row in product(ROUTE_THINGS, (MIXTURE,), SOURCES)]
FEW = [Attack(thing, MIXTURE, "17 addresses") for thing in THINGS]
"""One row of each thing."""


async def hold(attack, number, index, count, on_start):
    """Hold a connection for ever, as one of `count`. If it is closed, another one comes, with a call of `on_start`."""
    sources = SOURCES[attack.source]
    pace = attack.pace_of(index)
    while True:
        writer = None
        try:
            address = (sources[index % len(sources)], 0)
            host = "::1" if ":" in address[0] else "127.0.0.1"
            reader, writer = await asyncio.open_connection(host, number, local_addr=address, limit=1)
            start = attack.first_bytes
            writer.write(start)
            on_start()
            while pace != NEW and not reader.at_eof() and not writer.is_closing():
                await _move(reader, writer, pace, is_reader=start.endswith(b"\r\n\r\n"))
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            if writer is not None:
                writer.transport.abort()
        await asyncio.sleep(count / NEW_CONNECTIONS)


async def _move(reader, writer, pace, *, is_reader):
    await asyncio.sleep(1)
    if not is_reader:
        writer.write(b"x" * pace)
    elif pace:
        await reader.readexactly(pace)


async def ask(port, number, source):
    """Return whether an honest client gets its answer from a new connection."""
    context = ssl._create_unverified_context() if "TLS" in port else None  # noqa: S323 - its own port
    writer = None
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", number, local_addr=(source, 0), ssl=context)
        writer.write(REQUESTS[port]())
        return (await reader.read()).startswith(b"HTTP/1.1 20")
    except OSError:
        return False
    finally:
        if writer is not None:
            writer.transport.abort()
