"""Calibrate's study: Jia and Gong's measurements, on Retail."""

from pathlib import Path

import numpy as np

from benchmarks.accuracy import draw, populations
from benchmarks.accuracy.study import Claim, Figure, Line, Panel, Plot, Section, Table, Track, mse, seeded
from oracles import Estimate, oracle
from oracles.calibrate import FAMILIES, FITS, calibrate
from oracles.consistency import apply
from oracles.heavy import Evidence
from oracles.kernels.simplex import project
from oracles.types import Floats, Ints

RUNS = 40
EPSILONS = (1.0, 2.0, 3.0, 4.0, 5.0)
FITTED = [(family, fit) for family in FAMILIES for fit in FITS]
LISTS = ("OUE", "Calibrate", "Calibrate, mean and variance", "`decided`")
PARTS = (0.25, 0.5, 1.0, 2.0)
OTHERS = ("grr", "sue", "olh")
KOSARAK = 8_019_015
"""Clicks in the paper's other data set: all that its noise depends on."""

TEXT = """Jia and Gong 2019: the shares of OUE, those of *OUE-Zero* (below the significance threshold T they become
0; T = Phi^-1(1 - 0.05/d) sigma) and Calibrate's posterior means, with each family of priors, fitted by maximum
likelihood (ml) and by mean and variance (mv). 40 runs a cell. Kosarak, their other data set, is not at hand."""


def name_of(family: str, fit: str) -> str:
    return f"{family.replace('_', ' ')}, {'ml' if fit == 'ml' else 'mv'}"


class Cell:
    """An oracle and epsilon: errors of everything, and lists by everyone, run by run."""

    def __init__(self, counts: Ints, name: str, epsilon: float, *, fitted: list[tuple[str, str]]) -> None:
        self.counts, self.truth = counts, counts / counts.sum()
        self.oracle = oracle(name, epsilon=epsilon, size=len(counts))
        self.fitted = fitted
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
        said: dict[str, Floats] = {}
        for family, fit in self.fitted:
            said[name_of(family, fit)] = shares = calibrate(e, family, fit).shares
            self._err(name_of(family, fit), shares)
        power = said["power law, ml"]
        t = e.noise.significance(len(self.counts), 0.05)
        self._err("cut below T", np.where(power >= t, power, 0.0))
        self._err("calibrate_norm_sub", project(power))
        self._err("norm_sub", apply("norm_sub", e))
        if len(self.fitted) > 1:
            self._lists(e, power, said["power law, mv"], t)

    def _lists(self, e: Estimate, power: Floats, moments: Floats, t: float) -> None:
        for part in PARTS:
            heavy = self.truth >= part * t
            proved = np.zeros(len(heavy), np.bool_)
            proved[Evidence(e, "significance" if part == 1.0 else part * t).decided] = True
            for label, listed in zip(
                LISTS, (e.shares >= part * t, power >= part * t, moments >= part * t, proved), strict=True
            ):
                right = float((listed & heavy).sum())
                self.hits.setdefault((label, part), []).append(
                    (right / max(int(listed.sum()), 1) if listed.any() else 1.0, right / int(heavy.sum()))
                )

    def error(self, label: str) -> Figure:
        return Figure.of(self.errors[label])

    def gain(self, label: str, *, over_zero: bool) -> Figure:
        """The paper's relative improvement over OUE-Zero: as a part of Calibrate's error, or of Zero's."""
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
        section.skipped.append("all of this study, which needs Retail")
        return section
    cells = [Cell(counts, "oue", epsilon, fitted=FITTED) for epsilon in EPSILONS]
    others = {
        (name, epsilon): Cell(counts, name, epsilon, fitted=[("power_law", "ml")])
        for name in OTHERS
        for epsilon in (1.0, 2.0, 4.0)
    }
    for cell in track([c for c in (*cells, *others.values()) for _ in range(RUNS)], description="calibrate"):
        cell.run()
    section.tables += [errors(cells), gains(cells), lists(cells), parts(cells[3]), of_others(others), noise(cells)]
    section.plots.append(plot(cells))
    section.claims += claims(cells, others)
    return section


def _of(cells: list[Cell]) -> list[str]:
    return [f"epsilon {cell.oracle.epsilon:g}" for cell in cells]


def errors(cells: list[Cell]) -> Table:
    labels = ["OUE", "OUE-Zero", *(name_of(*how) for how in FITTED), "cut below T", "calibrate_norm_sub", "norm_sub"]
    names = {"cut below T": "power law, ml, then 0 below T"}
    rows = [
        [names.get(label, label), *(str(cell.error(label).times(cell.sigma**-2)) for cell in cells)] for label in labels
    ]
    rows.append(["sigma^2", *(f"{cell.sigma**2:.3g}" for cell in cells)])
    note = "MSE as a part of sigma^2, that of an unbiased share at zero; Calibrate's rows are named by prior and fit."
    return Table("Error by family and fit", note, ["", *_of(cells)], rows)


def gains(cells: list[Cell]) -> Table:
    rows = []
    for label in ("power law, ml", "power law, mv", "calibrate_norm_sub"):
        for over_zero in (False, True):
            how = "(Zero - Calibrate)/Zero" if over_zero else "(Zero - Calibrate)/Calibrate"
            rows.append([label, how, *(f"{cell.gain(label, over_zero=over_zero).times(100)}" for cell in cells)])
    note = "Per cent of the MSE, mean of the runs' ratios. The paper's 2.4% and 65% are by the first definition."
    return Table("Relative improvement over OUE-Zero", note, ["", "definition", *_of(cells)], rows)


def _scores(cell: Cell, part: float) -> list[list[str]]:
    return [[label, *map(str, cell.scores(label, part))] for label in LISTS]


def lists(cells: list[Cell]) -> Table:
    rows = [[f"{cell.oracle.epsilon:g}", *row] for cell in cells for row in _scores(cell, 1.0)]
    note = (
        "Heavy: a true share of at least T; listed: a share by the method of at least T (OUE-Zero lists what OUE"
        " lists). An empty list has precision 1. `decided` is this library's own list, exact tails and Holm's"
        " procedure at 5%; it proves that a value is there at all, which is more than 0 and less than T."
    )
    return Table("Heavy hitters at T", note, ["epsilon", "list", "precision", "recall", "F1"], rows)


def parts(cell: Cell) -> Table:
    rows = [[f"{part:g} T", *row] for part in PARTS for row in _scores(cell, part)]
    note = "The same at other thresholds, epsilon 4; but for T itself `decided` proves more than the threshold."
    return Table("Heavy hitters at parts of T", note, ["threshold", "list", "precision", "recall", "F1"], rows)


def of_others(others: dict[tuple[str, float], Cell]) -> Table:
    labels = ["OUE", "OUE-Zero", "power law, ml", "calibrate_norm_sub", "norm_sub"]
    names = {"OUE": "unbiased", "OUE-Zero": "zero"}
    rows = [
        [name, f"{epsilon:g}", f"{cell.sigma**2:.3g}", *(str(cell.error(x).times(cell.sigma**-2)) for x in labels)]
        for (name, epsilon), cell in others.items()
    ]
    head = ["oracle", "epsilon", "sigma^2", *(names.get(label, label) for label in labels)]
    return Table("Calibrate on other oracles", "MSE as a part of sigma^2.", head, rows)


def noise(cells: list[Cell]) -> Table:
    rows = [[f"{c.oracle.epsilon:g}", str(Figure.of(c.spread)), f"{c.sigma * c.counts.sum():.0f}"] for c in cells]
    note = "Deviation of (estimated - true) over the values rarer than sigma, as a part of sigma; and sigma in counts."
    return Table("Noise against the stated sigma", note, ["epsilon", "deviation / sigma", "sigma in counts"], rows)


def plot(cells: list[Cell]) -> Plot:
    x = [cell.oracle.epsilon for cell in cells]
    shown = [
        "OUE-Zero",
        "power law, ml",
        "power law, mv",
        "gaussian, ml",
        "laplace, ml",
        "calibrate_norm_sub",
        "norm_sub",
    ]

    def line(label: str) -> Line:
        found = [cell.error(label).times(cell.sigma**-2) for cell in cells]
        return Line(label, x, [f.mean for f in found], [f.stderr for f in found])

    def score(label: str) -> Line:
        found = [cell.scores(label, 1.0)[2] for cell in cells]
        return Line(label.strip("`"), x, [f.mean for f in found], [f.stderr for f in found])

    return Plot(
        "calibrate",
        "Retail, OUE: errors of Calibrate by prior beside OUE-Zero, and F1 of heavy hitters at T; 40 runs a point.",
        [
            Panel("error over epsilon", "epsilon", "MSE / sigma^2", [line(label) for label in shown], "y"),
            Panel("heavy hitters", "epsilon", "F1", [score(label) for label in LISTS]),
        ],
    )


def claims(cells: list[Cell], others: dict[tuple[str, float], Cell]) -> list[Claim]:
    who, everyone = "Jia and Gong", [*cells, *others.values()]
    first, last = (cells[i].gain("power law, ml", over_zero=False).times(100) for i in (0, -1))
    of_zero = [cells[i].gain("power law, ml", over_zero=True).times(100) for i in (0, -1)]
    worse = [c for c in everyone if c.error("power law, ml").mean >= c.error("OUE-Zero").mean]
    best = [min((name_of(*how) for how in FITTED), key=lambda x: cell.error(x).mean) for cell in cells]
    f1 = [[cell.scores(label, 1.0)[2].mean for label in ("Calibrate", "OUE")] for cell in cells]
    better = sum(ours >= plain for ours, plain in f1)
    cut = [cell.error("cut below T").mean / cell.error("power law, ml").mean for cell in cells]
    s = float(oracle("oue", epsilon=1.0, size=2).noise(KOSARAK).sigma * KOSARAK)
    return [
        Claim(
            who,
            "against OUE-Zero the error improves by 2.4% at epsilon 1 and 65% at epsilon 5",
            f"epsilon 1: {_near(first, 2.4)}; epsilon 5: {_near(last, 65.0)}",
            f"{first}% and {last}% by their definition, (Zero - Calibrate)/Calibrate; as a part of Zero's error"
            f" {of_zero[0]}% and {of_zero[1]}%",
        ),
        Claim(
            who,
            "Calibrate errs less than OUE-Zero, and improves other oracles too",
            "yes" if not worse else f"in {len(everyone) - len(worse)} of {len(everyone)} cells",
            "not better: " + "; ".join(_cell(c) for c in worse) if worse else "OUE, GRR, SUE, OLH",
        ),
        Claim(
            who,
            "a power law is the prior to take on such data",
            "yes" if all(x.startswith("power") for x in best) else "no",
            "least error at epsilon 1 to 5: " + "; ".join(best),
        ),
        Claim(
            who,
            "heavy hitters are found better",
            "yes" if better == len(cells) else f"at {better} of {len(cells)} epsilons",
            "F1 at T, with and without: " + "; ".join(f"{ours:.3f}, {plain:.3f}" for ours, plain in f1),
        ),
        Claim(
            who,
            "the noise on Kosarak has variance 5434 (epsilon 1)",
            "no: that is its deviation",
            f"n sigma = {s:.0f} for its {KOSARAK:,} clicks",
        ),
        Claim(
            "(a question)",
            "it helps to cut Calibrate's shares below T",
            "no" if min(cut) > 0.97 else f"at {sum(c < 0.97 for c in cut)} of {len(cut)} epsilons",
            "times the error, epsilon 1 to 5: " + ", ".join(f"{c:.2f}" for c in cut),
        ),
    ]


def _cell(cell: Cell) -> str:
    ratio = cell.error("power law, ml").mean / cell.error("OUE-Zero").mean
    return f"{cell.oracle.name} at {cell.oracle.epsilon:g} ({ratio:.2f} times Zero's error)"


def _near(found: Figure, said: float) -> str:
    return "yes" if abs(found.mean - said) < 3.0 * found.stderr else f"{found.mean:.1f}%"
