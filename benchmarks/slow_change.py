"""The benchmark of slow changes: how soon they are found, how many alerts are false, the CPU and the bytes.

python -m benchmarks.slow_change [--days N]
"""

import argparse
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from statistics import median

import numpy as np

from aggregator.merging import block_records, blocks
from aggregator.merging.blocks import Block, BlockSpan, Part, Place
from aggregator.publishing.alerts.comparisons import StretchPair, comparisons
from aggregator.publishing.alerts.decision import Final, step
from aggregator.publishing.alerts.message import Alert
from aggregator.publishing.alerts.state import State, dump
from aggregator.publishing.alerts.watch import DAY, watch_of
from aggregator.records.subject import subjects
from oracles import Estimate
from oracles.estimate.pure import Pure
from oracles.query import Query, parse
from oracles.types import Floats

VALUES, CLIENTS, MINUTE = 256, 100_000, 60
RUNS = 12
BEFORE, AFTER = 5 * 64, 128
"""Windows before a change, and after it."""
START = 64 * MINUTE * 1_000
Course = Callable[[int], float]
"""The change of a share, by the number of windows since it began."""


def query(size: int = VALUES, answers: str = "fresh", oracle: str = "oue", **settings: object) -> Query:
    """Return a query with windows of a minute."""
    table = {"epsilon": 2.0, "budget": 1e9, "pane": "1m", "windows": ["1m"], "domain": size, "crowd": 1}
    table |= {"oracle": oracle, "answers": answers, **settings}
    return parse({"queries": {"visits": table}}, "benchmark", ".")["visits"]


def zipf(size: int = VALUES) -> Floats:
    weights = np.arange(1, size + 1) ** -1.1
    shares: Floats = weights / weights.sum()
    return shares


def window(oracle: Pure, shares: Floats, clients: int, rng: np.random.Generator) -> Estimate:
    """Return the estimate of a window of new clients."""
    own = rng.binomial(clients, shares)
    counts = rng.binomial(own, oracle.p) + rng.binomial(clients - own, oracle.q)
    return Estimate(oracle.shares(counts, clients), clients, oracle)


class Follower:
    """The alerts of windows in a row, as a worker finds them, with their blocks."""

    def __init__(self, query: Query) -> None:
        self.query, self.window = query, query.windows[0]
        self.state: State | None = None
        self.store: dict[Place, Block] = {}
        self.previous: int | None = None
        self.end = START

    def take(self, estimate: Estimate) -> list[Alert]:
        """Return the alerts of the next window."""
        start, self.end = self.end, self.end + self.window.size
        quiet_from = blocks.quiet_from(self.window, self.previous, -1, start)
        ends = blocks.completions(self.window, self.previous, self.end)
        spans = [BlockSpan(*each, quiet_from, (True,)) for each in ends]
        counts = estimate.counts.astype(np.min_scalar_type(estimate.n))
        part = Part(estimate.n, estimate.n_independent, counts, is_visible=True, is_complete=True)
        new = blocks.extended(self.query, spans, [part], self.end, self.store)
        slow = comparisons(self.query, self.window, spans, new, self.store)[0]
        self.state, alerts = self.step(start, estimate, slow)
        self.store |= {
            each.place: new[each.place]
            for each in spans
            if each.place in new and blocks.is_stored(self.query, each, self.window)
        }
        for place in blocks.obsolete(self.query, self.window, self.store, self.end):
            del self.store[place]
        self.previous = self.end
        return alerts

    def step(self, start: int, estimate: Estimate, slow: Sequence[StretchPair]) -> tuple[State, list[Alert]]:
        """Return the next state of the alerts, and the alerts of a window."""
        watch = watch_of(self.query, subjects(self.query)[0], self.window)
        return step(watch, self.state, Final(start, self.end, estimate), slow)


def follow(query: Query, estimates: Iterable[Estimate]) -> Iterator[tuple[int, Alert]]:
    """Yield the alerts of windows, each with the number of its window."""
    follower = Follower(query)
    for number, estimate in enumerate(estimates):
        yield from ((number, alert) for alert in follower.take(estimate))


def sampled(query: Query, windows: int, course: Course, value: int, rng: np.random.Generator) -> Iterator[Estimate]:
    """Yield windows of new clients. After `BEFORE` windows, a value changes."""
    (oracle,) = query.attribute_oracles
    for number in range(windows):
        shares = zipf(oracle.size)
        if number >= BEFORE:
            shares[value] = max(0.0, shares[value] + course(number - BEFORE))
        yield window(oracle, shares / shares.sum(), CLIENTS, rng)


def panel(
    query: Query, windows: int, course: Course, value: int, rng: np.random.Generator, clients: int, churn: float
) -> Iterator[Estimate]:
    """Yield windows of the same clients, who answer for life. In each window the share `churn` draws a new value.

    After `BEFORE` windows some clients change to a value.
    """
    oracle, law = query.oracle, zipf()
    rows = oracle.rows(clients, rng)
    answers = np.stack([oracle.answer(np.full(clients, each), rows, rng) for each in range(oracle.classes)])
    values = rng.choice(VALUES, clients, p=law)
    for number in range(windows):
        moving = rng.random(clients) < churn
        values = np.where(moving, rng.choice(VALUES, clients, p=law), values)
        here = values.copy()
        if number >= BEFORE:
            here[: round(course(number - BEFORE) * clients)] = value
        state = oracle.zeros()
        oracle.add(state, answers[oracle.classify(here, rows), np.arange(clients)])
        yield oracle.estimate(state, clients)


def delays(
    query: Query, course: Course, value: int, runs: int = RUNS, clients: int | None = None, kind: str = "surge"
) -> list[int]:
    """Return in how many windows a change is found, for each run in which it is. `clients` are those of a panel."""
    result = []
    for run in range(runs):
        rng, total = np.random.default_rng((7, run)), BEFORE + AFTER
        estimates = (
            sampled(query, total, course, value, rng)
            if clients is None
            else panel(query, total, course, value, rng, clients, 0.001)
        )
        for number, alert in follow(query, estimates):
            if number >= BEFORE and alert.kind == kind and alert.value == str(value):
                result.append(number - BEFORE + 1)
                break
    return result


def false_alerts(query: Query, days: float, seed: int = 1) -> dict[str, int]:
    """Return the number of surges and fades of a population at rest."""
    rng, counts = np.random.default_rng(seed), {"surge": 0, "fade": 0}
    estimates = sampled(query, int(days * DAY / MINUTE), lambda _: 0.0, 0, rng)
    for _, alert in follow(query, estimates):
        if alert.kind in counts:
            counts[alert.kind] += 1
    return counts


def cost(size: int, windows: int = 256, answers: str = "fresh", oracle: str = "oue") -> tuple[float, int, int]:
    """Return the CPU milliseconds of a window's alerts, the bytes of its state, and those of its blocks."""
    asked, rng = query(size, answers, oracle), np.random.default_rng(1)
    (law,) = asked.attribute_oracles
    estimates = [window(law, zipf(size), CLIENTS, rng) for _ in range(windows)]
    follower = Follower(asked)
    begin = time.process_time()
    for estimate in estimates:
        follower.take(estimate)
    cpu = 1000.0 * (time.process_time() - begin) / windows
    assert follower.state is not None  # noqa: S101 - a window was taken
    store = sum(len(block_records.encode(block)) for block in follower.store.values())
    return cpu, len(dump(follower.state)), store


def jump(height: float) -> Course:
    return lambda _: height


def rise(height: float) -> Course:
    """Return a rise within an hour."""
    return lambda number: height * min(1.0, (number + 1) / 60)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure how slow changes are found.")
    parser.add_argument("--days", type=float, default=8.0, help="days at rest (default: 8)")
    options = parser.parse_args()
    asked = query()
    (oracle,) = asked.attribute_oracles
    sigma = float(np.sqrt(oracle.variance(CLIENTS)))
    print("| change | found in 12 runs | median windows |\n|--|--|--|")
    for name, course in [
        *((f"jump of {height} sigma", jump(height * sigma)) for height in (2, 3, 4, 5, 7, 10)),
        *((f"rise of {height} sigma within an hour", rise(height * sigma)) for height in (5, 10, 20)),
    ]:
        hits = delays(asked, course, 100)
        print(f"| {name} | {len(hits)} | {median(hits) if hits else '-'} |", flush=True)
    for name, value, course in (("4.6% becomes 15%", 3, jump(0.104)), ("30% more of 4.6%", 3, jump(0.014))):
        hits = delays(asked, course, value)
        print(f"| {name} | {len(hits)} | {median(hits) if hits else '-'} |", flush=True)
    life = query(answers="life", oracle="hr")
    for percent in (0.5, 1, 2):
        hits = delays(life, rise(percent / 100), 100, clients=20_000)
        windows = median(hits) if hits else "-"
        print(f"| answers for life: rise by {percent}% within an hour | {len(hits)} | {windows} |", flush=True)
    print(f"{options.days:g} days at rest: {false_alerts(asked, options.days)}")
    for size in (4, 256, 1_000):
        cpu, state, store = cost(size)
        print(f"{size:,} values: {cpu:.3f} ms CPU a window, {state:,} bytes of state, {store:,} bytes of blocks")


if __name__ == "__main__":
    main()
