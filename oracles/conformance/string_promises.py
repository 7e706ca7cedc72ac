"""The promises of the oracle of unknown strings, for `check`."""

from collections.abc import Callable
from functools import partial

import numpy as np

from oracles.conformance.method_promises import FALSE_ALARM, hold
from oracles.conformance.probed_strings import TEXTS
from oracles.discover import Slots
from oracles.discover.alphabet import OPEN_END
from oracles.errors import ConformanceError, ReportError
from oracles.kernels.tails import binomial_tail
from oracles.types import Ints

_REPORTS = 3_000


def check_codes(o: Slots, rng: np.random.Generator) -> None:
    """Every text has a name, cells in range, and the cells of its name if that is whole."""
    del rng
    strings = o.strings
    table = strings.cells_of_many(TEXTS)
    hold(table.min() >= 0 and table.max() < 1 << strings.cells, "cells must be below 2^cells")

    for text, cells in zip(TEXTS, table, strict=True):
        hold(np.array_equal(strings.cells_of(text), cells), f"{text!r} has other cells alone than among many texts")
        numbers = strings.numbers(text)
        name = strings.text(numbers).removesuffix(OPEN_END)
        # A name that was cut within a character has lost its last bytes.
        if "\N{REPLACEMENT CHARACTER}" not in name:
            hold(np.array_equal(strings.numbers(name), numbers), f"the name of {text!r} is coded otherwise")


def check_reports(o: Slots, rng: np.random.Generator) -> None:
    """Reports are well formed, name a level or map by its slots, and those of others are refused."""
    strings = o.strings
    cells = np.tile(strings.cells_of(TEXTS[1]), (_REPORTS, 1))
    reports = o.perturb(cells, rng)
    hold(reports.dtype == np.uint8 and reports.shape == (_REPORTS, o.width), "reports are uint8 of shape (n, width)")
    hold(o.check(reports) is None, f"its own report {o.check(reports)} is malformed")

    parts = np.bincount(np.ascontiguousarray(reports[:, :2]).view("<u2")[:, 0], minlength=strings.parts)
    shares = np.bincount(strings.part(np.arange(strings.slots)), minlength=strings.parts) / strings.slots
    tails = [binomial_tail(parts, _REPORTS, shares, below=below).min() for below in (False, True)]
    hold(min(tails) * strings.parts > FALSE_ALARM, "levels and maps are not drawn by their slots")

    faulty = reports[:5].copy()
    faulty[3, :2] = np.frombuffer(strings.parts.to_bytes(2, "little"), np.uint8)
    hold(o.check(faulty) == 3, "a report of a level or map that does not exist must be malformed")
    for misshapen in (cells[:, :-1], cells[0], np.full_like(cells, 1 << strings.cells)):
        try:
            o.perturb(misshapen, rng)
        except ReportError:
            continue
        raise ConformanceError(f"perturb of cells of shape {misshapen.shape} must raise a ReportError")


def check_tallies(o: Slots, rng: np.random.Generator) -> None:
    """Tallies add up, and support in each level and map is that of the cell's oracle."""
    text_cells = o.strings.cells_of(TEXTS[3])
    reports = o.perturb(np.tile(text_cells, (4 * _REPORTS, 1)), rng)
    total = _tally(o, reports)
    halves = _tally(o, reports[::2]) + _tally(o, reports[1::2])
    hold(np.array_equal(halves, total), "tallies of two halves must add up to the whole")

    n = len(reports)
    parts = zip(o.support(total, n), o.answering(total, n), text_cells.tolist(), strict=True)
    for part, (support, answers, cell) in enumerate(parts):
        is_own = np.arange(len(support)) == cell
        chances = np.where(is_own, o.cell_oracle.p, o.cell_oracle.q)
        worst = min(float(binomial_tail(support, answers, chances, below=below).min()) for below in (False, True))
        # The worst of all cells, by Bonferroni's bound.
        hold(worst * len(support) > FALSE_ALARM, f"part {part} does not support its cell by p and others by q")


def _tally(o: Slots, reports: "np.ndarray[tuple[int, ...], np.dtype[np.uint8]]") -> Ints:
    state = o.zeros()
    o.add(state, np.ascontiguousarray(reports))
    return state


def steps(o: Slots, rng: np.random.Generator) -> list[Callable[[], None]]:
    """Return the checks in the order of their draws."""
    return [partial(step, o, rng) for step in (check_codes, check_reports, check_tallies)]
