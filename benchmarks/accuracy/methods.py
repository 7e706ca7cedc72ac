"""The study of Wang et al., with every method on full domains, sets and the most frequent values."""

from itertools import product
from pathlib import Path

import numpy as np

from benchmarks.accuracy import populations
from benchmarks.accuracy.methods_cell import KNOWN, PARTS, SETS, TOPS, Cell
from benchmarks.accuracy.methods_claims import claims
from benchmarks.accuracy.study import Figure, Line, Panel, Plot, Section, Table, Track
from oracles.consistency import METHODS
from oracles.types import Ints

RUNS = 40
EPSILONS = tuple(round(0.2 * i, 1) for i in range(1, 11))
LINES = ("base", "base_cut", "norm", "norm_mul", "norm_sub", "norm_hyb", "mle_apx", "calibrate_norm_sub")

TEXT = f"""Wang et al. 2020. The study uses their two kinds of data: Zipf (exponent 1.5, 1,024 values, a
million people) and Beta(50, 2) in 400 equal bins (100,000 people). The oracle is `olh`, with {RUNS} runs per
cell and epsilon 0.2 to 2. `calibrate` is their Power, and `calibrate_norm_sub` their PowerNS. There are {SETS}
random sets of each size, the same in all runs. Top k is the squared error over the k values that are most
frequent in truth."""


def data() -> dict[str, Ints]:
    return {
        "Zipf": populations.zipf(1024, 1_000_000, 1.5),
        "Beta": populations.beta(400, 100_000, 50.0, 2.0),
    }


Cells = dict[tuple[str, float], Cell]


def run(track: Track, folder: Path) -> Section:
    del folder
    cells = {(name, eps): Cell(name, counts, eps) for (name, counts), eps in product(data().items(), EPSILONS)}
    for cell in track([cell for cell, _ in product(cells.values(), range(RUNS))], description="methods"):
        cell.run()
    section = Section(TEXT)
    for name in data():
        section.plots.append(plot(name, cells))
        section.tables += [full(name, cells), sets(name, cells), tops(name, cells), biases(name, cells)]
    section.claims += claims(cells)
    return section


def full(name: str, cells: Cells) -> Table:
    epsilons = (0.2, 0.6, 1.0, 2.0)
    rows = [
        [f"`{m}`", *(str(cells[name, e][m, measure]) for measure, e in product(("MSE", "MAE"), epsilons))]
        for m in METHODS
    ]
    head = ["", *(f"{measure}, epsilon {e:g}" for measure, e in product(("MSE", "MAE"), epsilons))]
    return Table(
        f"{name}: all values", "MSE relative to sigma^2, and MAE (mean absolute error) relative to sigma.", head, rows
    )


def sets(name: str, cells: Cells) -> Table:
    cell, others = cells[name, 1.0], [cells[name, e] for e in (0.2, 2.0)]
    rows = [[f"`{m}`", *(str(cell[m, s]) for s in cell.sets), *(str(c[m, "50%"]) for c in others)] for m in METHODS]
    head = ["", *cell.sets, "50%, epsilon 0.2", "50%, epsilon 2"]
    note = "Mean squared error of a set's share relative to sigma^2. Epsilon is 1, except in the last two columns."
    return Table(f"{name}: sets", note, head, rows)


def tops(name: str, cells: Cells) -> Table:
    columns = [(1.0, k) for k in TOPS] + [(0.2, 16), (2.0, 16)]
    rows = [[f"`{m}`", *(str(cells[name, e][m, f"top {k}"]) for e, k in columns)] for m in METHODS]
    rows.append([KNOWN, *(str(cells[name, e][KNOWN, f"top {k}"]) for e, k in columns)])
    head = ["", *(f"k = {k}" + (f", epsilon {e:g}" if e != 1.0 else "") for e, k in columns)]
    note = (
        "Mean squared error of the k most frequent values relative to sigma^2. Epsilon is 1, except in the last two"
        " columns."
    )
    return Table(f"{name}: the most frequent values", note, head, rows)


def biases(name: str, cells: Cells) -> Table:
    cell = cells[name, 1.0]
    rows = [[f"`{m}`", *(str(cell[m, measure]) for measure in ("frequent", "rare", "sum"))] for m in METHODS]
    note = (
        f"Epsilon 1: mean error of the {int(np.sum(cell.truth > 3 * cell.sigma))} values above 3 sigma and of all"
        " others, in sigma, and the difference of the sum of all shares from 1."
    )
    return Table(f"{name}: biases", note, ["", "frequent", "rare", "sum - 1"], rows)


def plot(name: str, cells: Cells) -> Plot:
    def line(method: str, x: list[float], figures: list[Figure]) -> Line:
        return Line(method, x, [f.mean for f in figures], [f.stderr for f in figures])

    cell = cells[name, 1.0]
    over = [line(m, list(EPSILONS), [cells[name, e][m, "MSE"] for e in EPSILONS]) for m in LINES]
    size = [line(m, list(PARTS), [cell[m, f"{part:.0%}"] for part in PARTS]) for m in LINES]
    top = [line(m, [float(k) for k in TOPS], [cell[m, f"top {k}"] for k in TOPS]) for m in LINES]
    half = [line(m, list(EPSILONS), [cells[name, e][m, "50%"] for e in EPSILONS]) for m in LINES]
    sixteen = [line(m, list(EPSILONS), [cells[name, e][m, "top 16"] for e in EPSILONS]) for m in LINES]
    absolute = [line(m, list(EPSILONS), [cells[name, e][m, "MAE"] for e in EPSILONS]) for m in LINES]
    return Plot(
        f"methods-{name.lower()}",
        f"{name}, olh: errors by epsilon, by the size of a set, and by the number of top values.",
        [
            Panel("all values", "epsilon", "MSE / sigma^2", over, "y"),
            Panel("half of all values", "epsilon", "squared error / sigma^2", half, "y"),
            Panel("top 16", "epsilon", "MSE / sigma^2", sixteen, "y"),
            Panel("all values, absolute", "epsilon", "MAE / sigma", absolute, "y"),
            Panel("sets, epsilon 1", "part of the domain", "squared error / sigma^2", size, "y"),
            Panel("top values, epsilon 1", "k", "MSE / sigma^2", top, "xy"),
        ],
    )
