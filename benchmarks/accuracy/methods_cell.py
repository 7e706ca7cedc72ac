"""One cell of the study of methods, with the errors of every method for one data set and epsilon."""

import numpy as np

from benchmarks.accuracy import draw
from benchmarks.accuracy.study import Figure, seeded
from oracles import Estimate, oracle
from oracles.calibrate import calibrate
from oracles.consistency import METHODS, apply
from oracles.types import Floats, Ints

TOPS = (2, 4, 8, 16, 32)
PARTS = (0.01, 0.05, 0.1, 0.3, 0.5, 0.7, 0.9)
SETS = 50
KNOWN = "norm_hyb, known k"


class Cell:
    """A data set at an epsilon, with one number per run for each method and measure."""

    def __init__(self, name: str, counts: Ints, epsilon: float) -> None:
        self.name, self.epsilon, self.truth = name, epsilon, counts / counts.sum()
        self.counts = counts
        self.oracle = oracle("olh", epsilon=epsilon, size=len(counts))
        self.sigma = float(self.oracle.noise(int(counts.sum())).sigma)
        self.rng = seeded("methods", name, epsilon)
        self.down = np.argsort(-self.truth, kind="stable")
        self.sets = self._sets()
        self.numbers: dict[tuple[str, str], list[float]] = {}

    def _sets(self) -> dict[str, np.ndarray]:
        size = len(self.truth)
        rng = seeded("sets", self.name)
        order = np.argsort(rng.random((SETS, size)), axis=1)
        sets = {f"{part:.0%}": (order < max(round(part * size), 1)).astype(float) for part in PARTS}
        rank = np.empty(size, np.int64)
        rank[self.down] = np.arange(size)
        special = {
            "every other value": np.arange(size) % 2 == 0,
            "the top tenth": rank < size // 10,
            "the rarer half": rank >= size // 2,
        }
        return sets | {name: members[None, :].astype(float) for name, members in special.items()}

    def run(self) -> None:
        e = draw.estimate(self.oracle, self.counts, self.rng)
        posterior = calibrate(e)
        for method in METHODS:
            self._judge(method, e, apply(method, e, calibrated=posterior))
        for k in TOPS:
            self._top(KNOWN, apply("norm_hyb", e, top=k), k)

    def _judge(self, method: str, e: Estimate, shares: Floats) -> None:
        error = shares - self.truth
        self._add(method, "MSE", float(np.mean(error**2)) / self.sigma**2)
        self._add(method, "MAE", float(np.mean(np.abs(error))) / self.sigma)
        frequent = self.truth > 3.0 * self.sigma
        for group, members in (("frequent", frequent), ("rare", ~frequent)):
            self._add(method, group, float(error[members].mean()) / self.sigma if members.any() else 0.0)
        self._add(method, "sum", float(error.sum()))
        for k in TOPS:
            self._top(method, shares, k)
        for name, members in self.sets.items():
            answers = np.maximum(members @ e.shares, 0.0) if method == "post_pos" else members @ shares
            self._add(method, name, float(np.mean((answers - members @ self.truth) ** 2)) / self.sigma**2)

    def _top(self, method: str, shares: Floats, k: int) -> None:
        members = self.down[:k]
        self._add(method, f"top {k}", float(np.mean((shares - self.truth)[members] ** 2)) / self.sigma**2)

    def _add(self, method: str, measure: str, number: float) -> None:
        self.numbers.setdefault((method, measure), []).append(number)

    def __getitem__(self, key: tuple[str, str]) -> Figure:
        return Figure.of(self.numbers[key])
