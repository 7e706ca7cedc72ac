"""The benchmark of weighted totals: their errors and intervals if groups answer more or less often than others.

python -m benchmarks.group_total [--windows 200]
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from benchmarks.harness import arguments
from oracles import oracle
from oracles.estimate import Estimate
from oracles.group_total import weighted_total
from oracles.types import Floats

SEED = 9
SIZES = (500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 40_000)
"""People that answer, by group. The groups are equally large in the population."""


class Case(NamedTuple):
    """A query, and the reports of its groups."""

    oracle: str
    epsilon: float
    values: int
    sizes: tuple[int, ...] = SIZES


CASES = (
    Case("olh", 1.0, 64),
    Case("hr", 1.0, 16),
    Case("grr", 3.0, 16),
    Case("olh", 1.0, 64, (60, 100, 400)),
)


class Fit(NamedTuple):
    """How well the stated error and interval fit the truth of the population, over all values and windows."""

    ratio: float
    """Root mean square of error / stderr, which should be 1."""
    coverage: float


def laws(case: Case) -> Floats:
    """Return the shares of the values in each group. Groups that answer more often like other values."""
    ranks = np.arange(1, case.values + 1)
    rows = [1.0 / np.roll(ranks, 3 * group) ** 1.1 for group in range(len(case.sizes))]
    return np.array([row / row.sum() for row in rows])


def windows(case: Case, count: int) -> Iterator[list[Estimate]]:
    """Yield the estimates of the groups in each window. The people of a window are a sample of the population."""
    o = oracle(case.oracle, epsilon=case.epsilon, size=case.values)
    for window in range(count):
        rng = np.random.default_rng((SEED, window))
        groups = []
        for law, size in zip(laws(case), case.sizes, strict=True):
            tally = o.tally()
            tally.add(o.perturb(rng.choice(case.values, size, p=law), rng))
            groups.append(tally.estimate())
        yield groups


def fit(case: Case, count: int) -> tuple[Fit, Fit]:
    """Return the fit of the weighted total, and that of the plain total."""
    law = laws(case)
    parts = len(case.sizes)
    true = law.mean(axis=0)
    squares = np.zeros(2)
    hits = np.zeros(2)
    for groups in windows(case, count):
        # Groups weigh the same, although they answer more or less often.
        total = weighted_total(groups, [1 / parts] * parts)
        plain = weighted_total(groups, list(case.sizes))
        for at, each in enumerate((total, plain)):
            squares[at] += np.mean(((each.shares - true) / each.stderr) ** 2) / count
            hits[at] += np.mean((each.low <= true) & (true <= each.high)) / count
    ratios = np.sqrt(squares)
    return Fit(float(ratios[0]), float(hits[0])), Fit(float(ratios[1]), float(hits[1]))


def main() -> None:
    count = arguments(__doc__, windows=200).windows
    print("| oracle, epsilon, values, groups | error/stderr | coverage | unweighted: error/stderr | coverage |")
    print("|--|--|--|--|--|")
    for case in CASES:
        weighted, plain = fit(case, count)
        smallest = case.sizes[0]
        largest = case.sizes[-1]
        name = f"{case.oracle}, {case.epsilon:g}, {case.values}, {len(case.sizes)} of {smallest:,} to {largest:,}"
        print(f"| {name} | {weighted.ratio:.3f} | {weighted.coverage:.3f} | {plain.ratio:.2f} | {plain.coverage:.3f} |")


if __name__ == "__main__":
    main()
