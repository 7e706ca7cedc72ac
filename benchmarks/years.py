"""Measure two years of daily answers with the client's own code: silence, errors of shares, and charges.

Answers for life come from one table, as in query files of edition 2. One row has noise for each class instead.

python -m benchmarks.years [--panels 20] [--people 20000] [--days 730]

One person in ten changes the value each day, and from the middle on a new value has 30%. The old client is included for
comparison. It paid for each new *value*, and was silent from its fifth on. Its shares are biased, because silence
depends on the value.
"""

import time
from dataclasses import dataclass, field

import numpy as np

from benchmarks.harness import arguments
from oracles.query import Query, parse
from producers.simulation.crowd.distribution import Distribution
from producers.simulation.crowd.population import Population
from producers.simulation.crowd.scenario import Course, Scenario, Surge

DAY = 86_400
SIZE, NEW = 63, 62
OLD_VALUES = 4
QUERIES = {
    "life: hr, epsilon 2": {"oracle": "hr", "epsilon": 2.0},
    "life: olh, 4 buckets, epsilon 1": {"oracle": "olh", "epsilon": 1.0},
    "life: full, 8 buckets, epsilon 2": {"oracle": "full", "epsilon": 2.0},
    "life: hr, epsilon 2, renew 30d": {"oracle": "hr", "epsilon": 2.0, "renew": "30d"},
    "life: hr, epsilon 2, noise for each class": {"oracle": "hr", "epsilon": 2.0, "noise": "each"},
    "fresh: hr, epsilon 2, budget for all": {"oracle": "hr", "epsilon": 2.0, "answers": "fresh", "budget": 1460.0},
    "fresh: hr, epsilon 2, default budget": {"oracle": "hr", "epsilon": 2.0, "answers": "fresh"},
}
OLD = "the old client: hr, epsilon 2"


@dataclass
class Panel:
    """The results of one panel of people."""

    answers: int = 0
    squares: list[float] = field(default_factory=list)
    """Mean over values of (error/stderr)^2, for each day."""
    coverage: list[float] = field(default_factory=list)
    worst: float = 0.0
    """Largest error of the most common value, in standard errors."""
    silent_from: int | None = None


def query(**table: object) -> Query:
    table = {"domain": SIZE, "pane": "1d", **table}
    return parse({"edition": 2, "queries": {"q": table}}, "years", ".")["q"]


def population(q: Query, people: int, days: int, seed: int) -> Population:
    law = Distribution((np.arange(SIZE) + 1.0) ** -1.1)
    begins = days // 2 * DAY
    surge = Surge(Course(0.3, begins), 0, NEW)
    return Population(q, law.without(0, NEW), people, seed, Scenario((surge,)), churn=0.1)


def weigh(panel: Panel, q: Query, day: int, reports: np.ndarray, values: np.ndarray) -> None:
    """Compare a day's estimate with the values of all people who could have answered."""
    n = len(reports)
    o = q.oracle
    panel.answers += n
    if not n:
        panel.silent_from = day if panel.silent_from is None else panel.silent_from
        return
    state = o.zeros()
    o.add(state, reports)
    estimate = o.estimate(state, n)
    true = np.bincount(values, minlength=SIZE) / len(values)
    z = (estimate.shares - true) / estimate.noise.stderr(true)
    low, high = estimate.interval()
    panel.squares.append(float((z**2).mean()))
    panel.coverage.append(float(((low <= true) & (true <= high)).mean()))
    top = int(np.argmax(true))
    panel.worst = max(panel.worst, abs(float(z[top])))


def days_of(people: Population, days: int):
    for day in range(days):
        at = 1_700_006_400 + day * DAY
        groups = list(people.answers(people.clients, day * DAY, at))
        reports = np.concatenate([group.reports for group in groups]) if groups else np.zeros((0, 1), np.uint8)
        yield day, reports, np.concatenate([group.values for group in groups]) if groups else np.zeros(0, np.int64)


def present(table: dict[str, object], people: int, days: int, seed: int) -> Panel:
    q = query(**table)
    panel = Panel()
    for day, reports, values in days_of(population(q, people, days, seed), days):
        weigh(panel, q, day, reports, values)
    return panel


def old(people: int, days: int, seed: int) -> Panel:
    """Return a panel of the old client, which stores answers by value, pays for new ones, and stops at the fifth."""
    q = query(oracle="hr", epsilon=2.0)
    panel = Panel()
    rng = np.random.default_rng(seed)
    stored_values = np.full((people, OLD_VALUES), -1)
    stored_reports = np.zeros((people, OLD_VALUES, q.oracle.width), np.uint8)
    everyone = np.arange(people)
    for day, _, values in days_of(population(q, people, days, seed), days):
        index = (stored_values == values[:, None]).argmax(axis=1)
        knows = stored_values[everyone, index] == values
        # argmax gives 0 for a row without a match, so `knows` looks at that place again.
        room = (stored_values < 0).argmax(axis=1)
        news = np.flatnonzero(~knows & (stored_values[everyone, room] < 0))
        stored_values[news, room[news]] = values[news]
        stored_reports[news, room[news]] = q.oracle.perturb(values[news], rng)
        speaks = (stored_values == values[:, None]).any(axis=1)
        place = (stored_values == values[:, None]).argmax(axis=1)
        weigh(panel, q, day, stored_reports[everyone, place][speaks], values)
    return panel


def show(name: str, panels: list[Panel], charges: str, most: int) -> None:
    def mean(numbers: list[float]) -> str:
        spread = np.std(numbers, ddof=1) / np.sqrt(len(numbers)) if len(numbers) > 1 else float("nan")
        return f"{np.mean(numbers):.3f} +- {spread:.3f}"

    answers = sum(panel.answers for panel in panels)
    ratios = [float(np.sqrt(np.mean(panel.squares))) for panel in panels]
    coverage = [float(np.mean(panel.coverage)) for panel in panels]
    silent = {panel.silent_from for panel in panels} - {None}
    silence = f", all silent from day {silent.pop()}" if len(silent) == 1 else ""
    print(f"{name}\n  {answers:,} of {most * len(panels):,} answers{silence}; charges {charges}", flush=True)
    print(f"  error/stderr {mean(ratios)}, coverage {mean(coverage)}, largest error of the top value "
          f"{max(panel.worst for panel in panels):.1f} stderr")  # fmt: skip


def main() -> None:
    options = arguments(__doc__, panels=20, people=20_000, days=730)
    start = time.monotonic()
    most = options.people * options.days
    for name, table in QUERIES.items():
        q = query(**table)
        charges = f"{float(q.charge.amount) * q.charges:g} a client{' and round' if q.renew else ''}"
        show(
            name, [present(table, options.people, options.days, seed) for seed in range(options.panels)], charges, most
        )
    show(OLD, [old(options.people, options.days, seed) for seed in range(options.panels)], "at most 8 a client", most)
    print(
        f"{options.panels} panels of {options.people:,} people, {options.days} days: {time.monotonic() - start:.0f} s"
    )


if __name__ == "__main__":
    main()
