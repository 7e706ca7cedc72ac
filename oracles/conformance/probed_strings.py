"""Unknown strings for `probe`: a fixed list of texts stands for the positions of a domain."""

from typing import NamedTuple

import numpy as np

from oracles.discover import Slots
from oracles.types import Ints, Reports

# Several of these share a prefix, or a cell of it: a client that leaks prefixes is told apart by them.
TEXTS = (
    "",
    "oom",
    "segfault",
    "TypeError:x-is-undefined",
    "TypeError:y-is-undefined",
    "RangeError:stack-overflow",
    "caf\N{LATIN SMALL LETTER E WITH ACUTE}",
    "cafe\N{COMBINING ACUTE ACCENT}s",
    "\N{CJK UNIFIED IDEOGRAPH-65E5}\N{CJK UNIFIED IDEOGRAPH-672C}",
    "a" * 200,
    *(f"word-{number}" for number in range(54)),
)
"""Texts without white space: a client in another process reads several on a line."""


class PartReports(NamedTuple):
    """The reports of one level or map."""

    rows: Ints
    """Places of the reports among all."""
    reports: Reports
    """Reports of the cells."""
    cell: int


class ProbedStrings:
    """The oracle of unknown strings, whose values are the texts of the list."""

    def __init__(self, slots: Slots) -> None:
        self.slots = slots
        self.cell_oracle = slots.cell_oracle
        self.cells = slots.strings.cells_of_many(TEXTS)
        self.size = len(TEXTS)
        self.width = slots.width
        self.epsilon = slots.epsilon

    def check(self, reports: Reports) -> int | None:
        return self.slots.check(reports)

    def bound(self, classes: int) -> float:
        return self.cell_oracle.bound(classes)

    def parts(self, reports: Reports, value: int) -> list[PartReports]:
        """Return the reports of each level and map, with the cell that the text has there."""
        part_of_report = np.ascontiguousarray(reports[:, :2]).view("<u2")[:, 0]
        parts = []
        for part in np.unique(part_of_report).tolist():
            rows = np.flatnonzero(part_of_report == part)
            parts.append(PartReports(rows, np.ascontiguousarray(reports[rows, 2:]), int(self.cells[value, part])))
        return parts

    def name(self, value: int) -> str:
        """Return the text at a position, as Python writes it."""
        return repr(TEXTS[value])

    def texts(self, values: Ints) -> "np.ndarray[tuple[int, ...], np.dtype[np.object_]]":
        """Return the texts of positions."""
        return np.array(TEXTS, object)[values]
