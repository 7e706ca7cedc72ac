"""The benchmark of numbers: speed, coverage, rank errors beside other methods, and what forgers can do.

python -m benchmarks.number_study [--rounds N] [--write]
"""

import argparse
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from benchmarks.number_methods import METHODS
from oracles import oracle
from oracles.mechanisms.entropy import source
from oracles.mechanisms.haar import Haar
from oracles.multi.forgery import skewed
from oracles.numbers import Numbers, Scale
from oracles.types import MARKS, Floats, Ints
from producers.client.respondents import Respondents

PAGE = Path(__file__).parents[1] / "docs" / "numbers.md"
Draw = Callable[[np.random.Generator, int], Floats]
SHAPES: dict[str, tuple[Draw, Scale]] = {
    "log-normal": (lambda rng, n: rng.lognormal(6.3, 0.8, n), Scale(10.0, 60_000.0, 256, "log")),
    "smooth": (lambda rng, n: 100.0 * rng.beta(2.0, 3.0, n), Scale(0.0, 100.0, 256)),
    "lumps": (lambda rng, n: rng.choice([2.0, 4.0, 8.0, 8.0, 16.0], n), Scale(0.0, 20.0, 256)),
    "ties at the ends": (
        lambda rng, n: rng.choice([-5.0, 0.0, 50.0, 1e9], n, p=[0.3, 0.3, 0.2, 0.2]),
        Scale(0, 100, 256),
    ),
}
QUANTILES = (0.5, 0.9, 0.95, 0.99)
RANGES = ((20, 90), (0, 130), (201, 256))
EPSILONS = (0.5, 1.0, 2.0, 4.0)
CROWDS = {10_000: 60, 100_000: 12, 1_000_000: 2}
"""Numbers of reports, with how often each is drawn in a round."""
WINDOWS, CHURN = 4, 0.1


def numbers_of(o: Haar, reports: np.ndarray, scale: Scale, independent: int | None = None) -> Numbers:
    tally = o.zeros()
    o.add(tally, reports)
    return Numbers(o.estimate(tally, len(reports), independent), scale)


def hits(shown: Numbers, positions: Ints) -> tuple[list[bool], list[bool]]:
    """Return whether the intervals of quantiles and ranges hold the truth."""
    edges, ordered = shown.scale.edges, np.sort(positions)
    quantiles, ranges = [], []
    for share in QUANTILES:
        place = int(ordered[int(np.ceil(share * len(ordered))) - 1])
        quantity = shown.quantile(share)
        quantiles.append(bool(quantity.low <= edges[place] and edges[place + 1] <= quantity.high))
    for first, last in RANGES:
        row = shown.range(float(edges[first]), float(edges[last]))
        ranges.append(bool(row.low <= np.mean((positions >= first) & (positions < last)) <= row.high))
    return quantiles, ranges


def coverage(rounds: int, seed: int = 1, crowds: dict[int, int] | None = None) -> Iterator[list[str]]:
    """Yield the coverage of each shape, of new clients and of panels, and of all together."""
    pooled: tuple[list[bool], list[bool]] = ([], [])
    for name, (draw, scale) in SHAPES.items():
        for panel in (False, True):
            own: tuple[list[bool], list[bool]] = ([], [])
            for shown, positions in _windows(draw, scale, rounds, seed, panel=panel, crowds=crowds or CROWDS):
                for part, new in zip(own, hits(shown, positions), strict=True):
                    part.extend(new)
            for total, part in zip(pooled, own, strict=True):
                total.extend(part)
            yield [
                name,
                "panels" if panel else "new clients",
                *(f"{np.mean(each):.1%}" for each in own),
                f"{len(own[0]) // len(QUANTILES):,}",
            ]
    yield ["all", "", *(f"{np.mean(each):.1%}" for each in pooled), f"{len(pooled[0]) // len(QUANTILES):,}"]


def _windows(
    draw: Draw, scale: Scale, rounds: int, seed: int, *, panel: bool, crowds: dict[int, int]
) -> Iterator[tuple[Numbers, Ints]]:
    """Yield windows with the bins of their clients. A panel answers for life in several windows, taken together."""
    rng = np.random.default_rng((seed, panel, scale.bins))
    for epsilon in EPSILONS:
        for n, times in crowds.items():
            for _ in range(rounds * times):
                if not panel:
                    positions = scale.positions(draw(rng, n))
                    o = oracle("haar", epsilon=epsilon, size=scale.bins)
                    yield numbers_of(o, o.perturb(positions, rng), scale), positions
                    continue
                o = oracle("haar", epsilon=epsilon, size=scale.bins, table=2)
                clients, columns = n // WINDOWS, []
                people = Respondents(o, clients, lambda *_: source(rng))
                values = draw(rng, clients)
                for _ in range(WINDOWS):
                    values = np.where(rng.random(clients) < CHURN, draw(rng, clients), values)
                    columns.append(scale.positions(values))
                reports = np.concatenate([people.reports(each) for each in columns])
                yield numbers_of(o, reports, scale, clients), np.concatenate(columns)


def rank_errors(
    rounds: int, seed: int = 2, crowds: tuple[int, ...] = (10_000, 100_000, 1_000_000)
) -> Iterator[list[str]]:
    """Yield the mean error in rank of each method, for each quantile and number of clients, epsilon 1."""
    for name, method in METHODS.items():
        cells = []
        for n in crowds:
            errors: list[list[float]] = []
            for number, (draw, scale) in enumerate(SHAPES.values()):
                for turn in range(rounds if n < 1_000_000 else 1):
                    rng = np.random.default_rng((seed, number, n, turn))
                    positions = scale.positions(draw(rng, n))
                    cdf = method(positions, scale.bins, 1.0, rng)
                    truth = np.cumsum(np.bincount(positions, minlength=scale.bins)) / n
                    errors.append([_rank_error(truth, cdf, share) for share in QUANTILES])
            cells.append(" ".join(f"{error:.3f}".removeprefix("0") for error in np.mean(errors, axis=0)))
        yield [name, *cells]


def _rank_error(truth: Floats, cdf: Floats, share: float) -> float:
    """Return how far the true rank of the estimated quantile's bin is from the quantile."""
    place = min(int(np.argmax(cdf >= share - 1e-12)), len(cdf) - 1)
    below = float(truth[place - 1]) if place else 0.0
    return max(0.0, below - share, share - float(truth[place]))


def forged(o: Haar, weights: Floats, count: int, rng: np.random.Generator, *, careful: bool) -> np.ndarray:
    """Return reports that lower a linear answer the most.

    A careful forger draws levels and rows like honest clients, and chooses the bit only. Another one sends the row with
    the largest effect.
    """
    effect = np.zeros(o.cells)
    for row in range(1, o.cells):
        level = (row & -row).bit_length() - 1
        sides = 1.0 - 2.0 * (np.bitwise_count(row & np.arange(o.cells)) & 1)
        effect[row] = float(weights @ sides) * 2.0 ** (o.levels - 1 - level) / o.cells
    rows = o.rows(count, rng) if careful else np.full((count, 1), int(np.argmax(np.abs(effect))))
    bits = (effect[rows[:, 0]] > 0).astype(np.int64)
    return o.pack(bits, rows)


def poisoning(n: int = 100_000, epsilon: float = 1.0, seed: int = 3) -> Iterator[list[str]]:
    """Yield what forgers do to p50, p95 and the mean of the log-normal shape."""
    draw, scale = SHAPES["log-normal"]
    o = oracle("haar", epsilon=epsilon, size=scale.bins)
    rng = np.random.default_rng(seed)
    positions = scale.positions(draw(rng, n))
    honest = o.perturb(positions, rng)
    truth = np.cumsum(np.bincount(positions, minlength=scale.bins)) / n
    for part in (0.001, 0.01, 0.05):
        fakes, bound = round(part * n), part * o.levels / (2.0 * o.tree.gap)
        clean = numbers_of(o, honest[fakes:], scale)
        for name, share in (("p50", 0.5), ("p95", 0.95), ("mean", None)):
            weights = (
                -scale.middles if share is None else (np.arange(scale.bins) <= int(np.argmax(truth >= share))) * 1.0
            )
            cells = []
            for careful in (True, False):
                reports = np.concatenate([honest[fakes:], forged(o, weights, fakes, rng, careful=careful)])
                tally = o.zeros()
                o.add(tally, reports)
                flag = ", `skewed`" if skewed(o, tally[-MARKS:], n, n) else ""
                shown = Numbers(o.estimate(tally, n), scale)
                if share is None:
                    cells.append(f"{clean.mean().value:,.0f} to {shown.mean().value:,.0f} ms{flag}")
                    continue
                place = int(np.argmax(truth >= share))
                raw, smooth = (
                    float(a[place] - b[place])
                    for a, b in ((clean.cumulative[0], shown.cumulative[0]), (clean.cdf, shown.cdf))
                )
                values = f"{clean.quantile(share).value:,.0f} to {shown.quantile(share).value:,.0f} ms"
                cells.append(f"{values}; rank {raw:.4f}, smoothed {smooth:.4f}{flag}")
            yield [f"{part:.1%}", name, *cells, "" if share is None else f"{bound:.4f}"]


def amplification(n: int = 100_000, epsilon: float = 1.0, seed: int = 4, rounds: int = 20) -> Iterator[list[str]]:
    """Yield by how much forgers raise the share of a range, before and after isotonic regression."""
    draw, scale = SHAPES["log-normal"]
    o, fakes = oracle("haar", epsilon=epsilon, size=scale.bins), round(0.01 * n)
    for first, last in ((200, 201), (200, 208), (128, 160), (96, 160), (128, 256)):
        raws, smooths = [], []
        for turn in range(rounds):
            rng = np.random.default_rng((seed, turn))
            honest = o.perturb(scale.positions(draw(rng, n)), rng)
            weights = np.zeros(scale.bins)
            weights[first:last] = -1.0
            reports = np.concatenate([honest[fakes:], forged(o, weights, fakes, rng, careful=True)])
            clean, shown = numbers_of(o, honest[fakes:], scale), numbers_of(o, reports, scale)
            shares = [np.diff(each.cdf[[first - 1, last - 1]])[0] for each in (clean, shown)]
            raws.append(shown.estimate.shares[first:last].sum() - clean.estimate.shares[first:last].sum())
            smooths.append(shares[1] - shares[0])
        raw, smooth = float(np.mean(raws)), float(np.mean(smooths))
        yield [f"{last - first} bins from bin {first}", f"{raw:.4f}", f"{smooth:.4f}", f"{smooth / raw:.2f}"]


def speed() -> Iterator[list[str]]:
    """Yield the time of the fields of a record, and of adding reports beside `hr`."""
    from aggregator.publishing.records.number_rows import number_fields
    from oracles.query import parse

    for bins in (256, 1_024, 65_536):
        table = {"domain": {"low": 1, "high": 60_000, "scale": "log", "bins": bins}, "epsilon": 1.0, "pane": "10s"}
        query = parse({"edition": 2, "queries": {"q": table}}, "benchmark", ".")["q"]
        scale, o = query.domains[0].scale, query.oracle
        rng = np.random.default_rng(5)
        positions = scale.positions(rng.lognormal(6.3, 0.8, 200_000))
        reports = o.perturb(positions, rng)
        tally = o.zeros()
        add = _least(lambda o=o, reports=reports: o.add(o.zeros(), reports))
        hr = oracle("hr", epsilon=1.0, size=bins)
        others = hr.perturb(positions, rng)
        beside = _least(lambda hr=hr, others=others: hr.add(hr.zeros(), others))
        o.add(tally, reports)

        def record(o=o, tally=tally, scale=scale, query=query) -> None:
            shown = Numbers(o.estimate(tally, 200_000), scale)
            number_fields(shown, query.domains[0], query.quantiles, query.ranges)

        yield [f"{bins:,}", f"{1000 * _least(record):.1f} ms", f"{add / beside:.2f}"]


def _least(act: Callable[[], object], times: int = 7) -> float:
    """Return the least CPU seconds of several calls, after one."""
    act()
    seconds = []
    for _ in range(times):
        begin = time.process_time()
        act()
        seconds.append(time.process_time() - begin)
    return min(seconds)


PARTS: dict[str, tuple[list[str], Callable[[int], Iterator[list[str]]]]] = {
    "speed": (["bins", "the fields of a record", "adding, as a multiple of `hr`"], lambda _: speed()),
    "coverage": (["shape", "clients", "quantiles", "ranges", "windows"], coverage),
    "methods": (
        ["p50 p90 p95 p99", "n = 10,000", "n = 100,000", "n = 1,000,000"],
        lambda rounds: rank_errors(3 * rounds),
    ),
    "poisoning": (
        ["forgers", "of", "like honest clients", "the strongest row", "bound in rank"],
        lambda _: poisoning(),
    ),
    "amplification": (["range", "raw", "smoothed", "ratio"], lambda _: amplification()),
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the estimates of numbers.")
    parser.add_argument("--rounds", type=int, default=1, help="rounds of windows (default: 1)")
    parser.add_argument("--only", nargs="*", choices=PARTS, default=list(PARTS), help="parts to measure")
    parser.add_argument("--write", action="store_true", help="write the tables into docs/numbers.md")
    options = parser.parse_args()
    for name in options.only:
        head, rows = PARTS[name]
        lines = [head, ["--"] * len(head), *rows(options.rounds)]
        text = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        print(f"{name}\n{text}\n", flush=True)
        if options.write:
            page = PAGE.read_text()
            block = rf"(<!-- {name} -->\n).*?(<!-- end -->)"
            PAGE.write_text(
                re.sub(block, lambda match, text=text: f"{match[1]}{text}\n{match[2]}", page, flags=re.DOTALL)
            )


if __name__ == "__main__":
    main()
