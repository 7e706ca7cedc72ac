"""The study of looks: how often two equal groups are proved to differ if somebody reads them at each final."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from scipy import special

from benchmarks.accuracy.study import Claim, Figure, Section, Table, Track, seeded
from oracles import oracle
from oracles.estimate import Estimate
from oracles.estimate.changes import compare
from oracles.estimate.looks import EVERY_LOOK, ONE_LOOK
from oracles.kernels.walsh import walsh
from oracles.mechanisms.haar import Haar
from oracles.numbers import Numbers, Scale
from oracles.numbers.number_differences import NumberDifferences
from oracles.types import Floats, Ints

RUNS = 1_000
LOOKS = 300
FAMILY_ERROR = 0.05
LOOKS_A_DAY = 10
"""Looks of a panel in a day, in each of which another tenth answers."""


@dataclass(frozen=True)
class Arms:
    """An experiment with two groups, whose comparison is read at each pane."""

    name: str
    epsilon: float = 1.0
    values: int = 8
    people: int = 1_000
    """People of each group in a pane. In a panel, in a day."""
    first_people: int | None = None
    """People of the second group in the first pane, from which it grows to all. None: it does not grow."""
    gain: float = 0.0
    """Share that one value has more in the second group."""
    is_panel: bool = False


CASES = (
    Arms("8 values"),
    Arms("64 values", values=64),
    Arms("one group grows from 5 a pane", first_people=5),
    Arms("sparse: epsilon 6, 50 a pane", epsilon=6.0, people=50),
    Arms("panel: 1,000 people for life, 30 days", is_panel=True),
)
POWER = Arms("one value has 3 points more", gain=0.03)
SHAPES = ("normal", "uniform", "lumps", "skewed")
HAAR = Haar(2.0, 64)
SCALE = Scale(0.0, 64.0, 64)
PEOPLE = 50
"""People of each group of numbers in a pane."""
QUANTILES = 0.5, 0.9, 0.99
TEXT = f"""Two groups have one population, and somebody reads their comparison at each of {LOOKS} finals of a window
since the start. How often is a difference *proved* at some look? Oracle `oue`, Holm's procedure over all values, and
`family_error` {FAMILY_ERROR:g}."""


@dataclass(frozen=True, eq=False)
class Experiments:
    """The support counts of both groups at each look, of many experiments."""

    arms: Arms
    counts: tuple[Ints, Ints]
    """Counts by experiment, look and value."""
    reports: tuple[Ints, Ints]
    """Reports by look."""
    periods: Ints
    """Periods that the window touches at each look."""

    def smallest(self, *, every_look: bool) -> Floats:
        """Return the smallest p-value of each experiment and look."""
        o = oracle("oue", epsilon=self.arms.epsilon, size=self.arms.values)
        looks = EVERY_LOOK if every_look else ONE_LOOK
        columns = []
        for look, periods in enumerate(self.periods.tolist()):
            estimates = []
            for counts, reports in zip(self.counts, self.reports, strict=True):
                n = int(reports[look])
                # Errors and tests are those of single values, so the experiments can lie in a row.
                estimates.append(Estimate(o.shares(counts[:, look].ravel(), n), n, o, n // periods))
            p_values = compare(*estimates, looks=looks).p_values
            columns.append(p_values.reshape(len(self.counts[0]), -1).min(axis=1))
        return np.stack(columns, axis=1)

    def proofs(self, *, every_look: bool) -> Figure:
        """Return the share of experiments in which a difference is proved at some look."""
        proved = self.smallest(every_look=every_look).min(axis=1) <= FAMILY_ERROR / self.arms.values
        return Figure.rate(float(proved.sum()), len(proved))


def run(track: Track, folder: Path, runs: int = RUNS) -> Section:
    del folder
    section = Section(TEXT)
    head = ["experiment", "looks=always", "looks=one"]
    table = Table("Proofs at some look", f"{runs:,} experiments each. In the last row a proof is right.", head)
    false = {}
    for arms in track((*CASES, POWER), description="looks"):
        trials = experiments(arms, runs)
        false[arms.name] = trials.proofs(every_look=True)
        table.rows.append([arms.name, str(false[arms.name]), str(trials.proofs(every_look=False))])

    note = f"`haar`, 64 bins, epsilon 2, {PEOPLE} people a pane, three quantiles. {runs:,} experiments each."
    quantiles = Table("Quantiles that are proved to differ at some look", note, head)
    for shape in track(SHAPES, description="quantiles"):
        always, once = quantile_proofs(shape, runs)
        false[shape] = always
        quantiles.rows.append([shape, str(always), str(once)])

    section.tables += [table, quantiles]
    power = false.pop(POWER.name)
    largest = max(figure.mean for figure in false.values())
    holds = "yes" if largest <= FAMILY_ERROR else "no"
    claim = (
        f"comparisons since the start prove a false difference at some of {LOOKS} looks in at most {FAMILY_ERROR:.0%}"
    )
    section.claims.append(Claim("hubbub", claim, holds, f"at most {largest:.3f}"))
    found = "yes" if power.mean >= 0.95 else "no"
    section.claims.append(Claim("hubbub", f"3 points more are proved by look {LOOKS} in 95%", found, str(power)))
    return section


def experiments(arms: Arms, runs: int) -> Experiments:
    """Return the counts of experiments, exactly as clients make them."""
    rng = seeded("looks", arms.name)
    law = np.full(arms.values, 1.0 / arms.values)
    gain = np.full(arms.values, -arms.gain / (arms.values - 1))
    gain[0] = arms.gain
    if arms.is_panel:
        days = LOOKS // LOOKS_A_DAY
        periods = np.repeat(np.arange(1, days + 1), LOOKS_A_DAY)
        counts = tuple(_panel(arms, law, runs, rng) for _ in range(2))
        reports = np.arange(1, LOOKS + 1) * (arms.people // LOOKS_A_DAY)
        return Experiments(arms, (counts[0], counts[1]), (reports, reports), periods)

    sizes = np.full(LOOKS, arms.people)
    grown_sizes = sizes
    if arms.first_people is not None:
        grown_sizes = np.linspace(arms.first_people, arms.people, LOOKS).astype(np.int64)
    counts = tuple(
        np.cumsum(_supports(arms, part, people, runs, rng), axis=1)
        for part, people in ((law, sizes), (law + gain, grown_sizes))
    )
    return Experiments(
        arms, (counts[0], counts[1]), (np.cumsum(sizes), np.cumsum(grown_sizes)), np.ones(LOOKS, np.int64)
    )


def _supports(arms: Arms, law: Floats, sizes: Ints, runs: int, rng: np.random.Generator) -> Ints:
    """Return the support of each value by the reports of each pane."""
    o = oracle("oue", epsilon=arms.epsilon, size=arms.values)
    own = rng.multinomial(np.broadcast_to(sizes, (runs, len(sizes))), law)
    # With unary reports the supports of values are independent, given the answers.
    supports: Ints = rng.binomial(own, o.p) + rng.binomial(sizes[:, None] - own, o.q)
    return supports


def _panel(arms: Arms, law: Floats, runs: int, rng: np.random.Generator) -> Ints:
    """Return the counts of a group whose people send the same report each day, a tenth of them at each look."""
    tenths = _supports(arms, law, np.full(LOOKS_A_DAY, arms.people // LOOKS_A_DAY), runs, rng)
    day = np.cumsum(tenths, axis=1)
    days = np.arange(LOOKS // LOOKS_A_DAY)[:, None, None]
    counts: Ints = (day[:, None] + days * day[:, None, -1:]).reshape(runs, LOOKS, -1)
    return counts


def quantile_proofs(shape: str, runs: int) -> tuple[Figure, Figure]:
    """Return the share of experiments with a false proof of a quantile at some look: for every look, and for one."""
    always = smallest_quantile(shape, runs, is_watched=True)
    once = smallest_quantile(shape, runs, is_watched=False)
    limit = FAMILY_ERROR / len(QUANTILES)
    return Figure.rate(float((always <= limit).sum()), runs), Figure.rate(float((once <= limit).sum()), runs)


def smallest_quantile(shape: str, runs: int, *, is_watched: bool) -> Floats:
    """Return the smallest p-value that a quantile of each experiment has at any look."""
    p_values = number_p_values(shape, runs)
    if is_watched:
        looks = [every_look(p_values[:, look], PEOPLE * (look + 1)) for look in range(LOOKS)]
        p_values = np.stack(looks, axis=1)
    smallest: Floats = p_values.min(axis=(1, 2))
    return smallest


def every_look(p_values: Floats, n: int) -> Floats:
    """Return the p-values for every look at two groups of `n` reports from those of one look."""
    return EVERY_LOOK.law(n, n).p_values(special.ndtri(1.0 - p_values / 2.0))


@cache
def number_p_values(shape: str, runs: int) -> Floats:
    """Return the p-value of one look for each experiment, look and quantile. It is 1 while a level has no reports."""
    p_values = np.ones((runs, LOOKS, len(QUANTILES)))
    for rows, arms in zip(p_values, number_arms(shape, runs), strict=True):
        for row, before, after in zip(rows, *map(_number_windows, arms), strict=True):
            if before.known and after.known:
                changes = NumberDifferences(before, after)
                row[:] = [changes.quantile_test(share)[0] for share in QUANTILES]
    return p_values


def number_arms(shape: str, runs: int) -> Iterator[tuple[Ints, Ints]]:
    """Yield the tallies of both groups of numbers at each look, of one experiment after the other."""
    rng = seeded("looks at quantiles", shape)
    for _ in range(runs):
        yield _tallies(shape, rng), _tallies(shape, rng)


def _tallies(shape: str, rng: np.random.Generator) -> Ints:
    """Return the tally of a group at each look."""
    reports = HAAR.perturb(SCALE.positions(_numbers(shape, PEOPLE * LOOKS, rng)), rng)
    panes = []
    for part in np.split(reports, LOOKS):
        state = HAAR.zeros()
        HAAR.add(state, part)
        panes.append(state)
    return np.cumsum(panes, axis=0)


def _number_windows(tallies: Ints) -> list[Numbers]:
    """Return the windows of a group since the start, one at each look."""
    return [
        Numbers(HAAR.tree.estimate(HAAR, row, PEOPLE * look, PEOPLE * look), SCALE)
        for look, row in enumerate(number_counts(tallies), start=1)
    ]


def number_counts(tallies: Ints) -> Ints:
    """Return the counts of the tree for each tally, as the estimate of the oracle computes them one by one."""
    answering = np.stack([HAAR.answering(state) for state in tallies])
    lefts = []
    # Signs are linear in the tally, so all tallies pass one transform.
    for level, transform in enumerate(_transforms()):
        signs = tallies[:, 1 << level : HAAR.cells : 2 << level] @ transform
        lefts.append((signs + answering[:, level : level + 1]) // 2)
    return np.concatenate([*lefts, answering], axis=1)


@cache
def _transforms() -> list[Ints]:
    """Return for each level the signs of its blocks by each of its rows."""
    sizes = HAAR.tree.bins >> np.arange(1, HAAR.levels + 1)
    return [np.stack([walsh(unit) for unit in np.eye(size, dtype=np.int64)]) for size in sizes.tolist()]


def _numbers(shape: str, people: int, rng: np.random.Generator) -> Floats:
    if shape == "normal":
        return rng.normal(30.0, 8.0, people).clip(0.0, 64.0)
    if shape == "uniform":
        return rng.uniform(0.0, 64.0, people)
    if shape == "skewed":
        return rng.lognormal(2.0, 0.8, people)
    return rng.choice([1.5, 20.5, 21.5, 60.5], people, p=[0.5, 0.3, 0.1, 0.1])
