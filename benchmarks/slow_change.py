"""The benchmark of slow changes: how soon they are found, how many alerts are false, the CPU and the bytes.

python -m benchmarks.slow_change [--days N]
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from statistics import median

import numpy as np

from aggregator.merging import block_records, blocks
from aggregator.merging.blocks import Block, BlockSpan, Part, Place
from aggregator.publishing.alerts.comparisons import StretchPair, comparisons
from aggregator.publishing.alerts.state import State, dump
from aggregator.publishing.alerts.step import Final
from aggregator.publishing.alerts.watch import DAY, watch_of
from aggregator.publishing.kinds.values import step
from aggregator.records.alert import Alert
from aggregator.records.subject import subjects
from benchmarks.harness import arguments, query_of, show, zipf
from oracles import Estimate
from oracles.estimate.pure import Pure
from oracles.query import Query
from oracles.types import Floats

VALUES = 256
CLIENTS = 100_000
MINUTE = 60
RUNS = 12
REST = 5 * 64
"""Windows before a change."""
TRIAL = 128
"""Windows after a change."""
START = 64 * MINUTE * 1_000
Course = Callable[[int], float]
"""The change of a share, by the number of windows since it began."""


def query(size: int = VALUES, answers: str = "fresh", oracle: str = "oue", **settings: object) -> Query:
    """Return a query with windows of a minute."""
    usual = {"domain": size, "epsilon": 2.0, "pane": "1m", "windows": ["1m"], "crowd": 1}
    return query_of(**(usual | {"oracle": oracle, "answers": answers} | settings))


class Follower:
    """The alerts of windows in a row, as a worker finds them, with their blocks."""

    def __init__(self, query: Query) -> None:
        self.query = query
        self.window = query.windows[0]
        self.state: State | None = None
        self.store: dict[Place, Block] = {}
        self.previous: int | None = None
        self.end = START

    def take(self, estimate: Estimate) -> list[Alert]:
        """Return the alerts of the next window."""
        start = self.end
        self.end += self.window.size
        quiet_from = blocks.quiet_from(self.window, self.previous, -1, start)
        ends = blocks.completions(self.window, self.previous, self.end)
        spans = [BlockSpan(*end, quiet_from, (True,)) for end in ends]

        counts = estimate.counts.astype(np.min_scalar_type(estimate.n))
        part = Part(estimate.n, estimate.n_independent, counts, is_visible=True, is_complete=True)
        complete_blocks = blocks.extended(self.query, spans, [part], self.end, self.store)
        pairs = comparisons(self.query, self.window, spans, complete_blocks, self.store)[0]
        self.state, alerts = self.step(start, estimate, pairs)

        for span in spans:
            if span.place in complete_blocks and blocks.is_stored(self.query, span, self.window):
                self.store[span.place] = complete_blocks[span.place]
        for place in blocks.obsolete(self.query, self.window, self.store, self.end):
            del self.store[place]
        self.previous = self.end
        return alerts

    def step(self, start: int, estimate: Estimate, pairs: Sequence[StretchPair]) -> tuple[State, list[Alert]]:
        """Return the next state of the alerts, and the alerts of a window."""
        watch = watch_of(self.query, subjects(self.query)[0], self.window)
        return step(watch, self.state, Final(start, self.end, estimate), pairs)


def follow(query: Query, estimates: Iterable[Estimate]) -> Iterator[tuple[int, Alert]]:
    """Yield the alerts of windows, each with the number of its window."""
    follower = Follower(query)
    for number, estimate in enumerate(estimates):
        yield from ((number, alert) for alert in follower.take(estimate))


def window(oracle: Pure, shares: Floats, clients: int, rng: np.random.Generator) -> Estimate:
    """Return the estimate of a window of new clients."""
    holders = rng.binomial(clients, shares)
    counts = rng.binomial(holders, oracle.p) + rng.binomial(clients - holders, oracle.q)
    return Estimate(oracle.shares(counts, clients), clients, oracle)


def sampled(query: Query, windows: int, course: Course, value: int, rng: np.random.Generator) -> Iterator[Estimate]:
    """Yield windows of new clients. After `REST` windows, a value changes."""
    (oracle,) = query.attribute_oracles
    for number in range(windows):
        shares = zipf(oracle.size)
        if number >= REST:
            shares[value] = max(0.0, shares[value] + course(number - REST))
        yield window(oracle, shares / shares.sum(), CLIENTS, rng)


def panel(
    query: Query, windows: int, course: Course, value: int, rng: np.random.Generator, clients: int, churn: float
) -> Iterator[Estimate]:
    """Yield windows of the same clients, who answer for life. In each window the share `churn` draws a new value.

    After `REST` windows some clients change to a value.
    """
    oracle = query.oracle
    law = zipf(VALUES)
    rows = oracle.rows(clients, rng)
    # A client has one answer for each class, which it repeats for life.
    answers = np.stack([oracle.answer(np.full(clients, number), rows, rng) for number in range(oracle.classes)])
    values = rng.choice(VALUES, clients, p=law)

    for number in range(windows):
        moving = rng.random(clients) < churn
        values = np.where(moving, rng.choice(VALUES, clients, p=law), values)
        present_values = values.copy()
        if number >= REST:
            present_values[: round(course(number - REST) * clients)] = value

        state = oracle.zeros()
        oracle.add(state, answers[oracle.classify(present_values, rows), np.arange(clients)])
        yield oracle.estimate(state, clients)


def delays(
    query: Query, course: Course, value: int, runs: int = RUNS, clients: int | None = None, kind: str = "surge"
) -> list[int]:
    """Return in how many windows a change is found, for each run in which it is. `clients` are those of a panel."""
    result = []
    for run in range(runs):
        rng = np.random.default_rng((7, run))
        if clients is None:
            estimates = sampled(query, REST + TRIAL, course, value, rng)
        else:
            estimates = panel(query, REST + TRIAL, course, value, rng, clients, 0.001)

        for number, alert in follow(query, estimates):
            if number >= REST and alert.kind == kind and alert.value == str(value):
                result.append(number - REST + 1)
                break
    return result


def alert_count(query: Query, course: Course, value: int, runs: int = RUNS) -> float:
    """Return the mean number of surges of a change. Each of several scales may find it."""
    count = 0
    for run in range(runs):
        estimates = sampled(query, REST + 2 * TRIAL, course, value, np.random.default_rng((7, run)))
        hits = [alert for number, alert in follow(query, estimates) if number >= REST and alert.value == str(value)]
        count += sum(alert.kind == "surge" for alert in hits)
    return count / runs


def false_alerts(query: Query, days: float, seed: int = 1) -> dict[str, int]:
    """Return the number of surges and fades of a population at rest."""
    estimates = sampled(query, int(days * DAY / MINUTE), lambda _: 0.0, 0, np.random.default_rng(seed))
    kinds = [alert.kind for _, alert in follow(query, estimates)]
    return {kind: kinds.count(kind) for kind in ("surge", "fade")}


def cost(size: int, windows: int = 256, answers: str = "fresh", oracle: str = "oue") -> tuple[float, int, int]:
    """Return the CPU milliseconds of a window's alerts, the bytes of its state, and those of its blocks."""
    asked = query(size, answers, oracle)
    rng = np.random.default_rng(1)
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


def print_delays(name: str, hits: list[int]) -> None:
    show(f"| {name} | {len(hits)} | {median(hits) if hits else '-'} |")


def main() -> None:
    options = arguments("Measure how slow changes are found.", days=(8.0, "days at rest"))
    fresh = query()
    (oracle,) = fresh.attribute_oracles
    sigma = float(np.sqrt(oracle.variance(CLIENTS)))
    print("| change | found in 12 runs | median windows |\n|--|--|--|")
    for height in (2, 3, 4, 5, 7, 10):
        print_delays(f"jump of {height} sigma", delays(fresh, jump(height * sigma), 100))
    for height in (5, 10, 20):
        print_delays(f"rise of {height} sigma within an hour", delays(fresh, rise(height * sigma), 100))
    print_delays("4.6% becomes 15%", delays(fresh, jump(0.104), 3))
    print_delays("30% more of 4.6%", delays(fresh, jump(0.014), 3))

    life = query(answers="life", oracle="hr")
    for percent in (0.5, 1, 2):
        hits = delays(life, rise(percent / 100), 100, clients=20_000)
        print_delays(f"answers for life: rise by {percent}% within an hour", hits)

    for height in (5, 10, 20, 40):
        mean = alert_count(fresh, rise(height * sigma), 100)
        show(f"surges of a rise of {height} sigma within an hour: {mean:.2f} in the mean")
    print(f"{options.days:g} days at rest: {false_alerts(fresh, options.days)}")
    for size in (4, 256, 1_000):
        cpu, state, store = cost(size)
        print(f"{size:,} values: {cpu:.3f} ms CPU a window, {state:,} bytes of state, {store:,} bytes of blocks")


if __name__ == "__main__":
    main()
