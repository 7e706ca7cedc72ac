"""How often intervals hold the truth: of single values, sets and differences, and how often ranks do."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.accuracy import draw, populations
from benchmarks.accuracy.study import Claim, Figure, Line, Panel, Plot, Section, Table, Track, seeded
from oracles import ORACLES, Estimate, oracle
from oracles.multi import multi
from oracles.pure import Pure, dense

DRAWS = 40_000
ROUNDS = 2_000
WINDOWS = 600
SHARES = (0.0, 0.001, 0.01, 0.05, 0.2, 0.5, 0.9)
REGIMES = {"dense": (100_000, 64, 1.0), "few people": (200, 64, 2.0), "sparse": (2_000, 1024, 6.0)}
"""People, values, epsilon."""
LEAST = 0.944
"""Coverage that docs/estimates.md promises of score intervals; exact ones have 0.95."""

TEXT = f"""Coverage of the 95% intervals as they are published, cut to [0, 1]. Single values: {DRAWS:,} estimates a
cell, at true shares from 0 to 0.9, three regimes: dense (100,000 people, 64 values, epsilon 1), few people (200, 64,
epsilon 2) and sparse (2,000, 1,024 values, epsilon 6: a GRR value that nobody holds has 1.4 supporters, an OUE one
5). Sets, differences and ranks: 10,000 and 100,000 people, Zipf (1.1); `ss` and
local hashing answer with real reports."""


def run(track: Track, folder: Path) -> Section:
    del folder
    section = Section(TEXT)
    keys = [(regime, name) for regime in REGIMES for name in ORACLES]
    single = {key: coverage(*key) for key in track(keys, description="single values")}
    parts = {label: sampled(make) for label, make in track(list(_attributes().items()), description="attributes")}
    joint = {name: together(name) for name in track(list(ORACLES), description="sets, differences")}
    placed = {name: ranks(name) for name in track(list(ORACLES), description="ranks")}
    section.tables += [_single(single), _parts(parts), _joint(joint), _placed(placed)]
    section.plots.append(_plot(single))
    section.claims += _claims(single, parts, joint, placed)
    return section


def coverage(regime: str, name: str) -> list[Figure]:
    """For each true share, the part of estimates whose interval holds it."""
    n, size, epsilon = REGIMES[regime]
    o = oracle(name, epsilon=epsilon, size=size)
    rng = seeded("coverage", regime, name)
    found = []
    for share in SHARES:
        own = round(n * share)
        counts = rng.binomial(own, o.p, DRAWS) + rng.binomial(n - own, o.q, DRAWS)
        found.append(_held(Estimate(o.shares(counts, n), n, o), own / n))
    return found


def _held(e: Estimate, truth: float) -> Figure:
    low, high = e.interval()
    return Figure.rate(int(((low <= truth) & (truth <= high)).sum()), len(low))


def _attributes() -> dict[str, Callable[[], tuple[Pure, int]]]:
    """A view of one of four attributes, and the part of people who answer it."""
    sizes = [16, 8, 4, 2]

    def made(solution: str, name: str) -> Callable[[], tuple[Pure, int]]:
        return lambda: (
            multi(solution, sizes=sizes, epsilon=2.0, oracle=name).attributes[0],
            len(sizes) if solution == "smp" else 1,
        )

    cases = [("spl", "adaptive"), ("smp", "grr"), ("smp", "oue")]
    cases += [("rsfd", name) for name in ("grr", "oue_z", "oue_r", "sue_z")]
    return {f"{solution}, {name}": made(solution, name) for solution, name in cases}


def sampled(make: Callable[[], tuple[Pure, int]]) -> list[Figure]:
    """Coverage of one attribute of 40,000 records; with smp a fourth of them answer it, another one each time."""
    view, part = make()
    n, rng, found = 40_000, seeded("attribute", view.name, view.p), []
    for share in SHARES:
        own = round(n * share)
        hits = 0
        for _ in range(100):
            # smp: each window has an n_j of its own, and 200 estimates share it; who answers differs.
            answering = n if part == 1 else int(rng.binomial(n, 1.0 / part))
            held = np.full(200, own) if part == 1 else rng.hypergeometric(own, n - own, answering, 200)
            counts = rng.binomial(held, view.p) + rng.binomial(answering - held, view.q)
            e = Estimate(view.shares(counts, answering), answering, view, answering, None if part == 1 else n)
            low, high = e.interval()
            hits += int(((low <= own / n) & (own / n <= high)).sum())
        found.append(Figure.rate(hits, 20_000))
    return found


SETS = {"the top 3": slice(0, 3), "values 10 to 29": slice(10, 30), "the rarest 40": slice(24, 64)}
PAIRS = {"first and second": (0, 1), "5th and 6th": (4, 5), "first and last": (0, 63)}


def together(name: str) -> dict[str, Figure]:
    """Coverage of sets and of differences."""
    o, counts = oracle(name, epsilon=2.0, size=64), populations.zipf(64, 10_000, 1.1)
    truth, hits = counts / counts.sum(), dict.fromkeys((*SETS, *PAIRS), 0)
    for e in draw.windows(o, counts, ROUNDS, seeded("together", name)):
        for label, chosen in SETS.items():
            _, _, low, high = e.of_set(np.arange(64)[chosen])
            hits[label] += low <= truth[chosen].sum() <= high
        for label, (u, v) in PAIRS.items():
            _, _, low, high = e.difference(u, v)
            hits[label] += low <= truth[u] - truth[v] <= high
    return {label: Figure.rate(hit, ROUNDS) for label, hit in hits.items()}


def ranks(name: str) -> tuple[Figure, Figure]:
    """The part of values whose rank interval misses, and the median width at rank 4."""
    people = 10_000 if name == "ss" else 100_000
    o, counts = oracle(name, epsilon=1.0, size=256), populations.zipf(256, people, 1.1)
    ahead = (counts[None, :] > counts[:, None]).sum(axis=1)
    behind = (counts[None, :] < counts[:, None]).sum(axis=1)
    rounds = WINDOWS // 5 if name == "ss" else WINDOWS
    missed, width = 0, []
    for e in draw.windows(o, counts, rounds, seeded("ranks", name)):
        first, last = e.ranks(np.arange(256))
        missed += int(((first > 256 - behind) | (last < 1 + ahead)).sum())
        width.append(float(last[3] - first[3]))
    return Figure(missed / (256 * rounds), 0.0), Figure.of(width)


def _single(single: dict[tuple[str, str], list[Figure]]) -> Table:
    rows = []
    for (regime, name), found in single.items():
        n, size, epsilon = REGIMES[regime]
        o = oracle(name, epsilon=epsilon, size=size)
        how = "score" if dense(n, o.p, o.q) else "exact"
        rows.append([regime, f"`{name}`", how, *(f"{f.mean:.4f}" for f in found)])
    head = ["regime", "oracle", "interval", *(f"f = {share:g}" for share in SHARES)]
    return Table("Single values", "Standard error of each figure: 0.0011 at 0.95.", head, rows)


def _parts(parts: dict[str, list[Figure]]) -> Table:
    rows = [[label, *(f"{f.mean:.4f}" for f in found)] for label, found in parts.items()]
    note = (
        "The first of four attributes (16, 8, 4, 2 values), 40,000 records, epsilon 2, 20,000 estimates; error 0.0015."
    )
    return Table("One attribute of several", note, ["solution", *(f"f = {share:g}" for share in SHARES)], rows)


def _joint(joint: dict[str, dict[str, Figure]]) -> Table:
    rows = [[f"`{name}`", *(str(found[label]) for label in (*SETS, *PAIRS))] for name, found in joint.items()]
    note = f"{ROUNDS} windows of 10,000 people, 64 values, epsilon 2: coverage of sets and of differences."
    return Table("Sets and differences", note, ["oracle", *SETS, *PAIRS], rows)


def _placed(placed: dict[str, tuple[Figure, Figure]]) -> Table:
    rows = [[f"`{name}`", f"{miss.mean:.5f}", str(width)] for name, (miss, width) in placed.items()]
    note = (
        f"{WINDOWS} windows of 100,000 people (`ss`: {WINDOWS // 5} of 10,000), 256 values, epsilon 1: the part of all"
        " values whose interval of ranks misses, 0.05 being allowed, and the mean width of that of the fourth value."
    )
    return Table("Ranks", note, ["oracle", "missed", "width at rank 4"], rows)


def _plot(single: dict[tuple[str, str], list[Figure]]) -> Plot:
    def panel(regime: str) -> Panel:
        lines = [
            Line(name, list(SHARES), [f.mean for f in found], [f.stderr for f in found])
            for (own, name), found in single.items()
            if own == regime
        ]
        return Panel(regime, "true share", "coverage", lines, "s", level=0.95)

    caption = "Coverage of 95% intervals over the true share, by oracle; the line is 0.95."
    return Plot("coverage", caption, [panel(regime) for regime in REGIMES])


def _claims(
    single: dict[tuple[str, str], list[Figure]],
    parts: dict[str, list[Figure]],
    joint: dict[str, dict[str, Figure]],
    placed: dict[str, tuple[Figure, Figure]],
) -> list[Claim]:
    def claim(what: str, found: list[Figure], least: float) -> Claim:
        low = min(found, key=lambda f: f.mean)
        bad = [f for f in found if f.mean + 4.0 * f.stderr < least]
        told = f"{len(found)} cells, least {low}, mean {np.mean([f.mean for f in found]):.4f}"
        return Claim("hubbub", what, "yes" if not bad else f"not in {len(bad)} of {len(found)} cells", told)

    missed = max(miss.mean for miss, _ in placed.values())
    return [
        claim("95% intervals hold the truth (0.944 at least)", [f for own in single.values() for f in own], LEAST),
        claim("so do those of an attribute of several", [f for own in parts.values() for f in own], LEAST),
        claim("so do those of sets", [own[label] for own in joint.values() for label in SETS], LEAST),
        claim("so do those of differences", [own[label] for own in joint.values() for label in PAIRS], LEAST),
        Claim(
            "hubbub", "ranks hold in 95%", "yes" if missed < 0.05 else "no",
            f"missed by at most {missed:.5f} of all values, whichever oracle",
        ),
    ]  # fmt: skip
