"""How good the recommended method is, over data of many shapes, against always taking the same one.

python benchmarks/recommend.py [--runs N] [--retail FILE]
    a line for each data set, epsilon and task, then the sums of each task and of all; FILE is the
    Retail data set as CSV with a column "count", gzipped or not
"""

import argparse
import csv
import gzip
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from oracles import Estimate, oracle
from oracles.calibrate import Calibrated, calibrate
from oracles.consistency import METHODS, apply
from oracles.method import TASKS
from oracles.risk import Rank, recommend

SIZE, PEOPLE, TOP, SETS = 1024, 1_000_000, 20, 200
EPSILONS = (0.5, 1.0, 2.0, 4.0)
NEAR = 0.1
"""A choice whose error exceeds the smallest one by less is as good as the best."""

SHAPES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "zipf": lambda rank: rank**-1.5,
    "beta": lambda rank: (rank / SIZE) * (1 - (rank - 0.5) / SIZE) ** 4,
    "uniform": np.ones_like,
    "two spikes": lambda rank: np.where(rank == 1, 0.6, np.where(rank == 2, 0.4, 0.0)),
    "geometric": lambda rank: 0.98**rank,
}


def generated() -> dict[str, np.ndarray]:
    """Counts of PEOPLE over SIZE values, the largest first, for each shape."""
    shares = {shape: np.sort(weights(np.arange(1.0, SIZE + 1)))[::-1] for shape, weights in SHAPES.items()}
    return {
        shape: np.diff(np.rint(PEOPLE * np.cumsum(f) / f.sum()), prepend=0).astype(int) for shape, f in shares.items()
    }


def counts_of(file: Path) -> np.ndarray:
    opened = gzip.open if file.suffix == ".gz" else open
    with opened(file, "rt") as lines:
        return np.sort([int(row["count"]) for row in csv.DictReader(lines)])[::-1]


@dataclass
class Cell:
    """A data set, epsilon and task: each method's mean loss, and what was said in each run."""

    data: str
    epsilon: float
    task: str
    losses: dict[str, float]
    recommended: list[str | None]
    """None where it was said that it is not known."""
    rejected: int
    """Runs in which calibrate rejected its prior."""

    @property
    def best(self) -> str:
        return min(self.losses, key=self.losses.__getitem__)

    @property
    def regrets(self) -> dict[str, float]:
        """How much larger each method's loss is than the best one's, as a part of that."""
        return {method: loss / self.losses[self.best] - 1 for method, loss in self.losses.items()}

    def __str__(self) -> str:
        picks = ", ".join(
            f"{count} {method} (+{self.regrets[method]:.0%})" if method else f"{count} not known"
            for method, count in Counter(self.recommended).most_common()
        )
        told = f"best {self.best:19} prior rejected {self.rejected:3}  recommended {picks}"
        return f"{self.data:11} {self.epsilon:4} {self.task:7} {told}"


def cells(data: Mapping[str, np.ndarray], epsilons: Iterable[float], runs: int, name: str = "oue") -> Iterator[Cell]:
    for shape, counts in data.items():
        for epsilon in epsilons:
            rng = np.random.default_rng(zlib.crc32(f"{shape} {epsilon}".encode()))
            losses = {task: defaultdict(float) for task in TASKS}
            picks = {task: [] for task in TASKS}
            rejected = 0
            n = int(counts.sum())
            o = oracle(name, epsilon=epsilon, size=len(counts))
            halves = np.argsort(rng.random((SETS, len(counts))), axis=1) < len(counts) // 2
            for _ in range(runs):
                support = rng.binomial(counts, o.p) + rng.binomial(n - counts, o.q)
                estimate = Estimate(o.shares(support, n), n, o)
                calibrated = calibrate(estimate)
                rejected += calibrated.rejected
                for task in TASKS:
                    picks[task].append(first(recommend(estimate, task, top=TOP, calibrated=calibrated)))
                    for method in METHODS:
                        losses[task][method] += loss(method, estimate, counts / n, task, halves, calibrated) / runs
            for task in TASKS:
                yield Cell(shape, epsilon, task, dict(losses[task]), picks[task], rejected)


def first(ranks: list[Rank]) -> str | None:
    """The recommended method; None where none is."""
    return None if np.isnan(ranks[0].risk) else ranks[0].method


def loss(
    method: str, estimate: Estimate, truth: np.ndarray, task: str, halves: np.ndarray, calibrated: Calibrated
) -> float:
    """The squared error in the task, from the largest true share to the smallest."""
    if task != "sets":
        kept = TOP if task == "top" else None
        error = (apply(method, estimate, top=kept, calibrated=calibrated) - truth)[:kept]
        return float(np.mean(error**2))
    answers = halves @ (estimate.shares if method == "post_pos" else apply(method, estimate, calibrated=calibrated))
    if method == "post_pos":
        answers = np.maximum(answers, 0.0)
    return float(np.mean((answers - halves @ truth) ** 2))


@dataclass
class Score:
    """Of a way to choose: how often its choice is as good as the best, its mean and its largest regret."""

    near: float
    regret: float
    most: float
    answered: float = 1.0
    """The part of windows in which it chooses."""

    @classmethod
    def of(cls, regrets: Iterable[float], windows: int | None = None) -> "Score":
        found = np.array(list(regrets))
        part = 1.0 if windows is None else len(found) / windows
        return cls(float(np.mean(found <= NEAR)), float(found.mean()), float(found.max()), part)

    def __str__(self) -> str:
        near = (
            f"within {NEAR:.0%} of the best {self.near:6.1%}, regret mean {self.regret:10.3f}, most {self.most:10.3f}"
        )
        return f"{near}, chooses in {self.answered:6.1%}"


def scores(found: list[Cell]) -> tuple[Score, dict[str, Score]]:
    """Of the recommended methods, and of always taking the same one, the best of these first."""
    ours = Score.of(
        (cell.regrets[pick] for cell in found for pick in cell.recommended if pick),
        sum(len(cell.recommended) for cell in found),
    )
    same = {method: Score.of(cell.regrets[method] for cell in found) for method in METHODS}
    return ours, dict(sorted(same.items(), key=lambda item: (-item[1].near, item[1].regret)))


def main() -> None:
    options = argparse.ArgumentParser(description="How good the recommended method is.")
    options.add_argument("--runs", type=int, default=20, help="of each data set and epsilon")
    options.add_argument("--retail", type=Path, help="counts of the Retail data set")
    given = options.parse_args()
    data = generated() | ({"retail": counts_of(given.retail)} if given.retail else {})
    found = []
    for cell in cells(data, EPSILONS, given.runs):
        found.append(cell)
        print(cell, flush=True)
    for tasks in (*([task] for task in TASKS), TASKS):
        ours, same = scores([cell for cell in found if cell.task in tasks])
        print(f"\n{tasks[0] if len(tasks) == 1 else 'all':7} {'recommended':26}{ours}")
        for method in list(same)[:3]:
            print(f"{'':7} {'always ' + method:26}{same[method]}")


if __name__ == "__main__":
    main()
