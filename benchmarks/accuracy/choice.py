"""The study of the best method by task and data, and of `recommend` and `rejected`."""

from collections import Counter
from itertools import product
from pathlib import Path

import numpy as np

from benchmarks import recommend as shapes
from benchmarks.accuracy import draw, populations
from benchmarks.accuracy.study import Claim, Figure, Line, Panel, Plot, Section, Table, Track, seeded
from oracles import oracle
from oracles.calibrate import calibrate
from oracles.consistency import METHODS
from oracles.consistency.method import TASKS
from oracles.risk import recommend
from oracles.types import Ints

RUNS = 12
EPSILONS = (0.5, 1.0, 2.0, 4.0)
OURS = "calibrate_norm_sub"
CHOICES = ("base", "norm", "base_cut", "norm_sub", "norm_hyb", "calibrate", OURS)

TEXT = f"""All {len(METHODS)} methods on three tasks: *single*, the MSE of all values; *top*, the MSE of the
{shapes.TOP} most frequent values; *sets*, the squared error of sums over {shapes.SETS} random halves of the
domain. There are {RUNS} windows per cell. The data are Zipf 1.5, a Beta law, uniform, two spikes, geometric
(1,024 values, a million people) and Retail with `oue`; Zipf 1.5 with `olh`; 32 values, Zipf 1.1, 100,000 people
with `grr`. *Regret* is the relative difference of an error from that of the best method in the cell. *Near*
means a regret of at most 10%."""


class Cell:
    """A data set and epsilon, with every method's loss in each task and the recommendation for each window."""

    def __init__(self, data: str, counts: Ints, name: str, epsilon: float) -> None:
        self.data, self.epsilon, self.name, self.counts = data, epsilon, name, counts
        self.losses: dict[str, dict[str, list[float]]] = {task: {m: [] for m in METHODS} for task in TASKS}
        self.picks: dict[str, list[str | None]] = {task: [] for task in TASKS}
        self.rejections = 0

    def run(self) -> None:
        o = oracle(self.name, epsilon=self.epsilon, size=len(self.counts))
        rng = seeded("choice", self.data, self.epsilon)
        truth = self.counts / self.counts.sum()
        halves = np.argsort(rng.random((shapes.SETS, len(truth))), axis=1) < len(truth) // 2
        for _ in range(RUNS):
            e = draw.estimate(o, self.counts, rng)
            posterior = calibrate(e)
            self.rejections += posterior.rejected
            for task in TASKS:
                self.picks[task].append(shapes.first(recommend(e, task, top=shapes.TOP, calibrated=posterior)))
                for method, losses in self.losses[task].items():
                    losses.append(shapes.loss(method, e, truth, task, halves, posterior))

    def loss(self, task: str, method: str) -> float:
        return float(np.mean(self.losses[task][method]))

    def regrets(self, task: str) -> list[float]:
        """Return the regrets of the windows that have a recommended method."""
        return [self.regret(task, pick) for pick in self.picks[task] if pick]

    def best(self, task: str) -> str:
        return min(METHODS, key=lambda method: self.loss(task, method))

    def best_other(self, task: str) -> str:
        return min((m for m in METHODS if m != OURS), key=lambda method: self.loss(task, method))

    def regret(self, task: str, method: str) -> float:
        return self.loss(task, method) / self.loss(task, self.best(task)) - 1.0

    def ratio(self, task: str, method: str, other: str) -> Figure:
        """Return the ratio of the mean losses. Its error is the error of the runs' differences."""
        own, yardstick = (np.array(self.losses[task][name]) for name in (method, other))
        ratio = float(own.mean() / yardstick.mean())
        return Figure(ratio, Figure.of(own - ratio * yardstick).stderr / float(yardstick.mean()))


def run(track: Track, folder: Path) -> Section:
    section = Section(TEXT)
    data = {name: (counts, "oue") for name, counts in shapes.generated().items()}
    data["zipf, olh"] = (data["zipf"][0], "olh")
    data["32 values, grr"] = (populations.zipf(32, 100_000, 1.1), "grr")
    retail = populations.items(folder, "retail")
    if retail is None:
        section.omissions.append("Retail")
    else:
        data["retail"] = (retail, "oue")
    cells = [Cell(name, *source, epsilon) for (name, source), epsilon in product(data.items(), EPSILONS)]
    for cell in track(cells, description="choice"):
        cell.run()
    section.tables += [_best(cells), _constant(cells), _recommended(cells), _rejected(cells)]
    section.plots.append(_plot(cells))
    section.claims += _claims(cells)
    return section


def _best(cells: list[Cell]) -> Table:
    rows = [
        [
            cell.data,
            f"{cell.epsilon:g}",
            *(
                text
                for task in TASKS
                for text in (f"`{cell.best(task)}`", str(cell.ratio(task, OURS, cell.best(task))))
            ),
        ]
        for cell in cells
    ]
    head = ["data", "epsilon", *(text for task in TASKS for text in (f"{task}: best", "PowerNS / best"))]
    return Table("The best method", f"PowerNS is `{OURS}`. The ratios are ratios of mean errors.", head, rows)


def _constant(cells: list[Cell]) -> Table:
    """Return the table of the regrets of always choosing one method."""
    rows = []
    for task in TASKS:
        for method in CHOICES:
            regrets = [cell.regret(task, method) for cell in cells]
            won = sum(cell.best(task) == method for cell in cells)
            near = float(np.mean(np.array(regrets) <= shapes.NEAR))
            spread = f"{np.median(regrets):.2f}", f"{max(regrets):.3g}"
            rows.append([task, f"`{method}`", f"{won} of {len(cells)}", f"{near:.0%}", *spread])
    note = (
        "One method for all cells: the cells in which it is best, the cells in which it is near, and its median and"
        " largest regret."
    )
    return Table("Always the same method", note, ["task", "method", "best", "near", "median regret", "largest"], rows)


def _recommended(cells: list[Cell]) -> Table:
    rows = []
    for task in TASKS:
        regrets = [regret for cell in cells for regret in cell.regrets(task)]
        same = {m: [cell.regret(task, m) for cell in cells] for m in METHODS}
        constant = max(same, key=lambda m: (np.mean(np.array(same[m]) <= shapes.NEAR), -np.mean(same[m])))
        worst = max(cells, key=lambda cell: np.mean(cell.regrets(task) or [0.0]))
        choices = ", ".join(f"{m or 'none'} {k}" for m, k in Counter(worst.picks[task]).most_common(3))
        rows.append([
            task,
            f"{len(regrets) / (len(cells) * RUNS):.1%}",
            str(Figure.rate(int(np.sum(np.array(regrets) <= shapes.NEAR)), len(regrets)).times(100)) + "%",
            str(Figure.of(regrets)),
            f"`{constant}`: {np.mean(np.array(same[constant]) <= shapes.NEAR):.0%}, {np.mean(same[constant]):.2f}",
            f"{worst.data}, epsilon {worst.epsilon:g}: takes {choices}, best is {worst.best(task)}",
        ])  # fmt: skip
    head = ["task", "chooses in", "near", "mean regret", "the best constant choice: near, mean regret", "worst cell"]
    return Table(
        "`recommend` against the truth",
        f"{len(cells) * RUNS} windows per task. The errors are those of windows with a choice.",
        head,
        rows,
    )


def _rejected(cells: list[Cell]) -> Table:
    rows = []
    for cell in cells:
        ratio = cell.ratio("single", "calibrate", "norm_sub")
        should = ratio.mean > 1.0
        right = cell.rejections if should else RUNS - cell.rejections
        rows.append([cell.data, f"{cell.epsilon:g}", str(ratio), f"{cell.rejections} of {RUNS}", f"{right} of {RUNS}"])
    note = "Calibrate's true error relative to `norm_sub`'s, the number of rejected priors, and of right decisions."
    head = ["data", "epsilon", "calibrate / norm_sub", "rejected", "right"]
    return Table("`rejected` against the truth", note, head, rows)


def _plot(cells: list[Cell]) -> Plot:
    def panel(task: str) -> Panel:
        names = list(dict.fromkeys(cell.data for cell in cells))
        lines = []
        for name in names:
            own = [cell for cell in cells if cell.data == name]
            figures = [cell.ratio(task, OURS, cell.best_other(task)) for cell in own]
            lines.append(
                Line(name, [cell.epsilon for cell in own], [f.mean for f in figures], [f.stderr for f in figures])
            )
        return Panel(task, "epsilon", "PowerNS / best other", lines, "xy", level=1.0)

    caption = "Error of PowerNS (calibrate_norm_sub) relative to the best other method. Below 1 PowerNS is the best."
    return Plot("choice", caption, [panel(task) for task in TASKS])


def _why(cells: list[Cell]) -> Claim:
    """Return the claim that the prior is rejected if PowerNS is not near the best for single values or sets."""
    groups: dict[bool, list[Cell]] = {True: [], False: []}
    for cell in cells:
        groups[max(cell.regret(task, OURS) for task in ("single", "sets")) <= shapes.NEAR].append(cell)
    parts = {near: sum(cell.rejections for cell in own) / max(RUNS * len(own), 1) for near, own in groups.items()}
    result = (
        f"rejected in {parts[False]:.0%} of these windows, and in {parts[True]:.0%} of the windows of the"
        f" {len(groups[True])} other cells"
    )
    claim = "if it is not near for single values or sets, the prior does not fit, and `rejected` is set"
    return Claim("(a question)", claim, "mostly" if parts[False] > 0.5 else "no", result)


def _claims(cells: list[Cell]) -> list[Claim]:
    claims = []
    for task in TASKS:
        wins = [cell.best(task) == OURS for cell in cells]
        near = [cell.regret(task, OURS) <= shapes.NEAR for cell in cells]
        far = [cell for cell, close in zip(cells, near, strict=True) if not close]
        not_near = "; ".join(
            f"{c.data} {c.epsilon:g} ({c.regret(task, OURS) + 1:.2f} times {c.best(task)})" for c in far
        )
        verdict = "yes" if all(near) else "no" if sum(near) < len(near) / 2 else "mostly"
        result = f"best in {sum(wins)}, near in {sum(near)} of {len(cells)} cells" + f"; not near: {not_near}" * bool(
            far
        )
        claims.append(Claim("(a rule of thumb)", f"calibrate_norm_sub is the best choice for {task}", verdict, result))
    claims.append(_why(cells))
    regrets = {task: [regret for cell in cells for regret in cell.regrets(task)] for task in TASKS}
    near = {task: float(np.mean(np.array(r) <= shapes.NEAR)) for task, r in regrets.items()}
    claims.append(
        Claim(
            "hubbub", "`recommend` chooses a method within 10% of the best", "mostly",
            ", ".join(f"{task} {part:.1%}" for task, part in near.items())
            + f"; for top it makes no choice in {1 - len(regrets['top']) / (len(cells) * RUNS):.1%}",
        )
    )  # fmt: skip
    clear = [(c, c.ratio("single", "calibrate", "norm_sub")) for c in cells]
    clear = [(c.rejections / RUNS, r.mean) for c, r in clear if abs(r.mean - 1.0) > 3.0 * r.stderr]
    right = [part if ratio > 1.0 else 1.0 - part for part, ratio in clear]
    claims.append(
        Claim(
            "hubbub", "`rejected` is set if norm_sub has the smaller error", f"in {np.mean(right):.1%} of windows",
            f"{len(right)} cells in which one method is clearly better",
        )
    )  # fmt: skip
    return claims
