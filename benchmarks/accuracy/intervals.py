"""The study of coverage: how often intervals of values, sets, differences and ranks contain the truth."""

from collections.abc import Callable
from itertools import chain, product
from pathlib import Path

import numpy as np

from benchmarks.accuracy import draw, populations
from benchmarks.accuracy.study import Claim, Figure, Line, Panel, Plot, Section, Table, Track, seeded
from oracles import ORACLES, Estimate, oracle
from oracles.estimate.pure import Pure, dense
from oracles.multi import multi

DRAWS = 40_000
ROUNDS = 2_000
WINDOWS = 600
SHARES = (0.0, 0.001, 0.01, 0.05, 0.2, 0.5, 0.9)
REGIMES = {"dense": (100_000, 64, 1.0), "few people": (200, 64, 2.0), "sparse": (2_000, 1024, 6.0)}
"""Number of people, number of values, and epsilon."""
LEAST = 0.944
"""The coverage of score intervals in docs/estimates.md. Exact intervals have 0.95."""

TEXT = f"""Coverage of the published 95% intervals, limited to [0, 1]. Single values have {DRAWS:,} estimates
per cell, at true shares from 0 to 0.9, in three regimes: dense (100,000 people, 64 values, epsilon 1), few
people (200 people, 64 values, epsilon 2) and sparse (2,000 people, 1,024 values, epsilon 6). In the sparse
regime a value that no client has gets 1.4 supporters with GRR and 5 with OUE. Sets, differences and ranks use
10,000 and 100,000 people and Zipf (1.1). `ss` and local hashing use real reports."""


def run(track: Track, folder: Path) -> Section:
    del folder
    section = Section(TEXT)
    keys = list(product(REGIMES, ORACLES))
    single_values = {key: coverage(*key) for key in track(keys, description="single values")}
    parts = {label: attribute(make) for label, make in track(list(_attributes().items()), description="attributes")}
    joint = {name: together(name) for name in track(list(ORACLES), description="sets, differences")}
    rank_figures = {name: ranks(name) for name in track(list(ORACLES), description="ranks")}
    section.tables += [_single(single_values), _parts(parts), _joint(joint), _ranks(rank_figures)]
    section.plots.append(_plot(single_values))
    section.claims += _claims(single_values, parts, joint, rank_figures)
    return section


def coverage(regime: str, name: str) -> list[Figure]:
    """Return for each true share the share of estimates with an interval that contains it."""
    n, size, epsilon = REGIMES[regime]
    o = oracle(name, epsilon=epsilon, size=size)
    rng = seeded("coverage", regime, name)
    figures = []
    for share in SHARES:
        holding = round(n * share)
        counts = rng.binomial(holding, o.p, DRAWS) + rng.binomial(n - holding, o.q, DRAWS)
        figures.append(_hits(Estimate(o.shares(counts, n), n, o), holding / n))
    return figures


def _hits(e: Estimate, truth: float) -> Figure:
    low, high = e.interval()
    return Figure.rate(int(((low <= truth) & (truth <= high)).sum()), len(low))


def _attributes() -> dict[str, Callable[[], tuple[Pure, int]]]:
    """Return the views of one of four attributes, with the divisor of the people who answer it."""
    sizes = [16, 8, 4, 2]

    def maker(solution: str, name: str) -> Callable[[], tuple[Pure, int]]:
        return lambda: (
            multi(solution, sizes=sizes, epsilon=2.0, oracle=name).attributes[0],
            len(sizes) if solution == "smp" else 1,
        )

    cases = [("spl", "adaptive"), ("smp", "grr"), ("smp", "oue")]
    cases += [("rsfd", name) for name in ("grr", "oue_z", "oue_r", "sue_z")]
    return {f"{solution}, {name}": maker(solution, name) for solution, name in cases}


def attribute(make: Callable[[], tuple[Pure, int]]) -> list[Figure]:
    """Return the coverage of one attribute of 40,000 records. With smp another quarter answers it each time."""
    view, part = make()
    n = 40_000
    rng = seeded("attribute", view.name, view.p)
    figures = []
    for share in SHARES:
        holding = round(n * share)
        hits = 0
        for _ in range(100):
            # With smp each window has its own n_j, which 200 estimates with different clients share.
            answering = n if part == 1 else int(rng.binomial(n, 1.0 / part))
            holders = np.full(200, holding) if part == 1 else rng.hypergeometric(holding, n - holding, answering, 200)
            counts = rng.binomial(holders, view.p) + rng.binomial(answering - holders, view.q)
            e = Estimate(view.shares(counts, answering), answering, view, answering, None if part == 1 else n)
            low, high = e.interval()
            hits += int(((low <= holding / n) & (holding / n <= high)).sum())
        figures.append(Figure.rate(hits, 20_000))
    return figures


SETS = {"the top 3": slice(0, 3), "values 10 to 29": slice(10, 30), "the rarest 40": slice(24, 64)}
PAIRS = {"first and second": (0, 1), "5th and 6th": (4, 5), "first and last": (0, 63)}


def together(name: str) -> dict[str, Figure]:
    """Return the coverage of sets and of differences."""
    o = oracle(name, epsilon=2.0, size=64)
    counts = populations.zipf(64, 10_000, 1.1)
    truth = counts / counts.sum()
    hits = dict.fromkeys((*SETS, *PAIRS), 0)
    for e in draw.windows(o, counts, ROUNDS, seeded("together", name)):
        for label, members in SETS.items():
            _, _, low, high = e.of_set(np.arange(64)[members])
            hits[label] += low <= truth[members].sum() <= high
        for label, (u, v) in PAIRS.items():
            _, _, low, high = e.difference(u, v)
            hits[label] += low <= truth[u] - truth[v] <= high
    return {label: Figure.rate(hit, ROUNDS) for label, hit in hits.items()}


def ranks(name: str) -> tuple[Figure, Figure]:
    """Return the share of values outside their rank interval, and the mean width at rank 4."""
    people = 10_000 if name == "ss" else 100_000
    o = oracle(name, epsilon=1.0, size=256)
    counts = populations.zipf(256, people, 1.1)
    larger = (counts[None, :] > counts[:, None]).sum(axis=1)
    smaller = (counts[None, :] < counts[:, None]).sum(axis=1)
    rounds = WINDOWS // 5 if name == "ss" else WINDOWS
    misses = 0
    width = []
    for e in draw.windows(o, counts, rounds, seeded("ranks", name)):
        low_rank, high_rank = e.ranks(np.arange(256))
        misses += int(((low_rank > 256 - smaller) | (high_rank < 1 + larger)).sum())
        width.append(float(high_rank[3] - low_rank[3]))
    return Figure(misses / (256 * rounds), 0.0), Figure.of(width)


def _single(single_values: dict[tuple[str, str], list[Figure]]) -> Table:
    rows = []
    for (regime, name), figures in single_values.items():
        n, size, epsilon = REGIMES[regime]
        o = oracle(name, epsilon=epsilon, size=size)
        how = "score" if dense(n, o.p, o.q) else "exact"
        rows.append([regime, f"`{name}`", how, *(f"{f.mean:.4f}" for f in figures)])
    head = ["regime", "oracle", "interval", *(f"f = {share:g}" for share in SHARES)]
    return Table("Single values", "Standard error of each figure: 0.0011 at 0.95.", head, rows)


def _parts(parts: dict[str, list[Figure]]) -> Table:
    rows = [[label, *(f"{f.mean:.4f}" for f in figures)] for label, figures in parts.items()]
    note = (
        "The first of four attributes (16, 8, 4, 2 values), 40,000 records, epsilon 2, 20,000 estimates. Error 0.0015."
    )
    return Table("One attribute of several", note, ["solution", *(f"f = {share:g}" for share in SHARES)], rows)


def _joint(joint: dict[str, dict[str, Figure]]) -> Table:
    rows = [[f"`{name}`", *(str(figures[label]) for label in (*SETS, *PAIRS))] for name, figures in joint.items()]
    note = f"{ROUNDS} windows of 10,000 people, 64 values, epsilon 2. Coverage of sets and of differences."
    return Table("Sets and differences", note, ["oracle", *SETS, *PAIRS], rows)


def _ranks(rank_figures: dict[str, tuple[Figure, Figure]]) -> Table:
    rows = [[f"`{name}`", f"{miss.mean:.5f}", str(width)] for name, (miss, width) in rank_figures.items()]
    note = (
        f"{WINDOWS} windows of 100,000 people (`ss`: {WINDOWS // 5} of 10,000), 256 values, epsilon 1. The share"
        " of values with a rank outside their rank interval (0.05 is allowed), and the mean width of the interval of"
        " the fourth value."
    )
    return Table("Ranks", note, ["oracle", "missed", "width at rank 4"], rows)


def _plot(single_values: dict[tuple[str, str], list[Figure]]) -> Plot:
    def panel(regime: str) -> Panel:
        lines = [
            Line(name, list(SHARES), [f.mean for f in figures], [f.stderr for f in figures])
            for (regime_of_figures, name), figures in single_values.items()
            if regime_of_figures == regime
        ]
        return Panel(regime, "true share", "coverage", lines, "s", level=0.95)

    caption = "Coverage of 95% intervals by true share and oracle. The line is 0.95."
    return Plot("coverage", caption, [panel(regime) for regime in REGIMES])


def _claims(
    single_values: dict[tuple[str, str], list[Figure]],
    parts: dict[str, list[Figure]],
    joint: dict[str, dict[str, Figure]],
    rank_figures: dict[str, tuple[Figure, Figure]],
) -> list[Claim]:
    def claim(text: str, figures: list[Figure]) -> Claim:
        low = min(figures, key=lambda f: f.mean)
        faults = [f for f in figures if f.mean + 4.0 * f.stderr < LEAST]
        result = f"{len(figures)} cells, smallest {low}, mean {np.mean([f.mean for f in figures]):.4f}"
        return Claim(
            "hubbub",
            text,
            "yes" if not faults else f"not in {len(faults)} of {len(figures)} cells",
            result,
        )

    misses = max(miss.mean for miss, _ in rank_figures.values())
    return [
        claim("95% intervals contain the truth (in at least 0.944)", list(chain.from_iterable(single_values.values()))),
        claim("intervals of one attribute of several contain the truth", list(chain.from_iterable(parts.values()))),
        claim("intervals of sets contain the truth", [r[label] for r, label in product(joint.values(), SETS)]),
        claim("intervals of differences contain the truth", [r[label] for r, label in product(joint.values(), PAIRS)]),
        Claim(
            "hubbub", "rank intervals contain the rank in 95%", "yes" if misses < 0.05 else "no",
            f"at most {misses:.5f} of all values are outside, with any oracle",
        ),
    ]  # fmt: skip
