"""Compare the recommended method with one fixed method, on data of many shapes.

python -m benchmarks.recommend [--runs N] [--new] [--retail FILE]
    a line for each data set, epsilon and task, then the scores of each task and of all; with --new the data are four
    populations from which `recommend` was not made; FILE is the Retail data set as CSV with a column "count",
    gzipped or not
"""

import csv
import gzip
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import stats

from benchmarks.accuracy import draw
from benchmarks.harness import arguments, show
from oracles import Estimate, oracle
from oracles.calibrate import Calibrated, calibrate
from oracles.consistency import METHODS, apply
from oracles.consistency.method import TASKS
from oracles.risk import Rank, recommend

SIZE, PEOPLE, TOP, SETS = 1024, 1_000_000, 20, 200
EPSILONS = (0.5, 1.0, 2.0, 4.0)
NEAR = 0.1
"""Relative excess over the smallest error up to which a choice is as good as the best."""

SHAPES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "zipf": lambda rank: rank**-1.5,
    "beta": lambda rank: (rank / SIZE) * (1 - (rank - 0.5) / SIZE) ** 4,
    "uniform": np.ones_like,
    "two spikes": lambda rank: np.where(rank == 1, 0.6, np.where(rank == 2, 0.4, 0.0)),
    "geometric": lambda rank: 0.98**rank,
}

NEW_SHAPES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "lognormal": lambda rank: np.exp(2.0 * stats.norm.ppf(rank / (len(rank) + 1))),
    "two levels": lambda rank: np.where(rank <= len(rank) // 16, 0.6 * 15, 0.4),
    "four levels": lambda rank: 4.0 ** -(4 * (rank - 1) // len(rank)),
    "dirichlet": lambda rank: np.random.default_rng(1).gamma(0.1, size=len(rank)),
}
"""Populations that nobody looked at when `recommend` was made."""
NEW_SCALES = ((SIZE, PEOPLE), (256, 50_000))
"""Values and people of the new populations."""


def generated(
    shapes: Mapping[str, Callable[[np.ndarray], np.ndarray]] = SHAPES, size: int = SIZE, people: int = PEOPLE
) -> dict[str, np.ndarray]:
    """Return for each shape the counts of people over values, the largest first."""
    shares = {shape: np.sort(weights(np.arange(1.0, size + 1)))[::-1] for shape, weights in shapes.items()}
    return {
        shape: np.diff(np.rint(people * np.cumsum(f) / f.sum()), prepend=0).astype(int) for shape, f in shares.items()
    }


def new_data() -> dict[str, np.ndarray]:
    """Return the counts of the new populations."""
    return {
        f"{shape}, {size}": counts
        for size, people in NEW_SCALES
        for shape, counts in generated(NEW_SHAPES, size, people).items()
    }


def counts_of(file: Path) -> np.ndarray:
    opener = gzip.open if file.suffix == ".gz" else open
    with opener(file, "rt") as lines:
        return np.sort([int(row["count"]) for row in csv.DictReader(lines)])[::-1]


@dataclass
class Cell:
    """A data set, epsilon and task, with each method's mean loss and the recommendation of each run."""

    data: str
    epsilon: float
    task: str
    losses: dict[str, float]
    picks: list[str | None]
    """The recommended method of each run, or None without a recommendation."""
    rejections: int
    """Number of runs in which calibrate rejected its prior."""

    @property
    def best(self) -> str:
        return min(self.losses, key=self.losses.__getitem__)

    @property
    def regrets(self) -> dict[str, float]:
        """Return the relative excess of each method's loss over the smallest loss."""
        return {method: loss / self.losses[self.best] - 1 for method, loss in self.losses.items()}

    def __str__(self) -> str:
        picks = ", ".join(
            f"{count} {method} (+{self.regrets[method]:.0%})" if method else f"{count} none"
            for method, count in Counter(self.picks).most_common()
        )
        text = f"best {self.best:19} prior rejected {self.rejections:3}  recommended {picks}"
        return f"{self.data:16} {self.epsilon:4} {self.task:7} {text}"


def cells(data: Mapping[str, np.ndarray], epsilons: Iterable[float], runs: int, name: str = "oue") -> Iterator[Cell]:
    for shape, counts in data.items():
        for epsilon in epsilons:
            # A seed of its own lets each cell run alone with the same figures.
            rng = np.random.default_rng(zlib.crc32(f"{shape} {epsilon}".encode()))
            losses = {task: defaultdict(float) for task in TASKS}
            picks = {task: [] for task in TASKS}
            rejections = 0
            n = int(counts.sum())
            o = oracle(name, epsilon=epsilon, size=len(counts))
            halves = np.argsort(rng.random((SETS, len(counts))), axis=1) < len(counts) // 2
            for _ in range(runs):
                estimate = draw.estimate(o, counts, rng)
                posterior = calibrate(estimate)
                rejections += posterior.rejected
                for task in TASKS:
                    picks[task].append(first(recommend(estimate, task, top=TOP, calibrated=posterior)))
                    for method in METHODS:
                        losses[task][method] += loss(method, estimate, counts / n, task, halves, posterior) / runs
            for task in TASKS:
                yield Cell(shape, epsilon, task, dict(losses[task]), picks[task], rejections)


def first(ranks: list[Rank]) -> str | None:
    """Return the recommended method, or None without one."""
    return None if np.isnan(ranks[0].risk) else ranks[0].method


def loss(
    method: str, estimate: Estimate, truth: np.ndarray, task: str, halves: np.ndarray, posterior: Calibrated
) -> float:
    """Return the squared error in the task. Shares are sorted by true share, largest first."""
    if task != "sets":
        number = TOP if task == "top" else None
        error = (apply(method, estimate, top=number, calibrated=posterior) - truth)[:number]
        return float(np.mean(error**2))
    answers = halves @ (estimate.shares if method == "post_pos" else apply(method, estimate, calibrated=posterior))
    if method == "post_pos":
        answers = np.maximum(answers, 0.0)
    return float(np.mean((answers - halves @ truth) ** 2))


@dataclass
class Score:
    """The score of a way to choose: how often it is near the best, and its mean and largest regret."""

    near: float
    regret: float
    most: float
    coverage: float = 1.0
    """Share of windows with a choice."""

    @classmethod
    def of(cls, regrets: Iterable[float], windows: int | None = None) -> "Score":
        numbers = np.array(list(regrets))
        part = 1.0 if windows is None else len(numbers) / windows
        return cls(float(np.mean(numbers <= NEAR)), float(numbers.mean()), float(numbers.max()), part)

    def __str__(self) -> str:
        near = (
            f"within {NEAR:.0%} of the best {self.near:6.1%}, regret mean {self.regret:10.3f}, most {self.most:10.3f}"
        )
        return f"{near}, chooses in {self.coverage:6.1%}"


def scores(cells_of_tasks: list[Cell]) -> tuple[Score, dict[str, Score]]:
    """Return the score of the recommended methods, and of each fixed method, the best first."""
    ours = Score.of(
        (cell.regrets[pick] for cell in cells_of_tasks for pick in cell.picks if pick),
        sum(len(cell.picks) for cell in cells_of_tasks),
    )
    same = {method: Score.of(cell.regrets[method] for cell in cells_of_tasks) for method in METHODS}
    return ours, dict(sorted(same.items(), key=lambda item: (-item[1].near, item[1].regret)))


def main() -> None:
    options = arguments(
        "Compare the recommended method with one fixed method.",
        runs=(20, "runs per data set and epsilon"),
        new=(False, "use four populations that it was not made from"),
        retail=(Path, "counts of the Retail data set"),
    )
    data = new_data() if options.new else generated()
    if options.retail:
        data["retail"] = counts_of(options.retail)
    results = []
    for cell in cells(data, EPSILONS, options.runs):
        results.append(cell)
        show(cell)
    for tasks in (*([task] for task in TASKS), TASKS):
        ours, same = scores([cell for cell in results if cell.task in tasks])
        print(f"\n{tasks[0] if len(tasks) == 1 else 'all':7} {'recommended':26}{ours}")
        for method in list(same)[:3]:
            print(f"{'':7} {'always ' + method:26}{same[method]}")


if __name__ == "__main__":
    main()
