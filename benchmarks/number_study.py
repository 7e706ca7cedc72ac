"""The benchmark of numbers: speed, coverage, rank errors beside other methods, and what forgers can do.

python -m benchmarks.number_study [--rounds N] [--write]
"""

from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.harness import ROOT, arguments, best, query_of, show, table_of, write_block
from benchmarks.number_methods import METHODS
from oracles import oracle
from oracles.mechanisms.entropy import source
from oracles.mechanisms.haar import Haar
from oracles.multi.forgery import skewed
from oracles.numbers import Numbers, Scale
from oracles.types import MARKS, Floats, Ints
from producers.client.respondents import Respondents

PAGE = ROOT / "docs" / "numbers.md"
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
    edges = shown.scale.edges
    ordered = np.sort(positions)
    quantiles = []
    ranges = []
    for share in QUANTILES:
        place = int(ordered[int(np.ceil(share * len(ordered))) - 1])
        quantity = shown.quantile(share)
        quantiles.append(bool(quantity.low <= edges[place] and edges[place + 1] <= quantity.high))
    for start, end in RANGES:
        row = shown.range(float(edges[start]), float(edges[end]))
        ranges.append(bool(row.low <= np.mean((positions >= start) & (positions < end)) <= row.high))
    return quantiles, ranges


def coverage(rounds: int, seed: int = 1, crowds: dict[int, int] | None = None) -> Iterator[list[str]]:
    """Yield the coverage of each shape, of new clients and of panels, and of all together."""
    pooled: tuple[list[bool], list[bool]] = ([], [])
    for name, (draw, scale) in SHAPES.items():
        for panel in (False, True):
            panel_hits: tuple[list[bool], list[bool]] = ([], [])
            for shown, positions in _windows(draw, scale, rounds, seed, panel=panel, crowds=crowds or CROWDS):
                for part, window_hits in zip(panel_hits, hits(shown, positions), strict=True):
                    part.extend(window_hits)
            for total, part in zip(pooled, panel_hits, strict=True):
                total.extend(part)
            yield [
                name,
                "panels" if panel else "new clients",
                *(f"{np.mean(hit_list):.1%}" for hit_list in panel_hits),
                f"{len(panel_hits[0]) // len(QUANTILES):,}",
            ]
    yield ["all", "", *(f"{np.mean(hit_list):.1%}" for hit_list in pooled), f"{len(pooled[0]) // len(QUANTILES):,}"]


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
                clients = n // WINDOWS
                columns = []
                people = Respondents(o, clients, lambda *_: source(rng))
                values = draw(rng, clients)
                for _ in range(WINDOWS):
                    values = np.where(rng.random(clients) < CHURN, draw(rng, clients), values)
                    columns.append(scale.positions(values))
                # A client repeats its noise, so only the number of clients counts as independent.
                reports = np.concatenate([people.reports(column) for column in columns])
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
                # One turn of a million clients has less noise than many of ten thousand.
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
    rank_below = float(truth[place - 1]) if place else 0.0
    return max(0.0, rank_below - share, share - float(truth[place]))


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
        fakes = round(part * n)
        bound = part * o.levels / (2.0 * o.tree.gap)
        # Forgers replace honest clients, so both estimates have about as many reports.
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
    o = oracle("haar", epsilon=epsilon, size=scale.bins)
    fakes = round(0.01 * n)
    for start, end in ((200, 201), (200, 208), (128, 160), (96, 160), (128, 256)):
        raws = []
        smooths = []
        for turn in range(rounds):
            rng = np.random.default_rng((seed, turn))
            honest = o.perturb(scale.positions(draw(rng, n)), rng)
            weights = np.zeros(scale.bins)
            weights[start:end] = -1.0
            reports = np.concatenate([honest[fakes:], forged(o, weights, fakes, rng, careful=True)])
            clean = numbers_of(o, honest[fakes:], scale)
            shown = numbers_of(o, reports, scale)
            shares = [np.diff(numbers.cdf[[start - 1, end - 1]])[0] for numbers in (clean, shown)]
            raws.append(shown.estimate.shares[start:end].sum() - clean.estimate.shares[start:end].sum())
            smooths.append(shares[1] - shares[0])
        raw = float(np.mean(raws))
        smooth = float(np.mean(smooths))
        yield [f"{end - start} bins from bin {start}", f"{raw:.4f}", f"{smooth:.4f}", f"{smooth / raw:.2f}"]


def speed() -> Iterator[list[str]]:
    """Yield the time of the fields of a record, and of adding reports beside `hr`."""
    from aggregator.records.number_rows import number_fields

    for bins in (256, 1_024, 65_536):
        query = query_of(edition=2, domain={"low": 1, "high": 60_000, "scale": "log", "bins": bins})
        scale = query.domains[0].scale
        o = query.oracle
        rng = np.random.default_rng(5)
        positions = scale.positions(rng.lognormal(6.3, 0.8, 200_000))
        reports = o.perturb(positions, rng)
        tally = o.zeros()
        add = best(lambda o=o, reports=reports: o.add(o.zeros(), reports))
        hr = oracle("hr", epsilon=1.0, size=bins)
        hr_reports = hr.perturb(positions, rng)
        hr_seconds = best(lambda hr=hr, hr_reports=hr_reports: hr.add(hr.zeros(), hr_reports))
        o.add(tally, reports)

        def record(o=o, tally=tally, scale=scale, query=query) -> None:
            shown = Numbers(o.estimate(tally, 200_000), scale)
            number_fields(shown, query.domains[0], query.quantiles, query.ranges)

        yield [f"{bins:,}", f"{1000 * best(record):.1f} ms", f"{add / hr_seconds:.2f}"]


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
    options = arguments(
        "Measure the estimates of numbers.",
        rounds=(1, "rounds of windows"),
        only=(list(PARTS), "parts to measure"),
        write=(False, "write the tables into docs/numbers.md"),
    )
    for name in options.only:
        head, rows = PARTS[name]
        text = table_of(head, rows(options.rounds))
        show(f"{name}\n{text}\n")
        if options.write:
            write_block(PAGE, name, text)


if __name__ == "__main__":
    main()
