"""What estimates take from the counting beside them, and how long others wait for those of a large query.

python benchmarks/beside.py             needs two cores, and says little where they are busy

First the small frames counted in a second: alone, beside a thread that makes records of 1,024 values with calibrate,
and beside the process that a worker has for it; and the records made meanwhile. Then five queries whose windows
close at once, one of a million values with calibrate: seconds from there to the last final of each.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # one core, as a worker has

import asyncio
import threading
import time
from dataclasses import replace

import numpy as np
from records import USUAL, asked, held

from aggregator.counting.tally import Snapshot
from aggregator.merging.crowd import own
from aggregator.merging.windows import Span
from aggregator.publishing.estimators import Estimators
from aggregator.publishing.final import made
from oracles.query import Query

SECONDS, OTHERS, FINALS = 3.0, 4, 1


class Work:
    """A query and a window of it, of which records are made again and again."""

    def __init__(self, query: Query, total: Snapshot) -> None:
        self.query, self.total = query, total
        self.span = Span(query.windows[0], 0, 10)
        self.faces = own(query, self.span, total)

    def here(self) -> None:
        made(self.query, self.span, self.total, self.faces)

    async def beside(self, estimators: Estimators) -> None:
        await estimators.final(self.query, self.span, self.total, self.faces, [], whole=False)


def counting(query: Query) -> float:
    """Frames of 20 reports counted in a second; most of that holds the interpreter."""
    reports = query.oracle.perturb(np.full(20, 7), np.random.default_rng(1))
    state, count, until = query.oracle.zeros(), 0, time.perf_counter() + SECONDS
    while time.perf_counter() < until:
        query.oracle.add(state, reports)
        count += 1
    return count / SECONDS


def beside_a_thread(work: Work) -> tuple[float, float]:
    ended, records = threading.Event(), 0

    def make() -> None:
        nonlocal records
        while not ended.is_set():
            work.here()
            records += 1

    thread = threading.Thread(target=make)
    thread.start()
    rate = counting(work.query)
    ended.set()
    thread.join()
    return rate, records / SECONDS


async def beside_a_process(work: Work, estimators: Estimators) -> tuple[float, float]:
    await work.beside(estimators)
    counts, records = asyncio.create_task(asyncio.to_thread(counting, work.query)), 0
    while not counts.done():
        await work.beside(estimators)
        records += 1
    return await counts, records / SECONDS


async def waits(works: list[Work], estimators: Estimators) -> list[float]:
    """Seconds until the last final of each is made: others take turns, a large one is made beside them."""
    begun, took = time.perf_counter(), [0.0] * len(works)

    async def all_of(at: int) -> None:
        for _ in range(FINALS):
            await works[at].beside(estimators)
        took[at] = time.perf_counter() - begun

    await asyncio.gather(*(all_of(at) for at in range(len(works))))
    return took


async def measure() -> None:
    small, estimators = asked(1_024, USUAL), Estimators()
    work = Work(small, held(small))
    alone = counting(small)
    print(f"{'':24} {'frames a second':>15} {'of alone':>9} {'records a second':>17}")
    print(f"{'alone':24} {alone:15,.0f}")
    for name, (rate, records) in (
        ("beside a thread", beside_a_thread(work)),
        ("beside a process", await beside_a_process(work, estimators)),
    ):
        print(f"{name:24} {rate:15,.0f} {rate / alone:9.2f} {records:17.1f}")
    large = asked(1_000_000, USUAL)
    works = [Work(large, held(large)), *(Work(replace(small, name=f"small{at}"), work.total) for at in range(OTHERS))]
    for each in works:
        await each.beside(estimators)  # so that both processes are there
    slow, *others = await waits(works, estimators)
    print(f"{FINALS} finals of each: the large query {slow:.2f} s, the other {OTHERS} at most {max(others):.2f} s")
    estimators.close()


if __name__ == "__main__":
    asyncio.run(measure())
