"""The rate of a demo's crowd, from what the free cores of this machine can do now."""

import os
import threading
import time
import zlib
from dataclasses import dataclass

RATES = (50_000, 25_000, 10_000, 5_000, 2_500)
"""The answers a second that a demo may send. With the last one all that it promises can still be proved."""
SECONDS = 1.0
"""Seconds of the measurement."""
PIECE = bytes(range(256)) * 128
"""The bytes of a piece of work. zlib lets other threads run meanwhile, so that all cores work."""
PIECES = 10_000
"""Pieces a second of an idle core of the machine that measured the next two figures."""
FIXED = 0.2
"""Cores of a demo that does not depend on its rate: broker, worker, board, and the estimates of each 5 s."""
PER_ANSWER = 0.22 / 50_000
"""Cores of one answer a second: its noise, its frame and its count."""
RESERVE = 2.0
"""The parts of the machine for each part that a demo needs. Searches of names and pages need more for seconds."""


@dataclass(frozen=True)
class MachinePace:
    """What was measured, and the rate that follows from it."""

    cores: int
    """The cores that the demo may use."""
    capacity: float
    """The idle cores of the reference machine that do as much. A fast machine may have more than its own cores."""
    rate: int
    """Answers a second."""

    def __str__(self) -> str:
        # The capacity counts cores of another machine, so a reader here would take it for a wrong number of cores.
        cores = "machine: 1 core" if self.cores == 1 else f"machine: {self.cores} cores"
        slow = f"{cores}, too slow or too busy"
        if self.capacity < need(RATES[-1]):
            return f"{slow} even for {self.rate:,} answers a second: results may be late"
        if self.rate < RATES[0]:
            return f"{slow} for {RATES[0]:,} answers a second, so the crowd sends {self.rate:,}"
        return f"{cores}, fast enough for {self.rate:,} answers a second"


def need(rate: int) -> float:
    """Return the cores of the reference machine that a demo of this rate should find free."""
    return RESERVE * (FIXED + PER_ANSWER * rate)


def choose(capacity: float) -> int:
    """Return the highest rate with which a machine keeps up, or the lowest rate."""
    return next((rate for rate in RATES if need(rate) <= capacity), RATES[-1])


def measure() -> MachinePace:
    """Return the pace of this machine, with all that runs beside. It takes `SECONDS`."""
    # A container or `taskset` may give this process fewer cores than the machine has.
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    capacity = _pieces_per_second(cores) / PIECES
    return MachinePace(cores, capacity, choose(capacity))


def _pieces_per_second(threads: int) -> float:
    """Return the pieces that all threads together finish in a second of time."""
    start = time.perf_counter()
    counts = [0] * threads

    def work(number: int) -> None:
        while time.perf_counter() < start + SECONDS:
            zlib.compress(PIECE)
            counts[number] += 1

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return sum(counts) / (time.perf_counter() - start)
