"""Whether a crowd of reports looks forged: the marks of a tally against what honest clients send.

It sees attackers whose reports differ in kind from honest ones: too many or too few ones, or chosen
rows. It cannot see those who draw rows or the number of ones as honest clients do, which is enough
for a few targets, nor anything in grr, ss or a single report.
"""

from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from oracles.errors import ReportError, extra
from oracles.mechanisms.protocol import Oracle
from oracles.multi.attributes import Multi
from oracles.types import MARKS, Ints

LEVEL = 1e-6
"""Of the test; honest windows are flagged twice as often, and 20 times where few reports fall in few bins."""
_LEAST = 5.0
"""Marks that a bin is expected to hold; rarer ones are pooled."""


def skewed(oracle: Oracle, marks: Ints, n: int, n_independent: int) -> bool:
    """Whether the marks of a tally, its last 64 integers, are proof of forged reports."""
    p = p_value(oracle, marks, n, n_independent)
    return p is not None and p < LEVEL


def skewed_attributes(multi: Multi, state: Ints, n: int, n_independent: int) -> list[bool]:
    """`skewed` for each attribute of a whole tally of `n` reports."""
    answering = multi.answering(state, n)
    ends = accumulate(encoder.state_size for encoder in multi.encoders)
    return [
        skewed(encoder, state[end - MARKS : end], n_j, n_j * n_independent // n if n else 0)
        for encoder, end, n_j in zip(multi.encoders, ends, answering, strict=True)
    ]


def p_value(oracle: Oracle, marks: Ints, n: int, n_independent: int) -> float | None:
    """The chi-square p-value of the marks if all were honest; None where nothing can be told.

    Reports that repeat repeat their marks, so the statistic counts only the independent ones.
    """
    with extra("stats"):
        from scipy import special

    if marks.shape != (MARKS,):
        raise ReportError(f"the marks of a tally are its last {MARKS} integers, these have shape {marks.shape}")
    law = oracle.honest_marks
    counted = int(marks.sum())
    if law is None or counted < _LEAST * MARKS:
        return None
    observed, expected = _pooled(marks.astype(np.float64), counted * law)
    if len(expected) < 2:
        return None
    statistic = float(((observed - expected) ** 2 / expected).sum()) * n_independent / n
    return float(special.gammaincc((len(expected) - 1) / 2.0, statistic / 2.0))


def _pooled(observed: NDArray[np.float64], expected: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
    """Both with their rarest bins added up until the sum is expected often enough."""
    order = np.argsort(expected, kind="stable")
    observed, expected = observed[order], expected[order]
    rare = int(np.argmax((np.cumsum(expected) >= _LEAST) & (np.append(expected[1:], np.inf) >= _LEAST)))
    first = [0, *range(rare + 1, MARKS)]
    return np.add.reduceat(observed, first), np.add.reduceat(expected, first)
