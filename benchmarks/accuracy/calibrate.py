"""The study of Calibrate, with the measurements of Jia and Gong on Retail."""

from itertools import product
from pathlib import Path

import numpy as np

from benchmarks.accuracy import draw, populations
from benchmarks.accuracy.study import Claim, Figure, Line, Panel, Plot, Section, Table, Track, mse, seeded
from oracles import Estimate, oracle
from oracles.calibrate import FITS, calibrate
from oracles.consistency import apply
from oracles.consistency.fitting import LAWS
from oracles.heavy import Evidence
from oracles.kernels.simplex import project
from oracles.types import Floats, Ints

RUNS = 40
EPSILONS = (1.0, 2.0, 3.0, 4.0, 5.0)
PRIORS = list(product(LAWS, FITS))
LISTS = ("OUE", "Calibrate", "Calibrate, mean and variance", "`decided`")
PARTS = (0.25, 0.5, 1.0, 2.0)
OTHERS = ("grr", "sue", "olh")
KOSARAK = 8_019_015
"""Number of clicks in the paper's other data set. Its noise depends only on this number."""

TEXT = """Jia and Gong 2019. The study compares three estimates: the shares of OUE; *OUE-Zero*, which sets
shares below the significance threshold T = Phi^-1(1 - 0.05/d) sigma to 0; and Calibrate's posterior means. Each
family of priors is fitted by maximum likelihood (ml) and by mean and variance (mv). There are 40 runs per cell.
Kosarak, their other data set, is not available."""


def name_of(family: str, fit: str) -> str:
    return f"{family.replace('_', ' ')}, {'ml' if fit == 'ml' else 'mv'}"


class Cell:
    """A cell of the study: one oracle and epsilon, with the errors and the lists of each run."""

    def __init__(self, counts: Ints, name: str, epsilon: float, *, priors: list[tuple[str, str]]) -> None:
        self.counts, self.truth = counts, counts / counts.sum()
        self.oracle = oracle(name, epsilon=epsilon, size=len(counts))
        self.priors = priors
        self.rng = seeded("calibrate", name, epsilon)
        self.errors: dict[str, list[float]] = {}
        self.hits: dict[tuple[str, float], list[tuple[float, float]]] = {}
        self.spread: list[float] = []
        self.sigma = 0.0

    def _err(self, label: str, shares: Floats) -> None:
        self.errors.setdefault(label, []).append(mse(shares, self.truth))

    def run(self) -> None:
        e = draw.estimate(self.oracle, self.counts, self.rng)
        self.sigma = e.sigma
        rare = self.truth < e.sigma
        self.spread.append(float(np.std((e.shares - self.truth)[rare]) / e.sigma))
        self._err("OUE", e.shares)
        self._err("OUE-Zero", apply("zero", e))
        estimates: dict[str, Floats] = {}
        for family, fit in self.priors:
            estimates[name_of(family, fit)] = shares = calibrate(e, family, fit).shares
            self._err(name_of(family, fit), shares)
        power = estimates["power law, ml"]
        t = e.noise.significance(len(self.counts), 0.05)
        self._err("cut below T", np.where(power >= t, power, 0.0))
        self._err("calibrate_norm_sub", project(power))
        self._err("norm_sub", apply("norm_sub", e))
        if len(self.priors) > 1:
            self._lists(e, power, estimates["power law, mv"], t)

    def _lists(self, e: Estimate, power: Floats, moments: Floats, t: float) -> None:
        for part in PARTS:
            heavy = self.truth >= part * t
            proofs = np.zeros(len(heavy), np.bool_)
            proofs[Evidence(e, "significance" if part == 1.0 else part * t).decided] = True
            for label, members in zip(
                LISTS, (e.shares >= part * t, power >= part * t, moments >= part * t, proofs), strict=True
            ):
                hits = float((members & heavy).sum())
                self.hits.setdefault((label, part), []).append(
                    (hits / max(int(members.sum()), 1) if members.any() else 1.0, hits / int(heavy.sum()))
                )

    def error(self, label: str) -> Figure:
        return Figure.of(self.errors[label])

    def gain(self, label: str, *, over_zero: bool) -> Figure:
        """Return the paper's relative improvement over OUE-Zero, relative to Calibrate's error or to Zero's."""
        zero, own = np.array(self.errors["OUE-Zero"]), np.array(self.errors[label])
        return Figure.of((zero - own) / (zero if over_zero else own))

    def scores(self, label: str, part: float) -> tuple[Figure, Figure, Figure]:
        pairs = np.array(self.hits[label, part])
        f1 = 2.0 * pairs[:, 0] * pairs[:, 1] / np.maximum(pairs.sum(axis=1), 1e-12)
        return Figure.of(pairs[:, 0]), Figure.of(pairs[:, 1]), Figure.of(f1)


def run(track: Track, folder: Path) -> Section:
    section = Section(TEXT)
    counts = populations.retail(folder)
    if counts is None:
        section.omissions.append("all of this study, because Retail is missing")
        return section
    cells = [Cell(counts, "oue", epsilon, priors=PRIORS) for epsilon in EPSILONS]
    others = {
        (name, epsilon): Cell(counts, name, epsilon, priors=[("power_law", "ml")])
        for name, epsilon in product(OTHERS, (1.0, 2.0, 4.0))
    }
    for cell in track([c for c, _ in product((*cells, *others.values()), range(RUNS))], description="calibrate"):
        cell.run()
    section.tables += [errors(cells), gains(cells), lists(cells), parts(cells[3]), of_others(others), noise(cells)]
    section.plots.append(plot(cells))
    section.claims += claims(cells, others)
    return section


def _of(cells: list[Cell]) -> list[str]:
    return [f"epsilon {cell.oracle.epsilon:g}" for cell in cells]


def errors(cells: list[Cell]) -> Table:
    labels = ["OUE", "OUE-Zero", *(name_of(*how) for how in PRIORS), "cut below T", "calibrate_norm_sub", "norm_sub"]
    names = {"cut below T": "power law, ml, then 0 below T"}
    rows = [
        [names.get(label, label), *(str(cell.error(label).times(cell.sigma**-2)) for cell in cells)] for label in labels
    ]
    rows.append(["sigma^2", *(f"{cell.sigma**2:.3g}" for cell in cells)])
    note = "MSE relative to sigma^2, the MSE of an unbiased share at zero. Calibrate's rows are named by prior and fit."
    return Table("Error by family and fit", note, ["", *_of(cells)], rows)


def gains(cells: list[Cell]) -> Table:
    rows = []
    for label in ("power law, ml", "power law, mv", "calibrate_norm_sub"):
        for over_zero in (False, True):
            how = "(Zero - Calibrate)/Zero" if over_zero else "(Zero - Calibrate)/Calibrate"
            rows.append([label, how, *(f"{cell.gain(label, over_zero=over_zero).times(100)}" for cell in cells)])
    note = "Percent of the MSE, mean of the runs' ratios. The paper's 2.4% and 65% use the first definition."
    return Table("Relative improvement over OUE-Zero", note, ["", "definition", *_of(cells)], rows)


def _scores(cell: Cell, part: float) -> list[list[str]]:
    return [[label, *map(str, cell.scores(label, part))] for label in LISTS]


def lists(cells: list[Cell]) -> Table:
    rows = [[f"{cell.oracle.epsilon:g}", *row] for cell in cells for row in _scores(cell, 1.0)]
    note = (
        "A value is heavy if its true share is at least T, and listed if its share by the method is at least T."
        " OUE-Zero lists the same values as OUE. An empty list has precision 1. `decided` is this library's own list,"
        " by exact tails and Holm's procedure at 5%. It proves that the share is above 0, and not that it is above T."
    )
    return Table("Heavy hitters at T", note, ["epsilon", "list", "precision", "recall", "F1"], rows)


def parts(cell: Cell) -> Table:
    rows = [[f"{part:g} T", *row] for part in PARTS for row in _scores(cell, part)]
    note = (
        "The same lists at other thresholds, epsilon 4. There `decided` proves a share above the threshold, except"
        " at T."
    )
    return Table("Heavy hitters at parts of T", note, ["threshold", "list", "precision", "recall", "F1"], rows)


def of_others(others: dict[tuple[str, float], Cell]) -> Table:
    labels = ["OUE", "OUE-Zero", "power law, ml", "calibrate_norm_sub", "norm_sub"]
    names = {"OUE": "unbiased", "OUE-Zero": "zero"}
    rows = [
        [name, f"{epsilon:g}", f"{cell.sigma**2:.3g}", *(str(cell.error(x).times(cell.sigma**-2)) for x in labels)]
        for (name, epsilon), cell in others.items()
    ]
    head = ["oracle", "epsilon", "sigma^2", *(names.get(label, label) for label in labels)]
    return Table("Calibrate on other oracles", "MSE relative to sigma^2.", head, rows)


def noise(cells: list[Cell]) -> Table:
    rows = [[f"{c.oracle.epsilon:g}", str(Figure.of(c.spread)), f"{c.sigma * c.counts.sum():.0f}"] for c in cells]
    note = "Deviation of (estimated - true) over the values rarer than sigma, relative to sigma, and sigma in counts."
    return Table("Noise against the stated sigma", note, ["epsilon", "deviation / sigma", "sigma in counts"], rows)


def plot(cells: list[Cell]) -> Plot:
    x = [cell.oracle.epsilon for cell in cells]
    labels = [
        "OUE-Zero",
        "power law, ml",
        "power law, mv",
        "gaussian, ml",
        "laplace, ml",
        "calibrate_norm_sub",
        "norm_sub",
    ]

    def line(label: str) -> Line:
        figures = [cell.error(label).times(cell.sigma**-2) for cell in cells]
        return Line(label, x, [f.mean for f in figures], [f.stderr for f in figures])

    def score(label: str) -> Line:
        figures = [cell.scores(label, 1.0)[2] for cell in cells]
        return Line(label.strip("`"), x, [f.mean for f in figures], [f.stderr for f in figures])

    return Plot(
        "calibrate",
        "Retail, OUE: errors of Calibrate by prior and of OUE-Zero, and F1 of heavy hitters at T, with 40 runs per"
        " point.",
        [
            Panel("error over epsilon", "epsilon", "MSE / sigma^2", [line(label) for label in labels], "y"),
            Panel("heavy hitters", "epsilon", "F1", [score(label) for label in LISTS]),
        ],
    )


def claims(cells: list[Cell], others: dict[tuple[str, float], Cell]) -> list[Claim]:
    paper, everyone = "Jia and Gong", [*cells, *others.values()]
    first, last = (cells[i].gain("power law, ml", over_zero=False).times(100) for i in (0, -1))
    of_zero = [cells[i].gain("power law, ml", over_zero=True).times(100) for i in (0, -1)]
    worse = [c for c in everyone if c.error("power law, ml").mean >= c.error("OUE-Zero").mean]
    best = [min((name_of(*how) for how in PRIORS), key=lambda x: cell.error(x).mean) for cell in cells]
    f1 = [[cell.scores(label, 1.0)[2].mean for label in ("Calibrate", "OUE")] for cell in cells]
    better = sum(ours >= plain for ours, plain in f1)
    cut_ratios = [cell.error("cut below T").mean / cell.error("power law, ml").mean for cell in cells]
    s = float(oracle("oue", epsilon=1.0, size=2).noise(KOSARAK).sigma * KOSARAK)
    return [
        Claim(
            paper,
            "the error is better than OUE-Zero's by 2.4% at epsilon 1 and by 65% at epsilon 5",
            f"epsilon 1: {_near(first, 2.4)}; epsilon 5: {_near(last, 65.0)}",
            f"{first}% and {last}% by their definition, (Zero - Calibrate)/Calibrate; relative to Zero's error"
            f" {of_zero[0]}% and {of_zero[1]}%",
        ),
        Claim(
            paper,
            "Calibrate has a smaller error than OUE-Zero, and improves other oracles too",
            "yes" if not worse else f"in {len(everyone) - len(worse)} of {len(everyone)} cells",
            "not better: " + "; ".join(_cell(c) for c in worse) if worse else "OUE, GRR, SUE, OLH",
        ),
        Claim(
            paper,
            "a power law is the best prior for such data",
            "yes" if all(x.startswith("power") for x in best) else "no",
            "smallest error at epsilon 1 to 5: " + "; ".join(best),
        ),
        Claim(
            paper,
            "Calibrate's list of heavy hitters is better",
            "yes" if better == len(cells) else f"at {better} of {len(cells)} epsilons",
            "F1 at T, with and without Calibrate: " + "; ".join(f"{ours:.3f}, {plain:.3f}" for ours, plain in f1),
        ),
        Claim(
            paper,
            "the noise on Kosarak has variance 5434 (epsilon 1)",
            "no, 5434 is the standard deviation",
            f"n sigma = {s:.0f} for its {KOSARAK:,} clicks",
        ),
        Claim(
            "(a question)",
            "it helps to set Calibrate's shares below T to 0",
            "no" if min(cut_ratios) > 0.97 else f"at {sum(c < 0.97 for c in cut_ratios)} of {len(cut_ratios)} epsilons",
            "error relative to Calibrate's, epsilon 1 to 5: " + ", ".join(f"{c:.2f}" for c in cut_ratios),
        ),
    ]


def _cell(cell: Cell) -> str:
    ratio = cell.error("power law, ml").mean / cell.error("OUE-Zero").mean
    return f"{cell.oracle.name} at {cell.oracle.epsilon:g} ({ratio:.2f} times Zero's error)"


def _near(figure: Figure, number: float) -> str:
    return "yes" if abs(figure.mean - number) < 3.0 * figure.stderr else f"{figure.mean:.1f}%"
