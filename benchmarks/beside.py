"""Measure how much estimates slow the counting down, and how long small queries wait for a large one.

python benchmarks/beside.py             needs two idle cores

First it counts small frames for a second: alone, next to a thread that makes records of 1,024 values with calibrate,
and next to the process that a worker uses for records. It also counts the records. Then the windows of five queries
close at the same time, one with a million values and calibrate. It measures the seconds until the last final of each
query.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # one core, as a worker has

import asyncio
import threading
import time
from dataclasses import replace

import numpy as np
from records import USUAL, query_of, window_of

from aggregator.merging.windows import Span
from aggregator.publishing.finals.estimator import EstimateTask
from aggregator.publishing.finals.estimator_pool import EstimatorPool
from aggregator.publishing.finals.estimator_process import Question
from aggregator.publishing.finals.final import window_result
from aggregator.tallies.snapshot import Snapshot
from oracles.query import Query

SECONDS, OTHERS, FINALS = 3.0, 4, 1


class Work:
    """A query and one of its windows, for repeated records."""

    def __init__(self, query: Query, total: Snapshot) -> None:
        self.query, self.total = query, total
        self.span = Span(query.windows[0], 0, 10)

    def here(self) -> None:
        window_result(self.query, self.span, self.total)

    async def beside(self, estimators: EstimatorPool) -> None:
        task = EstimateTask(self.query, [Question(self.span, self.total)], {})
        estimators.ask(task)
        await task.completion


def counting(query: Query) -> float:
    """Return how many frames of 20 reports are counted in a second. Most of the work holds the interpreter lock."""
    reports = query.oracle.perturb(np.full(20, 7), np.random.default_rng(1))
    state, count, until = query.oracle.zeros(), 0, time.perf_counter() + SECONDS
    while time.perf_counter() < until:
        query.oracle.add(state, reports)
        count += 1
    return count / SECONDS


def beside_a_thread(work: Work) -> tuple[float, float]:
    stop, records = threading.Event(), 0

    def make() -> None:
        nonlocal records
        while not stop.is_set():
            work.here()
            records += 1

    thread = threading.Thread(target=make)
    thread.start()
    rate = counting(work.query)
    stop.set()
    thread.join()
    return rate, records / SECONDS


async def beside_a_process(work: Work, estimators: EstimatorPool) -> tuple[float, float]:
    await work.beside(estimators)
    counts, records = asyncio.create_task(asyncio.to_thread(counting, work.query)), 0
    while not counts.done():
        await work.beside(estimators)
        records += 1
    return await counts, records / SECONDS


async def waits(works: list[Work], estimators: EstimatorPool) -> list[float]:
    """Return the seconds until the last final of each. Small ones take turns, and a large one has its own process."""
    start, durations = time.perf_counter(), [0.0] * len(works)

    async def all_of(at: int) -> None:
        for _ in range(FINALS):
            await works[at].beside(estimators)
        durations[at] = time.perf_counter() - start

    await asyncio.gather(*(all_of(at) for at in range(len(works))))
    return durations


async def measure() -> None:
    small, estimators = query_of(1_024, USUAL), EstimatorPool()
    work = Work(small, window_of(small))
    alone = counting(small)
    print(f"{'':24} {'frames a second':>15} {'relative':>9} {'records a second':>17}")
    print(f"{'alone':24} {alone:15,.0f}")
    for name, (rate, records) in (
        ("next to a thread", beside_a_thread(work)),
        ("next to a process", await beside_a_process(work, estimators)),
    ):
        print(f"{name:24} {rate:15,.0f} {rate / alone:9.2f} {records:17.1f}")
    large = query_of(1_000_000, USUAL)
    works = [
        Work(large, window_of(large)),
        *(Work(replace(small, name=f"small{at}"), work.total) for at in range(OTHERS)),
    ]
    for each in works:
        await each.beside(estimators)  # start both processes
    slow, *others = await waits(works, estimators)
    print(f"{FINALS} finals of each: the large query {slow:.2f} s, the other {OTHERS} at most {max(others):.2f} s")
    estimators.close()


if __name__ == "__main__":
    asyncio.run(measure())
