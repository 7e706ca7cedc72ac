"""A trial of an attack: a port in a process of its own, its attackers, and honest clients beside them."""

import asyncio
import os
import resource
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.hostile.attacks import HONEST, ask, hold

SOON = 2.0
"""Seconds within which an honest client is served, by the claim of SECURITY.md."""
LEAST = 0.95
"""The share of honest requests that are served, by the same claim."""
MEMORY = 512 << 20
BOARD_MEMORY = 768 << 20
"""Bytes of memory below which a port stays."""


@dataclass
class Outcome:
    """The honest requests of a trial, and the most memory of the port."""

    requests: int = 0
    answers: int = 0
    soon: int = 0
    """Answers within SOON."""
    memory: int = 0
    """Most bytes of the process."""


@contextmanager
def port(name, places, *, core=None):
    """Yield the process of a port, which may have a core, and its number."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8_192), hard))
    command = [sys.executable, "-m", "tests.hostile.port", name, str(places)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        number = int(process.stdout.readline())
        if core is not None:
            os.sched_setaffinity(process.pid, {core})
        yield process, number
    finally:
        process.kill()
        process.communicate()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def trial(attack, process, number, *, attackers, honest, rounds, pause=0.0):
    """Return the outcome of `rounds` of requests of `honest` clients, beside `attackers` connections."""
    starts = asyncio.Semaphore(0)
    tasks = [asyncio.create_task(hold(attack, number, i, attackers, starts.release)) for i in range(attackers)]
    for _ in range(attackers):
        await starts.acquire()

    outcome = await honest_requests(attack.port, number, honest=honest, rounds=rounds, pause=pause)
    outcome.memory = most_memory(process)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return outcome


async def honest_requests(port_name, number, *, honest, rounds, pause=0.0):
    """Return the outcome of `rounds` of requests, each with one of every honest client."""
    outcome = Outcome()

    async def client(source):
        start = time.monotonic()
        is_answered = await ask(port_name, number, source)
        outcome.requests += 1
        outcome.answers += is_answered
        outcome.soon += is_answered and time.monotonic() - start <= SOON

    for _ in range(rounds):
        await asyncio.gather(*map(client, HONEST[:honest]))
        await asyncio.sleep(pause)
    return outcome


def memory_limit(attack):
    """Return the bytes below which the port of an attack stays."""
    return BOARD_MEMORY if attack.port == "board" else MEMORY


def most_memory(process):
    """Return the most memory that a process has had, in bytes."""
    status = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in status if line.startswith("VmHWM"))
