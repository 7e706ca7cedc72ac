"""The study of clients that repeat their answers: two simulated years, sums over windows, and changes."""

from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np

from benchmarks import years
from benchmarks.accuracy.study import Claim, Figure, Section, Table, Track, seeded
from oracles import Estimate, Oracle, oracle
from oracles.estimate import change
from oracles.types import Floats

PANELS, PEOPLE, DAYS = 4, 20_000, 730
CHURN = (0.01, 0.1, 1.0)
SIZE = 255
WINDOWS = 30
ROUNDS = 200

TEXT = f"""Real answers from the client's own code. The two years have {PANELS} panels of {PEOPLE:,} people,
{DAYS} days and 63 values. One person in ten changes each day, and from day {DAYS // 2} on a new value has 30%.
*Error* is the root mean square of (estimated - true) / stated standard error. It is 1 if the stated error is
right. A panel has {PEOPLE:,} people who answer for life with `hr`, epsilon 2 and {SIZE} values. Each day some
of them draw a new value."""


def run(track: Track, folder: Path) -> Section:
    del folder
    section = Section(TEXT)
    queries = list(product((*years.QUERIES, years.OLD), range(PANELS)))
    panels_by_query: dict[str, list[years.Panel]] = {}
    for name, seed in track(queries, description="two years"):
        query = years.QUERIES.get(name)
        panel = years.old(PEOPLE, DAYS, seed) if query is None else years.present(query, PEOPLE, DAYS, seed)
        panels_by_query.setdefault(name, []).append(panel)
    cells = {churn: panel_figures(churn, track) for churn in CHURN}
    section.tables += [_years(panels_by_query), _changes(cells), _sums(cells)]
    section.claims += _claims(panels_by_query, cells)
    return section


def panel(o: Oracle, churn: float, rng: np.random.Generator) -> Iterator[tuple[Estimate, Floats, np.ndarray]]:
    """Yield each day's estimate, true shares and tally, for clients with one report per class."""
    weights = np.arange(1, SIZE + 1) ** -1.1
    weights /= weights.sum()
    rows = o.rows(PEOPLE, rng)
    memory = np.stack([o.answer(np.full(PEOPLE, c), rows, rng) for c in range(o.classes)])
    values = rng.choice(SIZE, PEOPLE, p=weights)
    for _ in range(WINDOWS):
        state = o.zeros()
        o.add(state, memory[o.classify(values, rows), np.arange(PEOPLE)])
        yield o.estimate(state, PEOPLE), np.bincount(values, minlength=SIZE) / PEOPLE, state
        values = np.where(rng.random(PEOPLE) < churn, rng.choice(SIZE, PEOPLE, p=weights), values)


class PanelFigures:
    """Figures of many panels with one churn."""

    def __init__(self) -> None:
        self.width: dict[int, list[float]] = {1: [], 7: [], 29: []}
        """Standard error of a change over this many days, relative to independent clients."""
        self.beyond: list[tuple[float, float]] = []
        self.correlations: dict[int, list[float]] = {1: [], 29: []}
        self.with_independent: list[tuple[float, float]] = []
        """Error and coverage of all days together, with n_independent."""
        self.with_n: list[tuple[float, float]] = []
        """Error and coverage of all days together, with n."""

    def add(self, days: list[tuple[Estimate, Floats, np.ndarray]]) -> None:
        first, true, _ = days[0]
        for gap, numbers in self.width.items():
            later, now, _ = days[gap]
            difference, stderr = change(first, later)
            numbers.append(float(np.median(stderr / change(first, later, panel=False)[1])))
            z = (difference - (now - true)) / stderr
            self.beyond.append((float((np.abs(z) > 1.96).mean()), float((np.abs(z) > 3.29).mean())))
        for gap, numbers in self.correlations.items():
            numbers.append(float(np.corrcoef(first.shares - true, days[gap][0].shares - days[gap][1])[0, 1]))
        o = first.oracle
        state = sum(day[2] for day in days)
        n = WINDOWS * PEOPLE
        mean = np.mean([day[1] for day in days], axis=0)
        for independent, pairs in ((PEOPLE, self.with_independent), (n, self.with_n)):
            e = o.estimate(state, n, independent)
            low, high = e.interval()
            pairs.append((
                float(np.sqrt(np.mean(((e.shares - mean) / e.noise.stderr(mean)) ** 2))),
                float(((low <= mean) & (mean <= high)).mean()),
            ))  # fmt: skip


def panel_figures(churn: float, track: Track) -> PanelFigures:
    o = oracle("hr", epsilon=2.0, size=SIZE)
    rng = seeded("panels", churn)
    figures = PanelFigures()
    for _ in track(range(ROUNDS), description=f"panels, {churn:.0%} a day"):
        figures.add(list(panel(o, churn, rng)))
    return figures


def _squares(panels: list[years.Panel]) -> Figure:
    return Figure.of(float(np.sqrt(np.mean(p.squares))) for p in panels)


def _coverage(panels: list[years.Panel]) -> Figure:
    return Figure.of(float(np.mean(p.coverage)) for p in panels)


def _years(panels_by_query: dict[str, list[years.Panel]]) -> Table:
    rows = []
    for name, panels in panels_by_query.items():
        answers = sum(p.answers for p in panels) / (len(panels) * PEOPLE * DAYS)
        silent = {p.silent_from for p in panels} - {None}
        quiet = f"from day {min(silent)} on" if silent else "nobody"
        worst = max(p.worst for p in panels)
        rows.append([name, f"{answers:.1%}", quiet, str(_squares(panels)), str(_coverage(panels)), f"{worst:.1f}"])
    head = ["", "answers given", "all silent", "error", "coverage", "largest error of the most common value (stderr)"]
    note = "The old client paid for each new *value*, and was silent from its fifth on. So silence revealed values."
    return Table("Two years", note, head, rows)


def _changes(cells: dict[float, PanelFigures]) -> Table:
    rows = []
    for churn, figures in cells.items():
        widths = [str(Figure.of(figures.width[gap])) for gap in figures.width]
        correlations = [str(Figure.of(figures.correlations[gap])) for gap in figures.correlations]
        beyond = [f"{np.mean([b[i] for b in figures.beyond]):.3%}" for i in (0, 1)]
        rows.append([f"{churn:.0%}", *widths, *beyond, *correlations])
    note = (
        "Standard error of a change (`oracles.estimate.change`) after 1, 7 and 29 days, relative to independent"
        f" clients; share of {ROUNDS * 3 * SIZE:,} changes with an error beyond 1.96 and 3.29 standard errors (at most"
        " 5% and 0.1% are intended); correlation of the errors of two windows."
    )
    head = ["new per day", "1 day", "7 days", "29 days", "beyond 1.96", "beyond 3.29"]
    head += ["correlation, 1 day", "correlation, 29 days"]
    return Table("Changes on a panel", note, head, rows)


def _sums(cells: dict[float, PanelFigures]) -> Table:
    rows = []
    for churn, figures in cells.items():
        numbers = [
            Figure.of(pair[i] for pair in pairs)
            for pairs, i in product((figures.with_independent, figures.with_n), (0, 1))
        ]
        rows.append([f"{churn:.0%}", *map(str, numbers)])
    note = f"All {WINDOWS} days in one window, with n_independent = n/{WINDOWS} as published, and with n instead."
    head = ["new per day", "error", "coverage", "error with n", "coverage with n"]
    return Table("Sums over windows", note, head, rows)


def _claims(panels_by_query: dict[str, list[years.Panel]], cells: dict[float, PanelFigures]) -> list[Claim]:
    ours = {name: panels for name, panels in panels_by_query.items() if name != years.OLD}
    errors = [_squares(panels) for panels in ours.values()]
    coverages = [_coverage(panels).mean for panels in ours.values()]
    silent = [n for n, panels in ours.items() if any(p.silent_from is not None for p in panels) and "default" not in n]
    old = _squares(panels_by_query[years.OLD])
    right = [pair for figures in cells.values() for pair in figures.with_independent]
    beyond = max(float(np.mean([b[0] for b in figures.beyond])) for figures in cells.values())
    covers = [cover for _, cover in right]
    by_n = [cover for figures in cells.values() for _, cover in figures.with_n]
    is_right = not silent and all(abs(e.mean - 1.0) < 0.05 for e in errors)
    return [
        Claim(
            "hubbub",
            "clients that answer for life are never silent, and their errors are as stated",
            "yes" if is_right else "no",
            f"error {min(e.mean for e in errors):.3f} to {max(e.mean for e in errors):.3f}, coverage"
            f" {min(coverages):.3f} to {max(coverages):.3f}; the old client: error {old}",
        ),
        Claim(
            "hubbub",
            "intervals of sums over windows contain the truth with n_independent",
            "yes" if np.mean(covers) > 0.95 else "no",
            f"coverage {np.mean(covers):.3f}; with n it would be {np.mean(by_n):.3f}",
        ),
        Claim(
            "hubbub",
            "the stated error of a change on a panel is not too small",
            "yes" if beyond < 0.055 else "no",
            f"at most {beyond:.2%} beyond 1.96",
        ),
    ]
