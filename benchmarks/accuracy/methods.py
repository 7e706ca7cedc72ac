"""Wang et al.'s study: every method on full domains, sets and the most frequent values."""

from pathlib import Path

import numpy as np

from benchmarks.accuracy import draw, populations
from benchmarks.accuracy.methods_claims import claims
from benchmarks.accuracy.study import Figure, Line, Panel, Plot, Section, Table, Track, seeded
from oracles import Estimate, oracle
from oracles.calibrate import calibrate
from oracles.consistency import METHODS, apply
from oracles.types import Floats, Ints

RUNS = 40
EPSILONS = tuple(round(0.2 * i, 1) for i in range(1, 11))
TOPS = (2, 4, 8, 16, 32)
PARTS = (0.01, 0.05, 0.1, 0.3, 0.5, 0.7, 0.9)
SETS = 50
KNOWN = "norm_hyb, known k"
SHOWN = ("base", "base_cut", "norm", "norm_mul", "norm_sub", "norm_hyb", "mle_apx", "calibrate_norm_sub")

TEXT = f"""Wang et al. 2020, with their two kinds of data: Zipf (exponent 1.5, 1,024 values, a million people) and
Beta(50, 2) in 400 equal bins, 100,000 people. Oracle `olh`, {RUNS} runs a cell, epsilon 0.2 to 2. `calibrate` is
their Power, `calibrate_norm_sub` their PowerNS. Sets: {SETS} random ones of each size, the same in all runs. Top k:
the squared error over the k truly most frequent values."""


def data() -> dict[str, Ints]:
    return {
        "Zipf": populations.zipf(1024, 1_000_000, 1.5),
        "Beta": populations.beta(400, 100_000, 50.0, 2.0),
    }


class Cell:
    """A data set at an epsilon: for each method and measure, one number a run."""

    def __init__(self, name: str, counts: Ints, epsilon: float) -> None:
        self.name, self.epsilon, self.truth = name, epsilon, counts / counts.sum()
        self.counts = counts
        self.oracle = oracle("olh", epsilon=epsilon, size=len(counts))
        self.sigma = float(self.oracle.noise(int(counts.sum())).sigma)
        self.rng = seeded("methods", name, epsilon)
        self.down = np.argsort(-self.truth, kind="stable")
        self.sets = self._sets()
        self.found: dict[tuple[str, str], list[float]] = {}

    def _sets(self) -> dict[str, np.ndarray]:
        size = len(self.truth)
        rng = seeded("sets", self.name)
        order = np.argsort(rng.random((SETS, size)), axis=1)
        sets = {f"{part:.0%}": (order < max(round(part * size), 1)).astype(float) for part in PARTS}
        rank = np.empty(size, np.int64)
        rank[self.down] = np.arange(size)
        named = {
            "every other value": np.arange(size) % 2 == 0,
            "the top tenth": rank < size // 10,
            "the rarer half": rank >= size // 2,
        }
        return sets | {name: chosen[None, :].astype(float) for name, chosen in named.items()}

    def run(self) -> None:
        e = draw.estimate(self.oracle, self.counts, self.rng)
        calibrated = calibrate(e)
        for method in METHODS:
            self._judge(method, e, apply(method, e, calibrated=calibrated))
        for k in TOPS:
            self._top(KNOWN, apply("norm_hyb", e, top=k), k)

    def _judge(self, method: str, e: Estimate, shares: Floats) -> None:
        error = shares - self.truth
        self._keep(method, "MSE", float(np.mean(error**2)) / self.sigma**2)
        self._keep(method, "MAE", float(np.mean(np.abs(error))) / self.sigma)
        frequent = self.truth > 3.0 * self.sigma
        for group, chosen in (("frequent", frequent), ("rare", ~frequent)):
            self._keep(method, group, float(error[chosen].mean()) / self.sigma if chosen.any() else 0.0)
        self._keep(method, "sum", float(error.sum()))
        for k in TOPS:
            self._top(method, shares, k)
        for name, members in self.sets.items():
            answers = np.maximum(members @ e.shares, 0.0) if method == "post_pos" else members @ shares
            self._keep(method, name, float(np.mean((answers - members @ self.truth) ** 2)) / self.sigma**2)

    def _top(self, method: str, shares: Floats, k: int) -> None:
        chosen = self.down[:k]
        self._keep(method, f"top {k}", float(np.mean((shares - self.truth)[chosen] ** 2)) / self.sigma**2)

    def _keep(self, method: str, measure: str, number: float) -> None:
        self.found.setdefault((method, measure), []).append(number)

    def __getitem__(self, key: tuple[str, str]) -> Figure:
        return Figure.of(self.found[key])


Cells = dict[tuple[str, float], Cell]


def run(track: Track, folder: Path) -> Section:
    del folder
    cells = {(name, eps): Cell(name, counts, eps) for name, counts in data().items() for eps in EPSILONS}
    for cell in track([cell for cell in cells.values() for _ in range(RUNS)], description="methods"):
        cell.run()
    section = Section(TEXT)
    for name in data():
        section.plots.append(plot(name, cells))
        section.tables += [full(name, cells), sets(name, cells), tops(name, cells), biases(name, cells)]
    section.claims += claims(cells)
    return section


def full(name: str, cells: Cells) -> Table:
    shown = (0.2, 0.6, 1.0, 2.0)
    rows = [[f"`{m}`", *(str(cells[name, e][m, what]) for what in ("MSE", "MAE") for e in shown)] for m in METHODS]
    head = ["", *(f"{what}, epsilon {e:g}" for what in ("MSE", "MAE") for e in shown)]
    return Table(f"{name}: all values", "MSE as a part of sigma^2, MAE (mean absolute error) of sigma.", head, rows)


def sets(name: str, cells: Cells) -> Table:
    cell, others = cells[name, 1.0], [cells[name, e] for e in (0.2, 2.0)]
    rows = [[f"`{m}`", *(str(cell[m, s]) for s in cell.sets), *(str(c[m, "50%"]) for c in others)] for m in METHODS]
    head = ["", *cell.sets, "50%, epsilon 0.2", "50%, epsilon 2"]
    note = "Mean squared error of a set's share as a part of sigma^2, epsilon 1 but for the last two columns."
    return Table(f"{name}: sets", note, head, rows)


def tops(name: str, cells: Cells) -> Table:
    shown = [(1.0, k) for k in TOPS] + [(0.2, 16), (2.0, 16)]
    rows = [[f"`{m}`", *(str(cells[name, e][m, f"top {k}"]) for e, k in shown)] for m in METHODS]
    rows.append([KNOWN, *(str(cells[name, e][KNOWN, f"top {k}"]) for e, k in shown)])
    head = ["", *(f"k = {k}" + (f", epsilon {e:g}" if e != 1.0 else "") for e, k in shown)]
    note = (
        "Mean squared error of the k most frequent values as a part of sigma^2, epsilon 1 but for the last two columns."
    )
    return Table(f"{name}: the most frequent values", note, head, rows)


def biases(name: str, cells: Cells) -> Table:
    cell = cells[name, 1.0]
    rows = [[f"`{m}`", *(str(cell[m, what]) for what in ("frequent", "rare", "sum"))] for m in METHODS]
    note = (
        f"Epsilon 1: mean error of the {int(np.sum(cell.truth > 3 * cell.sigma))} values above 3 sigma and of all"
        " others, in sigma; and how far the sum of all shares is above 1."
    )
    return Table(f"{name}: biases", note, ["", "frequent", "rare", "sum - 1"], rows)


def plot(name: str, cells: Cells) -> Plot:
    def line(method: str, x: list[float], found: list[Figure]) -> Line:
        return Line(method, x, [f.mean for f in found], [f.stderr for f in found])

    cell = cells[name, 1.0]
    over = [line(m, list(EPSILONS), [cells[name, e][m, "MSE"] for e in EPSILONS]) for m in SHOWN]
    size = [line(m, list(PARTS), [cell[m, f"{part:.0%}"] for part in PARTS]) for m in SHOWN]
    top = [line(m, [float(k) for k in TOPS], [cell[m, f"top {k}"] for k in TOPS]) for m in SHOWN]
    half = [line(m, list(EPSILONS), [cells[name, e][m, "50%"] for e in EPSILONS]) for m in SHOWN]
    sixteen = [line(m, list(EPSILONS), [cells[name, e][m, "top 16"] for e in EPSILONS]) for m in SHOWN]
    absolute = [line(m, list(EPSILONS), [cells[name, e][m, "MAE"] for e in EPSILONS]) for m in SHOWN]
    return Plot(
        f"methods-{name.lower()}",
        f"{name}, olh: errors over epsilon, over the size of a set, and over the number of top values.",
        [
            Panel("all values", "epsilon", "MSE / sigma^2", over, "y"),
            Panel("half of all values", "epsilon", "squared error / sigma^2", half, "y"),
            Panel("top 16", "epsilon", "MSE / sigma^2", sixteen, "y"),
            Panel("all values, absolute", "epsilon", "MAE / sigma", absolute, "y"),
            Panel("sets, epsilon 1", "part of the domain", "squared error / sigma^2", size, "y"),
            Panel("top values, epsilon 1", "k", "MSE / sigma^2", top, "xy"),
        ],
    )
