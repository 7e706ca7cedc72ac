"""A test for forged reports: it compares the marks of a tally with the law of honest clients.

It finds attackers whose reports differ in kind from honest ones: too many or too few ones, or selected rows. It
cannot find attackers who draw rows or the number of ones like honest clients, which suffices for a few targets.
It finds nothing in grr, in ss, or in a single report.
"""

from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from oracles.errors import ReportError, extra
from oracles.mechanisms.protocol import Oracle
from oracles.multi.attributes import Multi
from oracles.types import MARKS, Ints

LEVEL = 1e-6
"""Level of the test. It flags twice as many honest windows, and 20 times as many if few reports fall in few bins."""
_LEAST_EXPECTED = 5.0
"""Expected number of marks in a bin. Rarer bins are joined."""


def skewed(oracle: Oracle, marks: Ints, n: int, n_independent: int) -> bool:
    """Whether the marks of a tally, its last 64 integers, prove forged reports."""
    p = p_value(oracle, marks, n, n_independent)
    return p is not None and p < LEVEL


def skewed_attributes(multi: Multi, state: Ints, n: int, n_independent: int) -> list[bool]:
    """Return `skewed` for each attribute of a whole tally of `n` reports."""
    answering = multi.answering(state, n)
    ends = accumulate(encoder.state_size for encoder in multi.encoders)
    return [
        skewed(encoder, state[end - MARKS : end], n_j, n_j * n_independent // n if n else 0)
        for encoder, end, n_j in zip(multi.encoders, ends, answering, strict=True)
    ]


def p_value(oracle: Oracle, marks: Ints, n: int, n_independent: int) -> float | None:
    """Return the chi-square p-value of the marks if all reports were honest, or None if nothing can be concluded.

    Reports that repeat also repeat their marks, so the statistic counts only the independent ones.
    """
    if marks.shape != (MARKS,):
        raise ReportError(f"marks must be the last {MARKS} integers of a tally, got shape {marks.shape}")
    law = oracle.honest_marks
    total = int(marks.sum())
    if law is None or total < _LEAST_EXPECTED * MARKS:
        return None
    counts, expectation = _pooled(marks.astype(np.float64), total * law)
    # One bin holds all marks whatever the reports are.
    if len(expectation) < 2:
        return None
    with extra("stats"):
        from scipy import special

    statistic = float(((counts - expectation) ** 2 / expectation).sum()) * n_independent / (n * oracle.mark_variance)
    return float(special.gammaincc((len(expectation) - 1) / 2.0, statistic / 2.0))


def _pooled(counts: NDArray[np.float64], expectation: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
    """Return both arrays with their rarest bins joined, until each bin is expected often enough."""
    order = np.argsort(expectation, kind="stable")
    counts = counts[order]
    expectation = expectation[order]
    # The chi-square law holds for bins that are expected five times or more.
    is_enough = (np.cumsum(expectation) >= _LEAST_EXPECTED) & (np.append(expectation[1:], np.inf) >= _LEAST_EXPECTED)
    starts = [0, *range(int(np.argmax(is_enough)) + 1, MARKS)]
    return np.add.reduceat(counts, starts), np.add.reduceat(expectation, starts)
