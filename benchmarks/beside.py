"""Measure how much estimates slow the counting down, and how long small queries wait for a large one.

python -m benchmarks.beside             needs two idle cores

First it counts small frames for a second: alone, next to a thread that makes records of 1,024 values with calibrate,
and next to the process that a worker uses for records. It also counts the records. Then the windows of four queries
close at the same time: alone, with a window of a million values and calibrate, and with a window in which a search
finds names of unknown strings. It measures the seconds until the last final of each query.
"""

import asyncio
import statistics
import threading
import time
from dataclasses import replace
from typing import Any

import numpy as np

from aggregator.publishing.finals.estimator import EstimateTask
from aggregator.publishing.finals.estimator_pool import EstimatorPool
from aggregator.publishing.finals.estimator_process import Question
from aggregator.publishing.finals.final import window_result
from aggregator.publishing.window import CountedWindow
from aggregator.records.span import Span
from aggregator.tallies.snapshot import Snapshot
from benchmarks.harness import query_of
from benchmarks.records import USUAL, window_of
from oracles.query import Query

SECONDS, OTHERS, FINALS, TURNS = 3.0, 4, 1, 9
STRINGS = {"domain": {"discover": "text", "length": 24}, "epsilon": 2.0, "pane": "1h", "windows": ["1h"]}
NAMES, CLIENTS = ("out of memory", "null tile in map view", "bad magic in cache"), 200_000


class Work:
    """A query and one of its windows, for repeated records."""

    def __init__(self, query: Query, total: Snapshot) -> None:
        self.query = query
        self.total = total
        self.span = Span(query.windows[0], 0, 10)

    def here(self) -> None:
        window_result(CountedWindow(self.query, self.span, self.total))

    async def beside(self, estimators: EstimatorPool) -> None:
        task = EstimateTask(self.query, [Question(self.span, self.total)], {})
        estimators.ask(task)
        await task.completion


def counting(query: Query) -> float:
    """Return how many frames of 20 reports are counted in a second. Most of the work holds the interpreter lock."""
    reports = query.oracle.perturb(np.full(20, 7), np.random.default_rng(1))
    state = query.oracle.zeros()
    count = 0
    end = time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        query.oracle.add(state, reports)
        count += 1
    return count / SECONDS


def beside_a_thread(work: Work) -> tuple[float, float]:
    stop = threading.Event()
    records = 0

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
    counts = asyncio.create_task(asyncio.to_thread(counting, work.query))
    records = 0
    while not counts.done():
        await work.beside(estimators)
        records += 1
    return await counts, records / SECONDS


def strings_work() -> Work:
    """Return a window of clients that have one of a few strings."""
    query = query_of(**STRINGS)
    slots: Any = query.oracle
    rng = np.random.default_rng(5)
    rows = np.array([slots.strings.cells_of(name) for name in NAMES])

    state = slots.zeros()
    refusals = slots.add(state, slots.perturb(rows[rng.integers(0, len(rows), CLIENTS)], rng))
    return Work(query, Snapshot(CLIENTS - refusals, refusals, 0, 0, state))


async def waits(works: list[Work], estimators: EstimatorPool) -> list[float]:
    """Return the seconds until the last final of each. Small ones take turns, and a large one has its own process."""
    start = time.perf_counter()

    async def duration(work: Work) -> float:
        for _ in range(FINALS):
            await work.beside(estimators)
        return time.perf_counter() - start

    return await asyncio.gather(*map(duration, works))


async def compare_waits(works: list[Work], large: dict[str, Work], estimators: EstimatorPool) -> None:
    """Print how long finals of small queries wait next to each large one. The median of several turns."""
    # The first questions start both processes.
    for work in (*works, *large.values()):
        await work.beside(estimators)

    turns: dict[str, list[tuple[float, float]]] = {"nothing else": [], **{name: [] for name in large}}
    for _ in range(TURNS):
        for name, times in turns.items():
            own = [large[name]] if name in large else []
            durations = await waits(own + works, estimators)
            times.append((durations[0], max(durations[len(own) :])))

    alone = statistics.median(small for _, small in turns["nothing else"])
    print(f"{'':24} {'its final after':>15} {f'the other {OTHERS} after':>20} {'relative':>9}")
    for name, times in turns.items():
        slow, small = (statistics.median(column) for column in zip(*times, strict=True))
        print(f"{name:24} {f'{slow:.3f} s' if name in large else '':>15} {small:18.3f} s {small / alone:9.2f}")


async def measure() -> None:
    small = query_of(oracle="olh", methods=USUAL)
    estimators = EstimatorPool()
    work = Work(small, window_of(small))
    alone = counting(small)
    print(f"{'':24} {'frames a second':>15} {'relative':>9} {'records a second':>17}")
    print(f"{'alone':24} {alone:15,.0f}")
    for name, (rate, records) in (
        ("next to a thread", beside_a_thread(work)),
        ("next to a process", await beside_a_process(work, estimators)),
    ):
        print(f"{name:24} {rate:15,.0f} {rate / alone:9.2f} {records:17.1f}")

    million = query_of(domain=1_000_000, oracle="olh", methods=USUAL)
    large = {"a million values": Work(million, window_of(million)), "a search for names": strings_work()}
    small_works = [Work(replace(small, name=f"small{number}"), work.total) for number in range(OTHERS)]
    await compare_waits(small_works, large, estimators)
    estimators.close()


if __name__ == "__main__":
    asyncio.run(measure())
