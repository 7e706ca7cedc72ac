"""Two years of daily answers, through the client's own code: who is silent, how far shares are off, what is spent.

python benchmarks/years.py [--panels 20] [--people 20000] [--days 730]

One person in ten holds another value each day, and from the middle on a value that nobody held takes
30%. Beside the queries of today stands the client of old, which paid for each new *value* and fell
silent with its fifth: its shares are biased, since who is silent depends on what they hold.
"""

import argparse
import time
from dataclasses import dataclass, field

import numpy as np

from oracles.query import Query, parse
from producers.simulation.distribution import Distribution
from producers.simulation.population import Population
from producers.simulation.scenario import Course, Scenario, Surge

DAY = 86_400
SIZE, NEW = 63, 62
OLD_VALUES = 4
QUERIES = {
    "life: hr, epsilon 2": {"oracle": "hr", "epsilon": 2.0},
    "life: olh, 4 buckets, epsilon 1": {"oracle": "olh", "epsilon": 1.0},
    "life: hr, epsilon 2, renew 30d": {"oracle": "hr", "epsilon": 2.0, "renew": "30d"},
    "fresh: hr, epsilon 2, budget for all": {"oracle": "hr", "epsilon": 2.0, "answers": "fresh", "budget": 1460.0},
    "fresh: hr, epsilon 2, default budget": {"oracle": "hr", "epsilon": 2.0, "answers": "fresh"},
}
OLD = "the client of old: hr, epsilon 2"


@dataclass
class Panel:
    """What one panel of people gave."""

    answers: int = 0
    squares: list[float] = field(default_factory=list)
    """Of each day, the mean over values of (error/stderr)^2."""
    covered: list[float] = field(default_factory=list)
    worst: float = 0.0
    """The largest error of the commonest value, in standard errors."""
    silent_from: int | None = None


def query(**table: object) -> Query:
    table = {"domain": SIZE, "pane": "1d", **table}
    return parse({"queries": {"q": table}}, "years", ".")["q"]


def population(q: Query, people: int, days: int, seed: int) -> Population:
    law = Distribution((np.arange(SIZE) + 1.0) ** -1.1)
    begins = days // 2 * DAY
    surge = Surge(Course(0.3, begins), 0, NEW)
    return Population(q, law.without(0, NEW), people, seed, Scenario((surge,)), churn=0.1)


def weigh(panel: Panel, q: Query, day: int, reports: np.ndarray, held: np.ndarray) -> None:
    """Compare a day's estimate with what those who might have answered hold."""
    n, o = len(reports), q.oracle
    panel.answers += n
    if not n:
        panel.silent_from = day if panel.silent_from is None else panel.silent_from
        return
    state = o.zeros()
    o.add(state, reports)
    estimate = o.estimate(state, n)
    true = np.bincount(held, minlength=SIZE) / len(held)
    z = (estimate.shares - true) / estimate.noise.stderr(true)
    low, high = estimate.interval()
    panel.squares.append(float((z**2).mean()))
    panel.covered.append(float(((low <= true) & (true <= high)).mean()))
    top = int(np.argmax(true))
    panel.worst = max(panel.worst, abs(float(z[top])))


def days_of(people: Population, days: int):
    for day in range(days):
        at = 1_700_006_400 + day * DAY
        groups = list(people.answers(day * people.clients, people.clients, day * DAY, at))
        reports = np.concatenate([group.reports for group in groups]) if groups else np.zeros((0, 1), np.uint8)
        yield day, reports, np.concatenate([group.values for group in groups]) if groups else np.zeros(0, np.int64)


def present(table: dict[str, object], people: int, days: int, seed: int) -> Panel:
    q, panel = query(**table), Panel()
    for day, reports, values in days_of(population(q, people, days, seed), days):
        weigh(panel, q, day, reports, values)
    return panel


def old(people: int, days: int, seed: int) -> Panel:
    """Memoised by value, each new one paid for, silent on the fifth."""
    q, panel, rng = query(oracle="hr", epsilon=2.0), Panel(), np.random.default_rng(seed)
    kept = np.full((people, OLD_VALUES), -1)
    said = np.zeros((people, OLD_VALUES, q.oracle.width), np.uint8)
    everyone = np.arange(people)
    for day, _, values in days_of(population(q, people, days, seed), days):
        known = (kept == values[:, None]).argmax(axis=1)
        knows = kept[everyone, known] == values
        room = (kept < 0).argmax(axis=1)
        news = np.flatnonzero(~knows & (kept[everyone, room] < 0))
        kept[news, room[news]] = values[news]
        said[news, room[news]] = q.oracle.perturb(values[news], rng)
        speaks = (kept == values[:, None]).any(axis=1)
        place = (kept == values[:, None]).argmax(axis=1)
        weigh(panel, q, day, said[everyone, place][speaks], values)
    return panel


def told(name: str, panels: list[Panel], spent: str, most: int) -> None:
    def mean(numbers: list[float]) -> str:
        spread = np.std(numbers, ddof=1) / np.sqrt(len(numbers)) if len(numbers) > 1 else float("nan")
        return f"{np.mean(numbers):.3f} +- {spread:.3f}"

    answers = sum(panel.answers for panel in panels)
    ratios = [float(np.sqrt(np.mean(panel.squares))) for panel in panels]
    covered = [float(np.mean(panel.covered)) for panel in panels]
    silent = {panel.silent_from for panel in panels} - {None}
    silence = f", all silent from day {silent.pop()}" if len(silent) == 1 else ""
    print(f"{name}\n  {answers:,} of {most * len(panels):,} answers{silence}; spent {spent}", flush=True)
    print(f"  error/stderr {mean(ratios)}, coverage {mean(covered)}, top value off by at most "
          f"{max(panel.worst for panel in panels):.1f} stderr")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--panels", type=int, default=20)
    parser.add_argument("--people", type=int, default=20_000)
    parser.add_argument("--days", type=int, default=730)
    options = parser.parse_args()
    begun = time.monotonic()
    most = options.people * options.days
    for name, table in QUERIES.items():
        q = query(**table)
        spent = f"{float(q.charge.amount) * q.charges:g} a client{' and round' if q.renew else ''}"
        told(name, [present(table, options.people, options.days, seed) for seed in range(options.panels)], spent, most)
    told(OLD, [old(options.people, options.days, seed) for seed in range(options.panels)], "at most 8 a client", most)
    print(
        f"{options.panels} panels of {options.people:,} people, {options.days} days: {time.monotonic() - begun:.0f} s"
    )


if __name__ == "__main__":
    main()
