"""The benchmark of alerts of numbers: how soon a change of the quantiles is found, and how many alerts are false.

python -m benchmarks.number_alerts [--days N]
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import median
from typing import cast

import numpy as np

from aggregator.publishing.alerts.comparisons import StretchPair
from aggregator.publishing.alerts.state import State
from aggregator.publishing.alerts.watch import DAY, watch_of
from aggregator.publishing.kinds.numbers import step
from aggregator.records.alert import Alert
from aggregator.records.findings import NumberFindings
from aggregator.records.span import Span
from aggregator.records.subject import subjects
from benchmarks.harness import arguments, query_of, show
from benchmarks.slow_change import MINUTE, REST, TRIAL, Course, Follower, jump, rise
from oracles import Estimate, Oracle
from oracles.mechanisms.entropy import source
from oracles.numbers import Numbers, Scale
from oracles.query import Query
from oracles.types import Floats
from producers.client.respondents import Respondents

CLIENTS = 2_000
RUNS = 6
CHURN = 0.1
"""Share of a panel that draws a new number in each window."""


def query(answers: str = "fresh", epsilon: float = 2.0, **settings: object) -> Query:
    """Return a query of waits in milliseconds, with windows of a minute."""
    domain = {"low": 10.0, "high": 60_000.0, "bins": 256, "scale": "log", "unit": "ms"}
    ranges = {"slow": [2_000, 60_000]}
    usual = {"domain": domain, "ranges": ranges, "pane": "1m", "windows": ["1m"], "crowd": 1}
    return query_of(**(usual | {"answers": answers, "epsilon": epsilon} | settings))


def waits(clients: int, rng: np.random.Generator) -> Floats:
    return rng.lognormal(6.3, 0.8, clients)


class NumberFollower(Follower):
    """The alerts of windows of numbers in a row, as a worker finds them, with their blocks."""

    def step(self, start: int, estimate: Estimate, pairs: Sequence[StretchPair]) -> tuple[State, list[Alert]]:
        subject = subjects(self.query)[0]
        findings = NumberFindings(subject, estimate, Numbers(estimate, cast(Scale, subject.domain.scale)), ())
        watch = watch_of(self.query, subject, self.window)
        return step(watch, self.state, Span(self.window, start, self.end), findings, pairs)


def estimates(query: Query, windows: int, course: Course, seed: int, clients: int = CLIENTS) -> Iterator[Estimate]:
    """Yield windows. From `REST` on all numbers are larger by the course: 0.5 means by half.

    Clients are new in each window, or a panel that answers for life.
    """
    rng = np.random.default_rng((11, seed))
    oracle = cast(Oracle, query.oracle)
    scale = cast(Scale, query.domains[0].scale)
    panel = Respondents(oracle, clients, lambda *_: source(rng)) if query.answers != "fresh" else None
    numbers = waits(clients, rng)

    for number in range(windows):
        moving = rng.random(clients) < (1.0 if panel is None else CHURN)
        numbers = np.where(moving, waits(clients, rng), numbers)
        factor = 1.0 + (course(number - REST) if number >= REST else 0.0)
        values = scale.positions(numbers * factor)
        tally = oracle.zeros()
        oracle.add(tally, oracle.perturb(values, rng) if panel is None else panel.reports(values))
        yield oracle.estimate(tally, clients)


def follow(query: Query, course: Course, windows: int, seed: int) -> Iterator[tuple[int, Alert]]:
    """Yield the alerts of windows, each with the number of its window."""
    follower = NumberFollower(query)
    for number, estimate in enumerate(estimates(query, windows, course, seed)):
        yield from ((number, alert) for alert in follower.take(estimate))


def delays(query: Query, course: Course, value: str, runs: int = RUNS, kind: str = "surge") -> list[int]:
    """Return in how many windows a change is found, for each run in which it is."""
    result = []
    for run in range(runs):
        for number, alert in follow(query, course, REST + TRIAL, run):
            if number >= REST and alert.kind == kind and alert.value == value:
                result.append(number - REST + 1)
                break
    return result


def false_alerts(query: Query, days: float, seed: int = 100) -> Counter[str]:
    """Return the number of alerts of each kind of a population at rest."""
    return Counter(alert.kind for _, alert in follow(query, lambda _: 0.0, int(days * DAY / MINUTE), seed))


def main() -> None:
    options = arguments("Measure how changes of numbers are found.", days=(4.0, "days at rest"))
    changes = [(f"all numbers {percent}% larger", "p50", jump(percent / 100)) for percent in (10, 20, 50, 100)]
    changes.append(("all numbers 50% larger, within an hour", "p50", rise(0.5)))
    changes += [("all numbers 50% larger", value, jump(0.5)) for value in ("p95", "slow")]

    head = f"{CLIENTS:,} clients a minute, epsilon 2 | answers | found in {RUNS} runs | median windows"
    print(f"| {head} |\n|--|--|--|--|")
    for answers in ("fresh", "life"):
        waits_query = query(answers)
        for name, value, course in changes:
            hits = delays(waits_query, course, value)
            show(f"| {name}: {value} | {answers} | {len(hits)} | {median(hits) if hits else '-'} |")
        show(f"{options.days:g} days at rest, {answers}: {dict(false_alerts(waits_query, options.days))}")


if __name__ == "__main__":
    main()
