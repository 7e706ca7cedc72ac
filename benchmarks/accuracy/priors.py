"""The study of priors: what calibrating costs and brings if the data have a form of their own."""

from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

import numpy as np

from benchmarks.accuracy import draw, populations
from benchmarks.accuracy.study import Claim, Figure, Section, Table, Track, mse, seeded
from oracles import Estimate, oracle
from oracles.calibrate import Calibrated, calibrate
from oracles.consistency import METHODS, apply
from oracles.consistency.fitting import LAWS
from oracles.kernels.simplex import project
from oracles.risk import risk
from oracles.types import Floats, Ints

RUNS = 20
EPSILONS = (0.5, 1.0, 2.0, 4.0)
PEOPLE = (20_000, 1_000_000)
SIZE = 1_024
SURE = 0.9
"""Probability from which a statement counts as a claim."""
FAIR = "fair"
CLOSE = "close"
"""Places of thresholds: in reach of the data, and just above a level of many values."""
FITS = (*LAWS, "free", "best")
GOALS = {
    "equal values": 0.3,
    "48 equal values": 0.3,
    "64 values hold 60%": 0.3,
    "two spikes": 0.9,
    "four levels": 0.9,
    "half of the values hold 70%": 0.9,
    "half of the values are empty": 0.9,
}
"""Largest error of `free` through norm_sub, relative to the best of the methods of before, at epsilon 2 and 4."""

TEXT = f"""`calibrate` knows four families of priors, and `free`, which has none. `best` chooses between `free` and
the power law by likelihood. *Transform* is the paper's own form for an unknown family: a smooth histogram of the noisy
counts, whose Fourier transform is divided by that of the noise. The text that we have names no smoothing, width or
cut-off. Here they are a Gaussian kernel of width 1.06 min(sd, IQR/1.34) d^-1/5, the frequencies at which the noise's
transform exceeds d^-1/2, and 0 for negative densities. Oracle `oue`, {RUNS} windows per cell. "-> sub" means norm_sub
afterwards."""
FAIR_NOTE = (
    f"Claims are values whose probability to exceed a threshold is above {SURE:g}: false ones of all, and how many"
    " false ones their own probabilities expect. Thresholds lie 5% above the highest level of a population, or above"
    " the shares of ranks 20 and 200."
)
CLOSE_NOTE = (
    "The same for thresholds 5% above the other levels. Such a threshold is often nearer to the level than a"
    " tenth of the noise, and no prior is fitted so finely."
)


def shapes() -> dict[str, Floats]:
    """Return the weights of the synthetic populations."""
    rank = np.arange(1.0, SIZE + 1)
    levels = np.repeat([8.0, 4.0, 2.0, 1.0], 64)
    return {
        "Zipf 1.1": rank**-1.1,
        "Zipf 1.5": rank**-1.5,
        "geometric": 0.99**rank,
        "lognormal": seeded("lognormal").lognormal(0.0, 1.0, SIZE),
        "Dirichlet 0.2": seeded("dirichlet").dirichlet(np.full(SIZE, 0.2)),
        "equal values": np.ones(SIZE),
        "48 equal values": np.ones(48),
        "64 values hold 60%": np.where(rank <= 64, 0.6 / 64, 0.4 / (SIZE - 64)),
        "half of the values hold 70%": np.where(rank <= SIZE / 2, 0.7, 0.3),
        "two spikes": np.where(rank <= 2, 0.4, 0.2 / (SIZE - 2)),
        "four levels": levels,
        "half of the values are empty": np.where(rank <= SIZE / 2, 1.0, 0.0),
    }


def transform(e: Estimate) -> Floats:
    """Return posterior means under the density that a division of Fourier transforms gives."""
    x = e.shares
    d = len(x)
    quartiles = np.percentile(x, [25.0, 75.0])
    width = 1.06 * min(float(x.std()), float(quartiles[1] - quartiles[0]) / 1.34) * d**-0.2

    step = e.sigma / 8.0
    low = float(x.min()) - 8.0 * e.sigma
    size = 1 << int(np.ceil(np.log2((float(x.max()) - low) / step + 64.0)))
    grid = low + step * np.arange(size)
    histogram = np.bincount(np.rint((x - low) / step).astype(int), minlength=size) / d

    frequency = 2.0 * np.pi * np.fft.rfftfreq(size, step)
    noise = np.exp(-0.5 * (e.sigma * frequency) ** 2)
    smooth = np.fft.rfft(histogram) * np.exp(-0.5 * (width * frequency) ** 2)
    density = np.fft.irfft(np.where(noise > d**-0.5, smooth / noise, 0.0), size)
    density = np.where(grid >= 0.0, np.maximum(density, 0.0), 0.0)

    total = np.fft.irfft(np.fft.rfft(density) * noise, size)
    mean = np.fft.irfft(np.fft.rfft(density * grid) * noise, size)
    is_seen = total > 1e-12
    return np.interp(x, grid[is_seen], (mean[is_seen] / total[is_seen]).clip(0.0, 1.0))


@dataclass
class Cell:
    """One population, number of people and epsilon, with the errors and claims of its windows."""

    name: str
    counts: Ints
    epsilon: float
    levels: tuple[float, ...] = ()
    """Shares of all values that have people, falling, if these are few shares."""
    errors: dict[str, list[float]] = field(default_factory=dict)
    claims: dict[tuple[str, str], tuple[int, int, float]] = field(default_factory=dict)
    """Claims, false ones, and the number of false ones that the probabilities expect."""
    risks: list[float] = field(default_factory=list)
    """Stated error of `free` in each window."""
    verdicts: list[bool] = field(default_factory=list)
    """Whether `rejected` named the better of `best` and norm_sub."""
    families: list[str] = field(default_factory=list)

    @property
    def truth(self) -> Floats:
        return self.counts / self.counts.sum()

    @property
    def thresholds(self) -> dict[str, list[float]]:
        """Return thresholds 5% above the highest level and above the others, or above ranks 20 and 200."""
        if self.levels:
            # Counts are rounded, so a level is up to one person higher.
            levels = [1.05 * level + 1.0 / float(self.counts.sum()) for level in self.levels]
            return {FAIR: levels[:1], CLOSE: levels[1:]}
        common = np.sort(self.truth)[::-1]
        return {FAIR: [1.05 * float(common[rank - 1]) for rank in (20, 200)], CLOSE: []}

    def run(self, rng: np.random.Generator) -> None:
        o = oracle("oue", epsilon=self.epsilon, size=len(self.counts))
        e = draw.estimate(o, self.counts, rng)
        calibrations = {family: calibrate(e, family) for family in FITS}

        for name in METHODS:
            self._err(name, e, apply(name, e, calibrated=calibrations["power_law"]))
        shares = {family: calibration.shares for family, calibration in calibrations.items()}
        for name, own in {**shares, "transform": transform(e)}.items():
            self._err(name, e, own)
            self._err(f"{name} -> sub", e, project(own))
        for family in ("power_law", "gaussian", "free", "best"):
            self._claim(family, calibrations[family])

        best = calibrations["best"]
        self.families.append(best.prior.family)
        self.risks.append(risk("calibrate", e, calibrated=calibrations["free"]) / e.sigma**2)
        is_worse = self.errors["best"][-1] > self.errors["norm_sub"][-1]
        self.verdicts.append(best.rejected == is_worse)

    def _err(self, label: str, e: Estimate, shares: Floats) -> None:
        self.errors.setdefault(label, []).append(mse(shares, self.truth) / e.sigma**2)

    def _claim(self, family: str, calibration: Calibrated) -> None:
        for place, thresholds in self.thresholds.items():
            count, false, expected = self.claims.get((family, place), (0, 0, 0.0))
            for threshold in thresholds:
                chance = calibration.above(threshold)
                is_claim = chance > SURE
                count += int(is_claim.sum())
                false += int((is_claim & (self.truth <= threshold)).sum())
                expected += float((1.0 - chance[is_claim]).sum())
            self.claims[family, place] = count, false, expected

    def error(self, label: str) -> Figure:
        return Figure.of(self.errors[label])

    @property
    def best_of_before(self) -> float:
        return min(self.error(name).mean for name in METHODS)


def run(track: Track, folder: Path) -> Section:
    section = Section(TEXT)
    cells = []
    for (name, weights), people, epsilon in product(shapes().items(), PEOPLE, EPSILONS):
        levels = np.unique(weights[weights > 0.0])[::-1] / weights.sum()
        few = tuple(levels.tolist()) if len(levels) <= 4 else ()
        cells.append(Cell(name, populations.rounded(weights, people), epsilon, few))
    for file, name in populations.ITEMS.items():
        items = populations.items(folder, file)
        if items is None:
            section.omissions.append(f"{name}, because its file is missing")
        else:
            cells += [Cell(name, items, epsilon) for epsilon in EPSILONS]

    work = [(cell, number) for cell in cells for number in range(RUNS)]
    for cell, number in track(work, description="priors"):
        cell.run(seeded("priors", cell.name, int(cell.counts.sum()), cell.epsilon, number))
    section.tables += [errors(cells), relative(cells)]
    section.tables.append(probabilities(cells, FAIR, "Probabilities", FAIR_NOTE))
    section.tables.append(probabilities(cells, CLOSE, "Probabilities just above a level", CLOSE_NOTE))
    section.tables.append(stated(cells))
    section.claims += claims(cells)
    return section


def _label(cell: Cell) -> list[str]:
    return [cell.name, f"{int(cell.counts.sum()):,}", f"{cell.epsilon:g}"]


def errors(cells: list[Cell]) -> Table:
    labels = ["norm_sub", "base_cut", *FITS[:-2], "transform", "free", "best"]
    rows = []
    for cell in cells:
        numbers = [f"{cell.error(label).mean:.3g}" for label in labels[:2]]
        numbers += [f"{cell.error(label).mean:.3g} / {cell.error(f'{label} -> sub').mean:.3g}" for label in labels[2:]]
        rows.append([*_label(cell), *numbers])
    note = "MSE / sigma^2. Priors have two numbers: as they are, and through norm_sub."
    return Table("Error of each prior", note, ["population", "n", "epsilon", *labels], rows)


def relative(cells: list[Cell]) -> Table:
    rows = []
    for cell in cells:
        if cell.epsilon >= 2.0 and cell.counts.sum() >= max(PEOPLE) and cell.name in GOALS:
            ratio = cell.error("free -> sub").mean / cell.best_of_before
            rows.append([cell.name, f"{cell.epsilon:g}", f"{ratio:.2f}", f"{GOALS[cell.name]:g}"])
    note = "Error of `free` through norm_sub, relative to the best of the other 13 methods. The goal is an upper bound."
    return Table("Where no family fits", note, ["population", "epsilon", "ratio", "goal"], rows)


def _sums(cells: list[Cell], family: str, place: str) -> tuple[int, int, float]:
    counts = [cell.claims[family, place] for cell in cells]
    return sum(c for c, _, _ in counts), sum(f for _, f, _ in counts), sum(e for _, _, e in counts)


def probabilities(cells: list[Cell], place: str, title: str, note: str) -> Table:
    families = ("power_law", "gaussian", "free", "best")
    rows = []
    for name in dict.fromkeys(cell.name for cell in cells):
        own = [cell for cell in cells if cell.name == name]
        if own[0].thresholds[place]:
            rows.append([name, *(_of(*_sums(own, family, place)) for family in families)])
    rows.append(["all", *(_of(*_sums(cells, family, place)) for family in families)])
    return Table(title, note, ["population", *families], rows)


def _of(count: int, false: int, expected: float) -> str:
    return f"{false:,} of {count:,} ({expected:.1f})"


def stated(cells: list[Cell]) -> Table:
    rows = []
    for cell in cells:
        true = cell.error("free")
        right = Figure.rate(sum(cell.verdicts), len(cell.verdicts))
        best = sum(family == "free" for family in cell.families)
        row = [str(true), str(Figure.of(cell.risks)), f"{best} of {RUNS}", f"{right.mean:.0%}"]
        rows.append([*_label(cell), *row])
    note = (
        "The error of `free` and the error that Stein's formula states, both relative to sigma^2; how often `best` took"
        " `free`; and in how many windows `rejected` named the better of `best` and norm_sub."
    )
    head = ["population", "n", "epsilon", "error", "stated error", "free taken", "rejected is right"]
    return Table("The stated error, and the rejection", note, head, rows)


def claims(cells: list[Cell]) -> list[Claim]:
    def ratio(cell: Cell, label: str) -> float:
        return cell.error(label).mean / min(cell.error(f"{name} -> sub").mean for name in ("free", "power_law"))

    wider = [cell for cell in cells if ratio(cell, "best -> sub") > 1.1]
    families = [cell for cell in cells if min(cell.error(name).mean for name in LAWS) < cell.error("free").mean]
    count, false, expected = _sums(cells, "best", FAIR)
    verdicts = [verdict for cell in cells for verdict in cell.verdicts]
    return [
        Claim(
            "Jia and Gong",
            "a known family errs substantially less than an unknown one",
            f"in {len(families)} of {len(cells)} cells",
            "a family has a smaller error than `free` there",
        ),
        Claim(
            "(a question)",
            "`best` is within 10% of the better of `free` and the power law",
            "yes" if not wider else f"in {len(cells) - len(wider)} of {len(cells)} cells",
            "worst ratio through norm_sub " + f"{max(ratio(cell, 'best -> sub') for cell in cells):.2f}",
        ),
        Claim(
            "(a question)",
            "at most 3% of the claims of `best` above 0.9 are false",
            "yes" if false <= 0.03 * count else f"no, {false / count:.1%}",
            _of(count, false, expected),
        ),
        Claim(
            "(a question)",
            "`rejected` names the better of `best` and norm_sub in 95% of windows",
            "yes" if np.mean(verdicts) >= 0.95 else f"in {np.mean(verdicts):.1%}",
            f"{len(verdicts):,} windows",
        ),
    ]
