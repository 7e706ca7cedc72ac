"""The study of groups and pairs: weighted totals, differences of two groups, and conditional shares."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks import group_total
from benchmarks.accuracy.study import Claim, Figure, Section, Table, Track, seeded
from oracles import oracle
from oracles.estimate import Estimate
from oracles.estimate.changes import compare
from oracles.estimate.pairs import given
from oracles.multi import multi
from oracles.types import Flags, Floats, Ints

WINDOWS = 100
DIFFERENCES = (("olh", 1.0, 64), ("hr", 1.0, 16), ("oue", 2.0, 32), ("grr", 3.0, 16))
SIZES = 9_000, 2_500
"""Reports of the two groups."""
MARGINS = 0.5, 1.0, 2.0, 4.0
"""Shares of the condition, in standard errors."""
SMALL = (("hr", 1.0, 10_000), ("oue", 2.0, 10_000), ("grr", 4.0, 1_000))
LAWS = (("hr", 1.0, 100_000), ("olh", 2.0, 30_000), ("oue", 2.0, 30_000), ("grr", 4.0, 5_000))

TEXT = f"""Groups answer differently, and some more often than others. A *weighted total* has the known shares of the
groups in the population. Two groups of {SIZES[0]:,} and {SIZES[1]:,} reports are compared value by value. *Conditional
shares* are those of three values among the clients with one of three others, by a pair of attributes with smp.
{WINDOWS} windows each. Intervals should hold the truth in 95%."""


def run(track: Track, folder: Path, windows: int = WINDOWS) -> Section:
    del folder
    section = Section(TEXT)
    totals = {case: group_total.fit(case, windows) for case in track(group_total.CASES, description="weighted totals")}
    head = ["oracle, epsilon, values", "error/stderr", "coverage", "unweighted: error/stderr", "coverage"]
    note = "Eight groups of 500 to 40,000 reports. The last row has three of 60 to 400."
    table = Table("Weighted totals", note, head)
    for case, (total, plain) in totals.items():
        name = f"{case.oracle}, {case.epsilon:g}, {case.values}"
        cells = f"{total.ratio:.3f}", f"{total.coverage:.3f}", f"{plain.ratio:.2f}", f"{plain.coverage:.3f}"
        table.rows.append([name, *cells])
    head = ["oracle, epsilon", "size", "coverage"]
    coverage = Table("Differences of two groups, and conditional shares", "", head)
    pooled: dict[str, list[float]] = {"difference": [], "share": []}
    for name, epsilon, size in track(DIFFERENCES, description="differences"):
        rates = [float(np.mean(hits)) for hits in differences(name, epsilon, size, windows)]
        pooled["difference"] += rates
        coverage.rows.append([f"{name}, {epsilon:g}", f"difference of {size} values", str(Figure.of(rates))])
    for name, epsilon, n in track(LAWS, description="conditional shares"):
        rates = [float(np.mean(hits)) for hits in conditional_shares(name, epsilon, n, windows) if len(hits)]
        pooled["share"] += rates
        coverage.rows.append([f"{name}, {epsilon:g}", f"conditional shares, n = {n:,}", str(Figure.of(rates))])
    note = (
        "The *margin* is the share of the clients about whom is asked, here in standard errors of its estimate. "
        "Near zero most windows have no interval of Fieller. The others are windows whose noise raised the margin, so "
        f"they hold the truth less often. {10 * windows:,} windows each."
    )
    small = Table("Conditional shares with a small margin", note, ["oracle, epsilon", "margin", "unknown", "coverage"])
    for name, epsilon, n in track(SMALL, description="small margins"):
        for stderrs in MARGINS:
            unknown, covered = small_margin(name, epsilon, n, stderrs, 10 * windows)
            small.rows.append([f"{name}, {epsilon:g}", f"{stderrs:g}", str(unknown), str(covered)])
    section.tables += [table, coverage, small]
    ratios = [total.ratio for total, _ in totals.values()]
    is_right = all(0.95 <= ratio <= 1.05 for ratio in ratios)
    result = f"{min(ratios):.3f} to {max(ratios):.3f}"
    claims = [("the stated error of weighted totals is right (error/stderr 0.95 to 1.05)", is_right, result)]
    for kind, about in (("difference", "differences of two groups"), ("share", "conditional shares")):
        figure = Figure.of(pooled[kind])
        claims.append(
            (f"intervals of {about} contain the truth (in at least 0.945)", figure.mean >= 0.945, str(figure))
        )
    section.claims += [Claim("hubbub", text, "yes" if holds else "no", result) for text, holds, result in claims]
    return section


def differences(name: str, epsilon: float, size: int, windows: int) -> Iterator[Flags]:
    """Yield for each window whether the intervals of the differences hold those of the people who answered."""
    o = oracle(name, epsilon=epsilon, size=size)
    weights = 1.0 / np.arange(1, size + 1)
    laws = [row / row.sum() for row in (weights, np.roll(weights, 3))]
    rng = seeded("differences", name, epsilon)
    for _ in range(windows):
        estimates = []
        shares = []
        for n, law in zip(SIZES, laws, strict=True):
            values = rng.choice(size, n, p=law)
            tally = o.tally()
            tally.add(o.perturb(values, rng))
            estimates.append(tally.estimate())
            shares.append(np.bincount(values, minlength=size) / n)
        result = compare(*estimates)
        true = shares[1] - shares[0]
        yield (result.low <= true) & (true <= result.high)


def conditional_shares(name: str, epsilon: float, n: int, windows: int) -> Iterator[Flags]:
    """Yield for each window whether the intervals that are known hold the shares of the people."""
    rng = seeded("conditional shares", name, epsilon)
    for _ in range(windows):
        cells = rng.choice(9, n, p=rng.dirichlet(np.full(9, 2.0)))
        estimate = _estimate(name, epsilon, cells, rng)
        yield np.concatenate([_hits(estimate, cells, row) for row in range(3)])


def small_margin(name: str, epsilon: float, n: int, stderrs: float, windows: int) -> tuple[Figure, Figure]:
    """Return the share of windows without an interval if the margin is so small, and the coverage of the others."""
    rng = seeded("small margin", name, epsilon, stderrs)
    noise = _estimate(name, epsilon, rng.choice(9, n), rng).set_noise(3)
    margin = stderrs * float(noise.variance(0.0)) ** 0.5
    law = np.concatenate([margin * np.array([0.6, 0.3, 0.1]), np.full(6, (1.0 - margin) / 6.0)])
    hits = []
    for _ in range(windows):
        cells = rng.choice(9, n, p=law)
        hits.append(_hits(_estimate(name, epsilon, cells, rng), cells, 0))
    rates = [float(row.mean()) for row in hits if len(row)]
    return Figure.rate(windows - len(rates), windows), Figure.of(rates)


def _estimate(name: str, epsilon: float, cells: Ints, rng: np.random.Generator) -> Estimate:
    """Return the estimate of a pair of two attributes with three values each, from people in these cells."""
    pairs = multi("smp", sizes=[3, 3], epsilon=epsilon, oracle=name, pairs=[(0, 1)])
    state = pairs.zeros()
    pairs.add(state, pairs.perturb(np.column_stack(divmod(cells, 3)), rng))
    return pairs.estimate(state, len(cells))[2]


def _hits(estimate: Estimate, cells: Ints, row: int) -> Flags:
    """Return whether the intervals of a row hold the shares of the people. Empty if they are not known."""
    counts: Floats = np.bincount(cells, minlength=9)[3 * row : 3 * row + 3]
    result = given(estimate, 3 * row + np.arange(3))
    true = counts / max(counts.sum(), 1)
    return ((result.low <= true) & (true <= result.high))[~np.isnan(result.share)]
