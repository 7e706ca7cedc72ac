"""SS, subset selection: the client reports a random set of values that holds its own with probability p."""

import math
from decimal import Decimal, localcontext

import numpy as np

from oracles.kernels.arrays import either, runs
from oracles.kernels.popcount import column_counts, row_counts
from oracles.mechanisms import chance
from oracles.mechanisms.entropy import Source, source
from oracles.mechanisms.protocol import Oracle
from oracles.mechanisms.unary import forged_sets, padding
from oracles.types import MARKS, MAX_WIDTH, Flags, Ints, Reports, Rows


class Ss(Oracle):
    """Sets of m values: the own one and m - 1 others with p = m e/(m e + d - m), else m others.

    Claim: epsilon-LDP. A set has probability p/C(d-1, m-1) if it holds the input, and (1 - p)/C(d-1, m) if not.
    Here p is the largest multiple of 2**-64 that keeps the ratio at exp(epsilon). The number m is the floor or
    ceiling of d/(e + 1) with the smaller variance at f = 0. No other oracle has a smaller variance.
    q = p (m - 1)/(d - 1) + (1 - p) m/(d - 1).
    Test: tests/unit/test_privacy.py and test_conformance.py.

    Ye and Barg 2018; Wang et al. 2016.
    """

    auto_edition = 2
    max_size = 8 * MAX_WIDTH

    def __init__(self, epsilon: float, size: int) -> None:
        self.width = -(-size // 8)
        self.state_size = size + MARKS
        e = chance.exp(epsilon)
        with localcontext(chance.DIGITS):
            self.members = min(_sizes(size, e), key=lambda m: _variance(size, m, e))
        self.inside = chance.largest(size - self.members, self.members, e)
        p = chance.fraction(self.inside)
        q = (p * (self.members - 1) + (1 - p) * self.members) / (size - 1)
        super().__init__("ss", epsilon, size, p, q)

    @property
    def overlap(self) -> float:
        d = self.size
        m = self.members
        e = math.exp(self.epsilon)
        return m / (m * e + d - m) * (d - m) / (d - 1)

    @property
    def thresholds(self) -> dict[str, str]:
        return {"T": str(self.inside)}

    def answer(self, classes: Ints, rows: Rows, rng: "np.random.Generator | Source | None" = None) -> Reports:
        del rows
        draw = source(rng)
        reports = np.empty((len(classes), self.width), np.uint8)
        for run in runs(len(classes), 4 * self.size, 1 << 20):
            own_values = classes[run]
            is_inside = draw.events(self.inside, len(own_values))
            bits = np.zeros((len(own_values), self.size), np.bool_)
            for holds_own in (True, False):
                clients = np.flatnonzero(is_inside == holds_own)
                bits[clients, :-1] = draw.subsets(len(clients), self.size - 1, self.members - holds_own)

            # The others are drawn in 0..d-2. The last value takes the place of the own one.
            every_row = np.arange(len(own_values))
            bits[every_row, -1] = bits[every_row, own_values]
            bits[every_row, own_values] = is_inside
            reports[run] = np.packbits(bits, axis=1, bitorder="little")
        return reports

    def _malformed(self, reports: Reports) -> Flags | None:
        is_wrong = np.empty(len(reports), np.bool_)
        for run in runs(len(reports), self.width):
            is_wrong[run] = row_counts(reports[run]) != self.members
        return either(padding(reports, self.size), is_wrong if is_wrong.any() else None)

    def _count(self, state: Ints, reports: Reports) -> int:
        state[: self.size] += column_counts(reports)[: self.size]
        return 0

    @property
    def work(self) -> int:
        """Words of 64 bits: each is added as one integer."""
        return -(-self.size // 64)

    @property
    def supports_one(self) -> bool:
        return self.members == 1

    def forge(self, targets: Ints, count: int, rng: "np.random.Generator") -> Reports:
        return forged_sets(self.size, self.members, targets, count, source(rng))

    def set_variance(self, n: int, values: int, share: float) -> float:
        """Return the variance of a set. Every report holds exactly m ones, so the errors of values are dependent."""
        d = self.size
        m = self.members
        p = self.p
        q = self.q
        # P(both of two values): one of them the own one, or neither of them.
        with_own = p * (m - 1) / (d - 1)
        without_own = 0.0
        if d > 2:
            without_own = (p * (m - 1) * (m - 2) + (1 - p) * m * (m - 1)) / ((d - 1) * (d - 2))
        pairs = 2 * share * (with_own - p * q) + (values - 2 * share) * (without_own - q * q)
        return super().set_variance(n, values, share) + (values - 1) * pairs / (n * self.gap**2)


def _sizes(size: int, e: Decimal) -> tuple[int, ...]:
    """Return the candidates for m, the smaller first."""
    floor = int(size / (e + 1))
    # m = d would hold every value and tell nothing, and m = 0 no value.
    return tuple(sorted({min(max(m, 1), size - 1) for m in (floor, floor + 1)}))


def _variance(size: int, members: int, e: Decimal) -> Decimal:
    p = members * e / (members * e + size - members)
    q = (p * (members - 1) + (1 - p) * members) / (size - 1)
    return q * (1 - q) / (p - q) ** 2 if p > q else Decimal("inf")
