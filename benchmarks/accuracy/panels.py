"""Clients that repeat their answers: two simulated years, sums over windows, and what panels know about change."""

from collections.abc import Iterator
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

TEXT = f"""Real answers through the client's own code. Two years: {PANELS} panels of {PEOPLE:,} people, {DAYS} days,
63 values; one person in ten changes each day, and from day {DAYS // 2} on a new value takes 30%. *Error* is the root
mean square of (estimated - true) / stated standard error, 1 where the statement is right. Panels: {PEOPLE:,} people
who answer for life with `hr`, epsilon 2, {SIZE} values, each day a part of them draws a new value."""


def run(track: Track, folder: Path) -> Section:
    del folder
    section = Section(TEXT)
    queries = [(name, seed) for name in (*years.QUERIES, years.OLD) for seed in range(PANELS)]
    lived: dict[str, list[years.Panel]] = {}
    for name, seed in track(queries, description="two years"):
        known = years.QUERIES.get(name)
        panel = years.old(PEOPLE, DAYS, seed) if known is None else years.present(known, PEOPLE, DAYS, seed)
        lived.setdefault(name, []).append(panel)
    cells = {churn: followed(churn, track) for churn in CHURN}
    section.tables += [_years(lived), _changes(cells), _sums(cells)]
    section.claims += _claims(lived, cells)
    return section


def panel(o: Oracle, churn: float, rng: np.random.Generator) -> Iterator[tuple[Estimate, Floats, np.ndarray]]:
    """Each day's estimate, true shares and tally, of clients with one report a class."""
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


class Followed:
    """Figures of many panels with one churn."""

    def __init__(self) -> None:
        self.width: dict[int, list[float]] = {1: [], 7: [], 29: []}
        """Standard error of a change over so many days, as a part of the independent one."""
        self.beyond: list[tuple[float, float]] = []
        self.alike: dict[int, list[float]] = {1: [], 29: []}
        self.right: list[tuple[float, float]] = []
        """Of all days together: error by n_independent, and coverage."""
        self.wrong: list[tuple[float, float]] = []
        """The same, had n been taken."""

    def add(self, days: list[tuple[Estimate, Floats, np.ndarray]]) -> None:
        first, true, _ = days[0]
        for gap, found in self.width.items():
            later, now, _ = days[gap]
            moved, stderr = change(first, later)
            found.append(float(np.median(stderr / change(first, later, panel=False)[1])))
            z = (moved - (now - true)) / stderr
            self.beyond.append((float((np.abs(z) > 1.96).mean()), float((np.abs(z) > 3.29).mean())))
        for gap, found in self.alike.items():
            found.append(float(np.corrcoef(first.shares - true, days[gap][0].shares - days[gap][1])[0, 1]))
        o = first.oracle
        state, n = sum(day[2] for day in days), WINDOWS * PEOPLE
        mean = np.mean([day[1] for day in days], axis=0)
        for independent, told in ((PEOPLE, self.right), (n, self.wrong)):
            e = o.estimate(state, n, independent)
            low, high = e.interval()
            told.append((
                float(np.sqrt(np.mean(((e.shares - mean) / e.noise.stderr(mean)) ** 2))),
                float(((low <= mean) & (mean <= high)).mean()),
            ))  # fmt: skip


def followed(churn: float, track: Track) -> Followed:
    o, rng, found = oracle("hr", epsilon=2.0, size=SIZE), seeded("panels", churn), Followed()
    for _ in track(range(ROUNDS), description=f"panels, {churn:.0%} a day"):
        found.add(list(panel(o, churn, rng)))
    return found


def _squares(panels: list[years.Panel]) -> Figure:
    return Figure.of(float(np.sqrt(np.mean(p.squares))) for p in panels)


def _covered(panels: list[years.Panel]) -> Figure:
    return Figure.of(float(np.mean(p.covered)) for p in panels)


def _years(lived: dict[str, list[years.Panel]]) -> Table:
    rows = []
    for name, panels in lived.items():
        answers = sum(p.answers for p in panels) / (len(panels) * PEOPLE * DAYS)
        silent = {p.silent_from for p in panels} - {None}
        quiet = f"from day {min(silent)} on" if silent else "nobody"
        worst = max(p.worst for p in panels)
        rows.append([name, f"{answers:.1%}", quiet, str(_squares(panels)), str(_covered(panels)), f"{worst:.1f}"])
    head = ["", "answers given", "all silent", "error", "coverage", "commonest value off by at most (stderr)"]
    note = "The client of old paid for each new *value* and fell silent with its fifth: silence tells what they hold."
    return Table("Two years", note, head, rows)


def _changes(cells: dict[float, Followed]) -> Table:
    rows = []
    for churn, found in cells.items():
        widths = [str(Figure.of(found.width[gap])) for gap in found.width]
        alike = [str(Figure.of(found.alike[gap])) for gap in found.alike]
        beyond = [f"{np.mean([b[i] for b in found.beyond]):.3%}" for i in (0, 1)]
        rows.append([f"{churn:.0%}", *widths, *beyond, *alike])
    note = (
        "Standard error of a change (`oracles.estimate.change`) after 1, 7 and 29 days as a part of what independent"
        f" clients would have; parts of {ROUNDS * 3 * SIZE:,} changes whose error is beyond 1.96 and 3.29 of it (5% and"
        " 0.1% at most are meant); and how alike the errors of two windows are (correlation)."
    )
    head = ["new a day", "1 day", "7 days", "29 days", "beyond 1.96", "beyond 3.29", "alike, 1 day", "alike, 29 days"]
    return Table("Changes on a panel", note, head, rows)


def _sums(cells: dict[float, Followed]) -> Table:
    rows = []
    for churn, found in cells.items():
        numbers = [Figure.of(pair[i] for pair in told) for told in (found.right, found.wrong) for i in (0, 1)]
        rows.append([f"{churn:.0%}", *map(str, numbers)])
    note = (
        f"All {WINDOWS} days in one window: with n_independent = n/{WINDOWS}, as published, and had all n been taken."
    )
    head = ["new a day", "error", "coverage", "error, by n", "coverage, by n"]
    return Table("Sums over windows", note, head, rows)


def _claims(lived: dict[str, list[years.Panel]], cells: dict[float, Followed]) -> list[Claim]:
    ours = {name: panels for name, panels in lived.items() if name != years.OLD}
    errors = [_squares(panels) for panels in ours.values()]
    covered = [_covered(panels).mean for panels in ours.values()]
    silent = [n for n, panels in ours.items() if any(p.silent_from is not None for p in panels) and "default" not in n]
    old, right = _squares(lived[years.OLD]), [pair for found in cells.values() for pair in found.right]
    beyond = max(float(np.mean([b[0] for b in found.beyond])) for found in cells.values())
    covers = [cover for _, cover in right]
    by_n = [cover for found in cells.values() for _, cover in found.wrong]
    stated = not silent and all(abs(e.mean - 1.0) < 0.05 for e in errors)
    return [
        Claim(
            "hubbub",
            "clients that answer for life never fall silent, and their errors are those stated",
            "yes" if stated else "no",
            f"error {min(e.mean for e in errors):.3f} to {max(e.mean for e in errors):.3f}, coverage {min(covered):.3f}"
            f" to {max(covered):.3f}; the client of old: error {old}",
        ),
        Claim(
            "hubbub",
            "intervals of sums over windows hold by n_independent",
            "yes" if np.mean(covers) > 0.95 else "no",
            f"coverage {np.mean(covers):.3f}; by n it would be {np.mean(by_n):.3f}",
        ),
        Claim(
            "hubbub",
            "the error of a change on a panel is measured, and not too small",
            "yes" if beyond < 0.055 else "no",
            f"at most {beyond:.2%} beyond 1.96",
        ),
    ]
