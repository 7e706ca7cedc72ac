"""The studies of RS+FD and Sarve, with several attributes of one client and every solution."""

import math
from itertools import product
from pathlib import Path

import numpy as np

from benchmarks.accuracy import draw, populations
from benchmarks.accuracy.study import Claim, Figure, Line, Panel, Plot, Section, Table, Track, mse, seeded
from oracles.multi import multi
from oracles.multi.attributes import Multi
from oracles.multi.rsfd import FAKES
from oracles.types import Ints

RUNS = 40
HIGH = {f"ln {k}": math.log(k) for k in range(2, 8)}
LOW = {str(k): float(k) for k in range(2, 8)}
EPSILONS = HIGH | LOW
"""The budgets of RS+FD's study and of Sarve's study."""
COLUMNS = ("ln 2", "ln 4", "ln 7", "4", "7")
RECORD = "smp at rsfd's record epsilon"
OPEN = ("grr", "oue", "adaptive")
SOLUTIONS = {f"{s}, {name}": (s, name) for s, name in product(("spl", "smp"), OPEN)}
SOLUTIONS |= {f"rsfd, {name}": ("rsfd", name) for name in (*FAKES, "adaptive")}
SOLUTIONS[RECORD] = ("smp", "adaptive")
ADAPTIVE = ("spl, adaptive", "smp, adaptive", "rsfd, adaptive", RECORD)
VALUES = 10

TEXT = f"""Arcolezi et al. 2021 and Sarve (2022). All attributes of a client share one epsilon. Averaged MSE is
the mean over attributes of the mean over values of (estimated - true)^2, with unbiased estimates and {RUNS}
runs. *Closed form* is the same mean of the stated variances. The synthetic sets have 50,000 and 500,000 people,
and 5, 10 and 20 attributes of {VALUES} values, uniform or Zipf (exponent 1.5). Sarve calls `sue_z` RAPPOR.
RS+FD protects a whole record with epsilon' = ln(d (e^epsilon - 1) + 1), and not with epsilon. The last row is
smp with *that* epsilon'."""


def data(folder: Path) -> tuple[dict[str, list[Ints]], list[str]]:
    sets, missing = {}, []
    for name in ("adult", "nursery", "ms-fimu"):
        columns = populations.marginals(folder, name)
        if columns is None:
            missing.append(f"{name}, because its file is missing")
        else:
            sets[name] = columns
    for people in (50_000, 500_000):
        for d in (5, 10, 20):
            for shape, exponent in (("uniform", 0.0), ("skewed", 1.5)):
                sets[f"{shape}, {people // 1000}k, {d}"] = [populations.zipf(VALUES, people, exponent)] * d
    return sets, missing


def solution_of(label: str, sizes: list[int], epsilon: float) -> Multi:
    solution, name = SOLUTIONS[label]
    if label == RECORD:
        epsilon = multi("rsfd", sizes=sizes, epsilon=epsilon).record_epsilon
    return multi(solution, sizes=sizes, epsilon=epsilon, oracle=name)


def closed_form(m: Multi, columns: list[Ints]) -> float:
    """Return the mean of the stated variances. For smp it uses the mean number of answers."""
    variances = []
    for view, counts in zip(m.attributes, columns, strict=True):
        n, f = int(counts.sum()), counts / counts.sum()
        answering = n / len(columns) if m.solution == "smp" else n
        sampling = (1.0 / answering - 1.0 / n) * f * (1.0 - f) if m.solution == "smp" else 0.0
        variances.append(float(np.mean(view.variance(1, 0.0) / answering + view.noise(1).b * f / answering + sampling)))
    return float(np.mean(variances))


Cells = dict[tuple[str, str, str], tuple[Figure, float]]
"""Averaged MSE and its closed form, by data set, solution and epsilon."""


def cell(columns: list[Ints], name: str, label: str, epsilon: str) -> tuple[Figure, float]:
    m = solution_of(label, [len(counts) for counts in columns], EPSILONS[epsilon])
    rng = seeded("attributes", name, label, epsilon)
    truth = [counts / counts.sum() for counts in columns]
    errors = []
    for _ in range(RUNS):
        estimates = draw.estimates(m, columns, rng)
        errors.append(float(np.mean([mse(e.shares, true) for e, true in zip(estimates, truth, strict=True)])))
    return Figure.of(errors), closed_form(m, columns)


def run(track: Track, folder: Path) -> Section:
    sets, missing = data(folder)
    section = Section(TEXT, omissions=missing)
    keys = [(name, label, epsilon) for name in sets for label in SOLUTIONS for epsilon in EPSILONS]
    cells: Cells = {key: cell(sets[key[0]], *key) for key in track(keys, description="attributes")}
    real = [name for name in sets if "k, " not in name]
    section.tables += [one(name, cells) for name in real or ["skewed, 50k, 10"]]
    section.tables += [ratios(sets, cells), by_oracle(sets, cells), forms(cells)]
    section.plots.append(plot([*real, "skewed, 50k, 20"][:3], cells))
    section.claims += claims(sets, cells)
    return section


def one(name: str, cells: Cells) -> Table:
    scale = 1e4
    rows = [[label, *(str(cells[name, label, e][0].times(scale)) for e in COLUMNS)] for label in SOLUTIONS]
    return Table(f"{name}: averaged MSE", "Unit: 1e-4.", ["", *(f"epsilon {e}" for e in COLUMNS)], rows)


def ratio(cells: Cells, name: str, numerator: str, denominator: str, epsilon: str) -> float:
    return cells[name, numerator, epsilon][0].mean / cells[name, denominator, epsilon][0].mean


def form(cells: Cells, name: str, numerator: str, denominator: str, epsilon: str) -> float:
    """Return the ratio of the closed forms, which have no random error."""
    return cells[name, numerator, epsilon][1] / cells[name, denominator, epsilon][1]


def ratios(sets: dict[str, list[Ints]], cells: Cells) -> Table:
    pairs = {
        "rsfd / spl": ("rsfd, adaptive", "spl, adaptive"),
        "rsfd / smp": ("rsfd, adaptive", "smp, adaptive"),
        "rsfd / smp at the same record epsilon": ("rsfd, adaptive", RECORD),
        "sue_z / best other candidate": ("rsfd, sue_z", ""),
    }

    def of(name: str, numerator: str, denominator: str, e: str) -> float:
        best = min(("rsfd, grr", "rsfd, oue_z", "rsfd, oue_r"), key=lambda x: cells[name, x, e][0].mean)
        return ratio(cells, name, numerator, denominator or best, e)

    epsilons = ("ln 2", "ln 7", "7")
    rows = [[name, *(f"{of(name, *pair, e):.2f}" for pair, e in product(pairs.values(), epsilons))] for name in sets]
    note = "Ratios of averaged MSE with adaptive oracles, at epsilon ln 2, ln 7 and 7. Above 1 the second is better."
    head = ["", *(f"{pair}, {e}" for pair, e in product(pairs, epsilons))]
    return Table("All data sets: solutions against each other", note, head, rows)


def by_oracle(sets: dict[str, list[Ints]], cells: Cells) -> Table:
    """Return how Sarve's two candidates compare with each other and with both solutions, by closed forms."""
    pairs = {
        "HR / RAPPOR": ("rsfd, grr", "rsfd, sue_z"),
        "HR / spl": ("rsfd, grr", "spl, adaptive"),
        "HR / smp": ("rsfd, grr", "smp, adaptive"),
        "RAPPOR / spl": ("rsfd, sue_z", "spl, adaptive"),
        "RAPPOR / smp": ("rsfd, sue_z", "smp, adaptive"),
    }
    epsilons = ("ln 2", "4", "7")
    rows = [
        [name, *(f"{form(cells, name, *pair, e):.2f}" for pair, e in product(pairs.values(), epsilons))]
        for name in sets
    ]
    note = (
        "Ratios of the closed forms, at epsilon ln 2, 4 and 7. Below 1 the first is better. HR is `rsfd, grr`, and"
        " RAPPOR is `rsfd, sue_z`. Sarve calls smp *Spl*, and spl *Smp*."
    )
    return Table("Sarve's two candidates", note, ["", *(f"{pair}, {e}" for pair, e in product(pairs, epsilons))], rows)


def forms(cells: Cells) -> Table:
    rows = []
    for label in SOLUTIONS:
        pairs = [(figure, expectation) for (_, key, _), (figure, expectation) in cells.items() if key == label]
        differences = [figure.mean / expectation - 1.0 for figure, expectation in pairs]
        z = [(figure.mean - expectation) / figure.stderr for figure, expectation in pairs]
        rows.append([label, str(len(pairs)), f"{Figure.of(differences).times(100)}%", f"{max(map(abs, z)):.1f}"])
    note = (
        "Difference between the measured averaged MSE and the mean of the stated variances, over all data sets and"
        " epsilons. If there are few values, the error of a run is skewed. So large deviations are more common than"
        " under a normal law."
    )
    head = ["", "cells", "mean difference", "largest, in standard errors"]
    return Table("Closed forms", note, head, rows)


def plot(names: list[str], cells: Cells) -> Plot:
    labels = (
        "spl, adaptive",
        "smp, adaptive",
        "rsfd, grr",
        "rsfd, oue_z",
        "rsfd, sue_z",
        "rsfd, adaptive",
        RECORD,
    )
    x = sorted(EPSILONS.values())
    order = sorted(EPSILONS, key=EPSILONS.__getitem__)

    def line(name: str, label: str) -> Line:
        figures = [cells[name, label, e][0] for e in order]
        return Line(label, x, [f.mean for f in figures], [f.stderr for f in figures])

    panels = [Panel(name, "epsilon", "averaged MSE", [line(name, s) for s in labels], "y") for name in names]
    return Plot("attributes", "Averaged MSE by epsilon, solution and data set.", panels)


def claims(sets: dict[str, list[Ints]], cells: Cells) -> list[Claim]:
    grid = list(product(sets, EPSILONS))

    def compare(numerator: str, denominator: str, limit: float, keys: list[tuple[str, str]]) -> tuple[int, list[float]]:
        factors = [ratio(cells, name, numerator, denominator, e) for name, e in keys]
        return sum(r <= limit for r in factors), factors

    high = list(product(sets, HIGH))
    low, spl = compare("rsfd, adaptive", "spl, adaptive", 1.0, grid)
    close_cells, smp = compare("rsfd, adaptive", "smp, adaptive", 1.1, high)
    never, ratios = compare("rsfd, adaptive", RECORD, 1.0, grid)
    labels_of_fakes = ("rsfd, grr", "rsfd, oue_z", "rsfd, oue_r")
    rappor = [(n, e) for n, e in grid if all(form(cells, n, "rsfd, sue_z", x, e) < 1.0 for x in labels_of_fakes)]
    range_of_epsilon = sorted({e for _, e in rappor}, key=EPSILONS.__getitem__)
    best = [min(form(cells, n, "rsfd, adaptive", f"rsfd, {x}", e) for x in FAKES) for n, e in grid]
    worst = [max(form(cells, n, "rsfd, adaptive", f"rsfd, {x}", e) for x in FAKES) for n, e in grid]
    matches = sum(w <= 1.005 for w in worst)
    return [
        Claim(
            "RS+FD", "rsfd has a smaller error than spl", _verdict(low, len(grid)),
            f"in {low} of {len(grid)} cells; {min(spl):.2f} to {max(spl):.2f} times spl's error",
        ),
        Claim(
            "RS+FD",
            "rsfd has nearly the same error as smp, or a smaller one, at the same nominal epsilon (ln 2 to ln 7)",
            _verdict(close_cells, len(high)),
            f"at most 1.1 times smp's in {close_cells} of {len(high)} cells; {min(smp):.2f} to {max(smp):.2f} times",
        ),
        Claim(
            "(a question)", "rsfd has a smaller error than smp with the same protection of a record",
            _verdict(never, len(grid)),
            f"in {never} of {len(grid)} cells; {min(ratios):.2f} to {max(ratios):.1f} times smp's error",
        ),
        Claim(
            "Sarve", "RAPPOR (sue_z) has the better trade-off for some epsilon", "yes" if rappor else "no",
            f"by closed forms the smallest error of the four candidates in {len(rappor)} of {len(grid)} cells"
            + (f", at epsilon {', '.join(range_of_epsilon)}" if range_of_epsilon else ""),
        ),
        Claim(
            "RS+FD, Sarve", "adaptive chooses the best candidate for each attribute", _verdict(matches, len(grid)),
            f"by closed forms at most 0.5% above the best single candidate in {matches} of {len(grid)} cells, at worst"
            f" {max(worst):.3f} times its error, and down to {min(best):.2f} times that of the worst one",
        ),
    ]  # fmt: skip


def _verdict(hits: int, cells: int) -> str:
    return "yes" if hits > 0.95 * cells else "no" if hits < 0.05 * cells else f"in {hits} of {cells} cells"
