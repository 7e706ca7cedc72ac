"""The study of looks: how often two equal groups are proved to differ if somebody reads them at each final."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.accuracy.study import Claim, Figure, Section, Table, Track, seeded
from oracles import oracle
from oracles.estimate import Estimate
from oracles.estimate.changes import compare
from oracles.estimate.looks import EVERY_LOOK, ONE_LOOK
from oracles.mechanisms.haar import Haar
from oracles.numbers import Numbers, Scale
from oracles.numbers.number_differences import NumberDifferences
from oracles.types import Floats, Ints

RUNS = 1_000
NUMBER_RUNS = 40
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
SHAPES = ("normal", "uniform", "lumps")
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


def run(track: Track, folder: Path, runs: int = RUNS, number_runs: int = NUMBER_RUNS) -> Section:
    del folder
    section = Section(TEXT)
    head = ["experiment", "looks=always", "looks=one"]
    table = Table("Proofs at some look", f"{runs:,} experiments each. In the last row a proof is right.", head)
    false = {}
    for arms in track((*CASES, POWER), description="looks"):
        trials = experiments(arms, runs)
        false[arms.name] = trials.proofs(every_look=True)
        table.rows.append([arms.name, str(false[arms.name]), str(trials.proofs(every_look=False))])

    note = f"`haar`, 64 bins, epsilon 2, 50 people a pane, three quantiles. {number_runs} experiments each."
    quantiles = Table("Quantiles that are proved to differ at some look", note, head)
    for shape in track(SHAPES, description="quantiles"):
        always, once = quantile_proofs(shape, number_runs)
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
    rng = seeded("looks at quantiles", shape)
    haar = Haar(2.0, 64)
    scale = Scale(0.0, 64.0, 64)
    shares = 0.5, 0.9, 0.99
    proofs = np.zeros((runs, 2), bool)
    people = 50
    for row in proofs:
        states = [haar.zeros(), haar.zeros()]
        for look in range(1, LOOKS + 1):
            for state in states:
                haar.add(state, haar.perturb(scale.positions(_numbers(shape, people, rng)), rng))
            windows = [Numbers(haar.estimate(state, people * look), scale) for state in states]
            if not all(window.known for window in windows):
                continue
            for column, looks in enumerate((EVERY_LOOK, ONE_LOOK)):
                changes = NumberDifferences(windows[0], windows[1], looks=looks)
                p_values = [changes.quantile_test(share)[0] for share in shares]
                row[column] |= min(p_values) <= FAMILY_ERROR / len(shares)
    always, once = proofs.sum(axis=0).tolist()
    return Figure.rate(always, runs), Figure.rate(once, runs)


def _numbers(shape: str, people: int, rng: np.random.Generator) -> Floats:
    if shape == "normal":
        return rng.normal(30.0, 8.0, people).clip(0.0, 64.0)
    if shape == "uniform":
        return rng.uniform(0.0, 64.0, people)
    return rng.choice([1.5, 20.5, 21.5, 60.5], people, p=[0.5, 0.3, 0.1, 0.1])
