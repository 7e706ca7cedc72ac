"""Measure the volume at which honest clients of a port fall below the claim of SECURITY.md.

python -m benchmarks.volumes [--seconds 6]     minutes, and more than one core

Attackers of 100 networks do one thing, at each level twice as often as before. Ten honest clients ask for an answer
each half second. The claim ends at the level at which fewer than 95% of their requests are served within 2 s. The port
has a core of its own. "Other work" are the cores that other processes used. Beside it the figures are too low.
"""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

from benchmarks.harness import arguments, show
from tests.hostile.attacks import HONEST, LISTING, REPORT, SOURCES, whole_hello
from tests.hostile.load import OtherWork
from tests.hostile.trial import LEAST, honest_requests, port

PLACES = 1_000
NETWORKS = SOURCES["100 networks"]
TICK = 0.02
"""Seconds between two starts of units."""
MOST = 1_000
"""Units in progress, above which no new one starts."""
CAPABLE = 0.7
"""Part of a level that the attackers must reach. They share a core with the honest clients."""
PAUSE = 0.5
LEVELS = 12
BODY = 50_000
_HEADER = b"GET / HTTP/1.1\r\nX: "
_KEPT_OPEN = LISTING.replace(b"Connection: close\r\n", b"")
_WHOLE_BODY = REPORT + b"Content-Length: %d\r\n\r\n" % BODY + bytes(BODY)


@dataclass
class Attackers:
    """Attackers that do something again and again, at a rate."""

    number: int
    """The port."""
    rate: float
    """Units a second."""
    count: int = 0
    """Units that have ended, also those that the port refused."""
    connections: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = field(default_factory=list)
    """Open connections without a unit."""

    async def run(self, unit: Callable[["Attackers", str], Awaitable[None]]) -> None:
        """Start units until cancelled."""
        tasks: set[asyncio.Task[None]] = set()
        began = time.monotonic()
        started = 0
        try:
            while True:
                due = int(self.rate * (time.monotonic() - began)) - started
                for index in range(due):
                    started += 1
                    if len(tasks) < MOST:
                        task = asyncio.create_task(self._one(unit, NETWORKS[(started + index) % len(NETWORKS)]))
                        tasks.add(task)
                        task.add_done_callback(tasks.discard)
                await asyncio.sleep(TICK)
        finally:
            for task in list(tasks):
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for _, writer in self.connections:
                writer.transport.abort()

    async def _one(self, unit: Callable[["Attackers", str], Awaitable[None]], source: str) -> None:
        with suppress(OSError, asyncio.IncompleteReadError, TimeoutError):
            await unit(self, source)
        # A refused unit is volume too.
        self.count += 1

    async def open(self, source: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.number, local_addr=(source, 0))


async def new_connection(attackers: Attackers, source: str) -> None:
    """Open a connection, send half of a header, and close it."""
    _, writer = await attackers.open(source)
    writer.write(_HEADER)
    await asyncio.sleep(TICK)
    writer.transport.abort()


async def handshake(attackers: Attackers, source: str) -> None:
    """Send the first message of a handshake, and wait for the answer, which costs the port most."""
    reader, writer = await attackers.open(source)
    try:
        writer.write(_HELLO)
        await reader.readexactly(1)
    finally:
        writer.transport.abort()


async def request(attackers: Attackers, source: str) -> None:
    """Ask for the listing on a connection that stays open."""
    await _ask(attackers, source, _KEPT_OPEN)


async def body(attackers: Attackers, source: str) -> None:
    """Send a whole body on a connection that stays open."""
    await _ask(attackers, source, _WHOLE_BODY)


async def _ask(attackers: Attackers, source: str, content: bytes) -> None:
    reader, writer = attackers.connections.pop() if attackers.connections else await attackers.open(source)
    is_done = False
    try:
        writer.write(content)
        head = await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]))
        is_done = True
    finally:
        if is_done:
            attackers.connections.append((reader, writer))
        else:
            writer.transport.abort()


_HELLO = whole_hello()
VOLUMES: dict[str, tuple[str, Callable[[Attackers, str], Awaitable[None]], int, int]] = {
    "new connections": ("gateway", new_connection, 200, 1),
    "requests": ("gateway", request, 500, 1),
    "handshakes": ("gateway with TLS", handshake, 100, 1),
    "bytes of bodies": ("gateway", body, 50, BODY),
}
"""The port, the unit, the first level of units a second, and the size of a unit."""


async def level(name: str, number: int, rate: float, seconds: float) -> tuple[float, float]:
    """Return the share of honest requests that were served in time, and the units a second."""
    port_name, unit, _, _ = VOLUMES[name]
    attackers = Attackers(number, rate)
    task = asyncio.create_task(attackers.run(unit))
    await asyncio.sleep(1.0)

    began = time.monotonic()
    count = attackers.count
    rounds = max(2, int(seconds / PAUSE))
    outcome = await honest_requests(port_name, number, honest=len(HONEST), rounds=rounds, pause=PAUSE)
    units = (attackers.count - count) / (time.monotonic() - began)

    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return outcome.soon / outcome.requests, units


def measure(name: str, seconds: float) -> None:
    """Print the levels of a volume, until the claim ends or the attackers can do no more."""
    port_name, _, rate, size = VOLUMES[name]
    cores = sorted(os.sched_getaffinity(0))
    for step in range(LEVELS):
        with port(port_name, PLACES, core=cores[0]) as (process, number):
            os.sched_setaffinity(0, set(cores[1:]) or {cores[0]})
            work = OtherWork(process.pid)
            soon, units = asyncio.run(level(name, number, rate * 2**step, seconds))
            other = work.cores()
            os.sched_setaffinity(0, set(cores))
        show(f"{name:18}{size * rate * 2**step:>14,}{size * units:>14,.0f}{100 * soon:>12.0f}%{other:>12.1f}")
        if soon < LEAST or units < CAPABLE * rate * 2**step:
            return


def main() -> None:
    options = arguments(__doc__, VOLUMES, seconds=(6.0, "seconds of a level"))
    show(f"{'':18}{'a second':>14}{'reached':>14}{'within 2 s':>13}{'other work':>12}")
    for name in options.cases or VOLUMES:
        measure(name, options.seconds)


if __name__ == "__main__":
    main()
