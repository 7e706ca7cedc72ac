"""The study of looks: how often two equal groups are proved to differ if somebody reads them at each final."""

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
from oracles.numbers import Scale
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
    """Return the p-value of one look for each experiment, look and quantile."""
    rng = seeded("looks at quantiles", shape)
    return np.stack([look_p_values(number_tallies(shape, rng), number_tallies(shape, rng)) for _ in range(runs)])


def number_tallies(shape: str, rng: np.random.Generator) -> Ints:
    """Return the tally of a group of numbers at each look."""
    reports = HAAR.perturb(SCALE.positions(_numbers(shape, PEOPLE * LOOKS, rng)), rng)
    panes = []
    for part in np.split(reports, LOOKS):
        state = HAAR.zeros()
        HAAR.add(state, part)
        panes.append(state)
    return np.cumsum(panes, axis=0)


def look_p_values(before: Ints, after: Ints) -> Floats:
    """Return the p-value of each look and quantile, from the tallies of two groups at each look.

    It is that of `NumberDifferences.quantile_test`, which would take ten times as long for one look after the other.
    """
    counts = tree_counts(before), tree_counts(after)
    pooled = _cumulative(counts[0] + counts[1])
    shares = [_cumulative(rows) for rows in counts]
    looks = np.arange(len(before))
    p_values = np.ones((len(before), len(QUANTILES)))
    for column, quantile in enumerate(QUANTILES):
        edges = _nearest_edges(pooled, quantile)
        first, second = (rows[looks, edges - 1] for rows in shares)
        squares = HAAR.tree.edge_squares(edges).T ** 2
        with np.errstate(divide="ignore", invalid="ignore"):
            variance = sum((HAAR.tree.factor / rows[:, -HAAR.levels :] * squares).sum(axis=1) for rows in counts)
            p_value = special.erfc(np.abs(second - first) / np.sqrt(2.0 * variance))
        # A comparison with NaN is false: without reports of each level nothing is tested.
        is_tested = (np.minimum(first, second) <= quantile) & (quantile <= np.maximum(first, second))
        p_values[is_tested, column] = p_value[is_tested]
    return p_values


def tree_counts(tallies: Ints) -> Ints:
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


def _cumulative(counts: Ints) -> Floats:
    """Return the unbiased share of the numbers up to each bin, for each row of counts. It is NaN without a level."""
    answering = counts[:, -HAAR.levels :]
    sizes = HAAR.tree.bins >> np.arange(1, HAAR.levels + 1)
    lefts = np.split(counts[:, : -HAAR.levels], np.cumsum(sizes)[:-1], axis=1)
    shares = np.ones((len(counts), 1))
    with np.errstate(divide="ignore", invalid="ignore"):
        for level in reversed(range(HAAR.levels)):
            n = answering[:, level : level + 1]
            coefficients = (2 * lefts[level] - n) / (n * HAAR.tree.gap)
            halves = np.stack([shares + coefficients, shares - coefficients], axis=2) / 2.0
            shares = halves.reshape(len(counts), -1)
    return np.cumsum(shares, axis=1)


def _nearest_edges(cumulative: Floats, quantile: float) -> Ints:
    """Return the inner edge that is nearest to a quantile of the isotonic regression of each row.

    The regression is the slope of the convex hull below the sums. Up to the first minimum of the sums minus the line
    of the quantile it is below the quantile, and the values beside the minimum are its steepest and flattest slopes.
    """
    bins = cumulative.shape[1]
    sums = np.cumsum(cumulative, axis=1) - quantile * np.arange(1, bins + 1)
    sums = np.concatenate([np.zeros((len(sums), 1)), sums], axis=1)
    places = np.minimum(np.argmin(np.nan_to_num(sums), axis=1), bins - 1)[:, None]
    distance = np.arange(bins + 1) - places
    with np.errstate(divide="ignore", invalid="ignore"):
        slopes = (sums - np.take_along_axis(sums, places, axis=1)) / distance + quantile
    below = np.where(distance < 0, slopes, -np.inf).max(axis=1).clip(0.0, 1.0)
    above = np.where(distance > 0, slopes, np.inf).min(axis=1).clip(0.0, 1.0)
    edges: Ints = places[:, 0] + (above - quantile <= quantile - below)
    return np.clip(edges, 1, bins - 1)


def _numbers(shape: str, people: int, rng: np.random.Generator) -> Floats:
    if shape == "normal":
        return rng.normal(30.0, 8.0, people).clip(0.0, 64.0)
    if shape == "uniform":
        return rng.uniform(0.0, 64.0, people)
    if shape == "skewed":
        return rng.lognormal(2.0, 0.8, people)
    return rng.choice([1.5, 20.5, 21.5, 60.5], people, p=[0.5, 0.3, 0.1, 0.1])
