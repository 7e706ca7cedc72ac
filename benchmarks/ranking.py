"""The benchmark of lists: how often the intervals of the largest values hold the truth.

python -m benchmarks.ranking
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from oracles import oracle
from oracles.types import Floats

FIRST = (1, 10, 50)
"""Lengths of the lists."""
SEED = 5


class Case(NamedTuple):
    """A query and the shares of its values, which fall with a power of the rank."""

    oracle: str
    epsilon: float
    values: int
    reports: int
    slope: float

    def __str__(self) -> str:
        shape = f"Zipf {self.slope:g}" if self.slope else "all alike"
        return f"{self.oracle}, epsilon {self.epsilon:g}, {shape} | {self.values:,}, {self.reports:,}"


CASES = (
    Case("olh", 1.0, 500, 20_000, 1.1),
    Case("oue", 1.0, 1_000, 50_000, 1.1),
    Case("olh", 1.0, 10_000, 100_000, 1.2),
    Case("olh", 1.0, 500, 20_000, 0.0),
    Case("grr", 3.0, 64, 3_000, 1.0),
)


def coverage(case: Case, windows: int) -> Iterator[tuple[int, Floats]]:
    """Yield each length of a list, with the share of its intervals that hold the truth: at 95%, and by its level."""
    o = oracle(case.oracle, epsilon=case.epsilon, size=case.values)
    weights = 1.0 / np.arange(1, case.values + 1) ** case.slope
    hits = {count: np.zeros(2) for count in FIRST}
    for window in range(windows):
        rng = np.random.default_rng((SEED, window))
        values = rng.choice(case.values, case.reports, p=weights / weights.sum())
        true = np.bincount(values, minlength=case.values) / case.reports
        tally = o.tally()
        tally.add(o.perturb(values, rng))
        estimate = tally.estimate()
        for count in FIRST:
            rows = estimate.top(count)
            # Both kinds of intervals see the same noise, because they come from one estimate.
            positions = np.array([row.value for row in rows])
            own = [estimate.low[positions], estimate.high[positions]]
            by_level = [np.array([row.low for row in rows]), np.array([row.high for row in rows])]
            for at, (low, high) in enumerate((own, by_level)):
                hits[count][at] += np.mean((low <= true[positions]) & (true[positions] <= high)) / windows
    yield from hits.items()


def main() -> None:
    for case in CASES:
        columns = zip(*(rates for _, rates in coverage(case, 60)), strict=True)
        print("|", case, "|", " | ".join(" ".join(f"{rate:.3f}" for rate in column) for column in columns), "|")


if __name__ == "__main__":
    main()
