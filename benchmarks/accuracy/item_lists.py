"""Lists of heavy hitters at many thresholds, and of the most frequent values, against the truth of a set of items."""

from collections.abc import Mapping
from itertools import pairwise, product

import numpy as np

from benchmarks.accuracy.study import Claim, Figure, Line, Panel, Plot, Table, verdict
from oracles import Estimate
from oracles.heavy import Evidence
from oracles.types import Flags, Floats

OUE, ZERO, DECIDED = "OUE", "OUE-Zero", "`decided`"
CALIBRATE, MOMENTS, BEST = "Calibrate", "Calibrate, mean and variance", "Calibrate, best"
LISTS = (OUE, ZERO, CALIBRATE, MOMENTS, BEST, DECIDED)
PARTS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0)
"""Thresholds as parts of T."""
TOPS = (2, 4, 8, 16, 32)
PAPER = "Jia and Gong"


class ItemLists:
    """The lists of all runs at one epsilon."""

    def __init__(self, epsilon: float, truth: Floats) -> None:
        self.epsilon = epsilon
        self._truth = truth
        self._down = np.argsort(-truth, kind="stable")
        self._hits: dict[tuple[str, float], list[tuple[float, float]]] = {}
        self._tops: dict[int, list[float]] = {k: [] for k in TOPS}

    def judge(self, e: Estimate, shares: Mapping[str, Floats]) -> None:
        """Add one run. `shares` has those of each list but `decided`."""
        t = e.noise.significance(len(self._truth), 0.05)
        for part in PARTS:
            heavy = self._truth >= part * t
            # At T its own test decides. A number as threshold asks for a proof that the share is above the number.
            proofs = np.zeros(len(heavy), np.bool_)
            proofs[Evidence(e, "significance" if part == 1.0 else part * t).decided] = True
            for label in LISTS:
                members = proofs if label == DECIDED else shares[label] >= part * t
                self._hits.setdefault((label, part), []).append(_precision_recall(members, heavy))

        down = np.argsort(-e.shares, kind="stable")
        for k, parts in self._tops.items():
            parts.append(len(np.intersect1d(down[:k], self._down[:k])) / k)

    def scores(self, label: str, part: float) -> tuple[Figure, Figure, Figure]:
        """Return precision, recall and F1."""
        pairs = np.array(self._hits[label, part])
        f1 = 2.0 * pairs[:, 0] * pairs[:, 1] / np.maximum(pairs.sum(axis=1), 1e-12)
        return Figure.of(pairs[:, 0]), Figure.of(pairs[:, 1]), Figure.of(f1)

    def f1(self, label: str, part: float) -> Figure:
        return self.scores(label, part)[2]

    def top(self, k: int) -> Figure:
        return Figure.of(self._tops[k])


def _precision_recall(members: Flags, heavy: Flags) -> tuple[float, float]:
    hits = float((members & heavy).sum())
    precision = hits / int(members.sum()) if members.any() else 1.0
    recall = hits / int(heavy.sum()) if heavy.any() else 1.0
    return precision, recall


def tables(lists: list[ItemLists]) -> list[Table]:
    return [_at_t(lists), _at_parts(lists), _tops(lists)]


def _at_t(lists: list[ItemLists]) -> Table:
    rows = [[f"{own.epsilon:g}", label, *map(str, own.scores(label, 1.0))] for own, label in product(lists, LISTS)]
    note = (
        "A value is heavy if its true share is at least T, and listed if its share by the method is at least T."
        " An empty list has precision 1. `decided` is this library's own list,"
        " by exact tails and Holm's procedure at 5%. It proves that the share is above 0, and not that it is above T."
        " *Calibrate, best* takes the prior `best`."
    )
    return Table("Heavy hitters at T", note, ["epsilon", "list", "precision", "recall", "F1"], rows)


def _at_parts(lists: list[ItemLists]) -> Table:
    rows = []
    for own, part in product(lists, PARTS):
        cells = [" / ".join(f"{figure.mean:.3f}" for figure in own.scores(label, part)) for label in LISTS]
        rows.append([f"{own.epsilon:g}", f"{part:g} T", *cells])
    errors = [figure.stderr for own, part, label in product(lists, PARTS, LISTS) for figure in own.scores(label, part)]
    note = (
        "The same lists at other thresholds: precision / recall / F1. There `decided` proves a share above the"
        f" threshold, except at T. The standard errors are at most {max(errors):.3f}."
    )
    return Table("Heavy hitters at parts of T", note, ["epsilon", "threshold", *LISTS], rows)


def _tops(lists: list[ItemLists]) -> Table:
    rows = [[f"{own.epsilon:g}", *(str(own.top(k)) for k in TOPS)] for own in lists]
    note = (
        "The part of the k values with the largest shares that is among the k most frequent in truth. All lists keep"
        " the order of the shares of OUE, so it is the same for all of them."
    )
    return Table("Precision of the top k", note, ["epsilon", *(f"k = {k}" for k in TOPS)], rows)


def plot(data: str, lists: list[ItemLists]) -> Plot:
    def line(own: ItemLists, label: str) -> Line:
        figures = [own.f1(label, part) for part in PARTS]
        return Line(label.strip("`"), list(PARTS), [f.mean for f in figures], [f.stderr for f in figures])

    panels = [
        Panel(f"epsilon {own.epsilon:g}", "threshold / T", "F1", [line(own, label) for label in LISTS], "x")
        for own in lists
    ]
    return Plot(f"thresholds-{data.lower()}", f"{data}, OUE: F1 of the lists of heavy hitters by threshold.", panels)


def claims(data: str, lists: list[ItemLists]) -> list[Claim]:
    """Return whether Calibrate's lists are better, as the paper's Figures 5, 6, 8 and 9 say."""
    cells = list(product(lists, PARTS))
    gains = {label: _wins(cells, label, of=2) for label in (CALIBRATE, BEST)}
    precise, recalled = (_wins(cells, CALIBRATE, of=number) for number in (0, 1))
    at_t = [(own.f1(CALIBRATE, 1.0).mean, own.f1(OUE, 1.0).mean) for own in lists]
    above = [part for part in PARTS if part >= 1.0]
    same = sum(own.scores(ZERO, part) == own.scores(OUE, part) for own, part in product(lists, above))
    below = [
        [[own.scores(ZERO, part)[number].mean for part in PARTS if part <= 1.0] for number in (0, 1)] for own in lists
    ]
    keeps = sum(_falls(precisions) and _falls(recalls[::-1]) for precisions, recalls in below)
    gain_at = {
        part: Figure.of(own.f1(CALIBRATE, part).mean - own.f1(OUE, part).mean for own in lists) for part in PARTS
    }
    largest = max(PARTS, key=lambda part: gain_at[part].mean)
    return [
        Claim(
            PAPER, f"{data}: Calibrate's list of heavy hitters is better at T",
            verdict(sum(ours >= plain for ours, plain in at_t), len(lists)),
            "F1, with and without Calibrate: " + "; ".join(f"{ours:.3f}, {plain:.3f}" for ours, plain in at_t),
        ),
        Claim(
            PAPER, f"{data}: this list is better at all thresholds and epsilons",
            verdict(gains[CALIBRATE], len(cells)),
            f"a higher F1 than OUE, or the same, in {gains[CALIBRATE]} of {len(cells)} cells; with `best` in"
            f" {gains[BEST]}",
        ),
        Claim(
            PAPER, f"{data}: this list has a higher precision and a lower recall",
            verdict(min(precise, len(cells) - recalled), len(cells)),
            f"precision as high or higher in {precise} of {len(cells)} cells, recall as high or higher in {recalled}",
        ),
        Claim(
            PAPER, f"{data}: from T on, OUE and OUE-Zero list the same values",
            verdict(same, len(lists) * len(above)), f"the same scores in {same} of {len(lists) * len(above)} cells",
        ),
        Claim(
            PAPER, f"{data}: below T, OUE-Zero keeps its list, whose precision rises and recall falls",
            verdict(keeps, len(lists)), f"at {keeps} of {len(lists)} epsilons",
        ),
        Claim(
            PAPER, f"{data}: its gain is larger at small thresholds",
            "yes" if _falls([gain.mean for gain in gain_at.values()]) else f"no, it is largest at {largest:g} T",
            "mean gain in F1 over all epsilons: "
            + "; ".join(f"{gain.mean:+.3f} at {part:g} T" for part, gain in gain_at.items()),
        ),
    ]  # fmt: skip


def _wins(cells: list[tuple[ItemLists, float]], label: str, *, of: int) -> int:
    """Return in how many cells a list is as good as that of OUE, or better, by one of the three scores."""
    return sum(own.scores(label, part)[of].mean >= own.scores(OUE, part)[of].mean for own, part in cells)


def _falls(numbers: list[float]) -> bool:
    return all(a >= b for a, b in pairwise(numbers))
