"""HAAR, a Haar tree by Hadamard response: a report says, with noise, in which half of a block the number lies."""

import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from oracles.errors import ParameterError
from oracles.kernels.walsh import walsh
from oracles.mechanisms.entropy import Source, source
from oracles.mechanisms.hashing import Hashing
from oracles.numbers.tree import Tree, TreeEstimate
from oracles.readable import RowDraw
from oracles.types import MARKS, Flags, Floats, Ints, Reports, whole_number

LEAST_BITS = 4
MOST_BITS = 16
"""Numbers have from 2**4 to 2**16 bins."""
BINS = tuple(1 << bits for bits in range(LEAST_BITS, MOST_BITS + 1))
_QUARTERS = 4
"""Number of marks for each level."""


class Haar(Hashing):
    """A uniform level j of 0..k-1, a uniform row r = (2 u + 1) 2**j below 2**k, and parity(r & v): p = e/(e + 1).

    The parity says in which half of its block of 2**(j + 1) bins the number v lies, hidden among all blocks of the
    level by the Hadamard row u.
    Claim: epsilon-LDP. The row does not depend on the value. Given the row, the bit is randomised response. Here p
    is the largest multiple of 2**-64 whose ratio p/(1 - p) is at most exp(epsilon).
    Variance: see oracles/numbers/tree.py. A share of bins up to t has k (k + 0.7) V / (12 n) on average, and V is
    1/(2 p - 1)^2.
    Test: tests/unit/test_privacy.py and test_numbers.py.

    Cormode, Kulkarni and Srivastava 2019 (HaarHRR).
    """

    pure = False
    takes_table = True

    def __init__(self, epsilon: float, size: int, *, table: int | None = None) -> None:
        if size not in BINS:
            raise ParameterError(f"haar: bins must be a power of two from {BINS[0]} to {BINS[-1]}, got {size}")
        super().__init__("haar", epsilon, size, rows=1, bits=size.bit_length() - 1, table=table)
        self._a = self.tree.bin_variance
        self._b = 0.0

    @property
    def levels(self) -> int:
        """Number of levels of blocks, k. Level j has blocks of 2**(j + 1) bins."""
        return self.bits

    @property
    def counters(self) -> int:
        return self.tree.counters

    @cached_property
    def tree(self) -> Tree:
        return Tree.of(self)

    @property
    def overlap(self) -> None:
        """None. Two numbers may differ at few levels or at many, so their reports have no common part of one size."""
        return None

    @property
    def row_draws(self) -> tuple[RowDraw, ...]:
        """The rows of each level, of which a report draws one."""
        return tuple(RowDraw(1 << (self.levels - 1 - level), 1.0 / self.levels) for level in range(self.levels))

    def shift_per_fake(self, n: int) -> float:
        """Return how far one forged report among `n` can move a cumulative share."""
        return self.levels / (2.0 * self.tree.gap * n)

    def rank_error(self, n: int) -> float:
        """Return the standard error of the share up to a bin, on average over the bins."""
        return math.sqrt(self.levels * (self.levels + 0.7) / (12.0 * n)) / self.tree.gap

    def rows(self, count: int, rng: "np.random.Generator | Source | None" = None) -> Ints:
        draw = source(rng)
        level = draw.below(self.levels, count)
        rows = np.zeros(count, np.int64)
        for j in range(self.levels):
            clients = np.flatnonzero(level == j)
            rows[clients] = (2 * draw.below(1 << (self.levels - 1 - j), len(clients)) + 1) << j
        return rows[:, None]

    def _malformed(self, reports: Reports) -> Flags | None:
        integers = self._integers(reports)[:, -1]
        # Row 0 tells nothing, and no client draws it.
        is_bad: Flags = (integers < 2) | (integers >= 2 << self.bits)
        return is_bad if is_bad.any() else None

    def _count(self, state: Ints, reports: Reports) -> int:
        integers = self._integers(reports)[:, 0].astype(np.int64)
        signs = state[: self.cells]
        marks = state[self.cells :]

        # A histogram costs a pass over all cells, so few reports are added one by one.
        if 4 * len(integers) >= self.cells:
            rows = np.bincount(integers, minlength=2 * self.cells).reshape(-1, 2)
            signs += rows[:, 0] - rows[:, 1]
            marks += np.bincount(self._marks, rows.sum(axis=1), MARKS).astype(np.int64)
        else:
            np.add.at(signs, integers >> 1, 1 - 2 * (integers & 1))
            marks += np.bincount(self._marks[integers >> 1], minlength=MARKS)
        return 0

    @cached_property
    def _marks(self) -> Ints:
        """Mark of each row: its level and its two highest bits. Row 0 does not occur."""
        rows = np.arange(1, self.cells)
        levels = np.bitwise_count((rows & -rows) - 1).astype(np.int64)
        return np.concatenate([[0], _QUARTERS * levels + (rows >> (self.bits - 2))])

    @cached_property
    def honest_marks(self) -> Floats:
        rows = np.arange(1, self.cells)
        # A level has 1/k of the reports, and the lowest bit of its rows, 2**j, says how few rows share them.
        chances = (rows & -rows) * 2.0 / self.cells / self.levels
        return np.bincount(self._marks[1:], chances, MARKS).astype(np.float64)

    @property
    def count_parts(self) -> tuple[int, ...]:
        return (self.levels,)

    def answer_counts(self, state: NDArray[np.integer], n: int) -> Sequence[int | tuple[int, ...]]:
        del n
        return [tuple(self.answering(state.astype(np.int64, copy=False)).tolist())]

    def answering(self, state: Ints) -> Ints:
        """Return the number of reports of each level."""
        marks = state[self.cells :].reshape(-1, _QUARTERS)
        levels: Ints = marks.sum(axis=1)[: self.levels]
        return levels

    def signs(self, state: Ints) -> list[Ints]:
        """Return for each level the signs of its blocks: reports from the left half, minus those from the right."""
        return [walsh(state[1 << j : self.cells : 2 << j]) for j in range(self.levels)]

    def estimate(self, state: Ints, n: int, n_independent: int | None = None) -> TreeEstimate:
        n = whole_number("n", n)
        independent = n if n_independent is None else whole_number("n_independent", n_independent)
        counts = self.tree.counts(self.signs(state), self.answering(state))
        return self.tree.estimate(self, counts, n, independent)

    def forge(self, targets: Ints, count: int, rng: "np.random.Generator") -> Reports:
        """Return reports that say, at each level, on which side of their blocks most of the targets lie."""
        rows = self.rows(count, rng)
        votes = sum(1 - 2 * self.classify(np.broadcast_to(target, count), rows) for target in targets)
        return self.pack((np.asarray(votes) < 0).astype(np.int64), rows)
