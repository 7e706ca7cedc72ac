"""GRR, generalised randomised response: the client reports its value, or with some probability another one."""

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache

import numpy as np

from oracles.estimate.pure import Pure
from oracles.kernels.arrays import above, add_integers, integers
from oracles.mechanisms import chance
from oracles.mechanisms.entropy import Source, source
from oracles.mechanisms.protocol import Oracle
from oracles.mechanisms.table import Forms, table_for
from oracles.types import MARKS, Flags, Ints, Reports, Rows


class Grr(Oracle):
    """The own value with probability p, and each other value with q = (1 - p)/(d - 1).

    Claim: epsilon-LDP. An output has probability p under one input and q under all others. Here p is the largest
    multiple of 2**-64 whose ratio p/q is at most exp(epsilon), about e/(e + d - 1).
    Variance: n Var = (d - 2 + e)/(e - 1)^2 + f (d - 2)/(e - 1), which grows with the domain.
    Test: tests/unit/test_privacy.py and test_conformance.py.

    Warner 1965; Kairouz, Bonawitz and Ramage 2016.
    """

    auto_edition = 1
    takes_table = True

    def __init__(self, epsilon: float, size: int, *, table: int | None = None) -> None:
        self.width = 4
        if size <= 1 << 8:
            self.width = 1
        elif size <= 1 << 16:
            self.width = 2
        self.state_size = size + MARKS
        self.places = size
        self.keep = chance.largest(size - 1, 1, chance.exp(epsilon))
        self.tables = None if table is None else table_for(size, table, epsilon)
        p = chance.fraction(self.keep) if self.tables is None else self.tables.p
        super().__init__("grr", epsilon, size, p, (1 - p) / (size - 1))

    @classmethod
    def versions(cls, epsilon: float, size: int, forms: Forms) -> Iterator[Oracle]:
        yield cls(epsilon, size, table=forms.points(size))

    def answer(self, classes: Ints, rows: Rows, rng: "np.random.Generator | Source | None" = None) -> Reports:
        del rows
        draw = source(rng)
        if self.tables is not None:
            return self.report_bytes(self.tables.answers(classes, draw))

        answers = classes.copy()
        false_answers = np.flatnonzero(~draw.events(self.keep, len(classes)))
        # A number below d - 1 skips the own value, which would come more often than p allows.
        numbers = draw.below(self.size - 1, len(false_answers))
        answers[false_answers] = numbers + (numbers >= classes[false_answers])
        return self.report_bytes(answers)

    @property
    def overlap(self) -> float:
        return 1.0 / (math.exp(self.epsilon) + self.size - 1)

    def reports_of(self, buckets: Ints, rows: Rows) -> Reports:
        del rows
        return self.report_bytes(buckets)

    def report_bytes(self, answers: Ints) -> Reports:
        return answers.astype(f"<u{self.width}").view(np.uint8).reshape(-1, self.width)

    def _malformed(self, reports: Reports) -> Flags | None:
        return above(integers(reports), self.size)

    def _count(self, state: Ints, reports: Reports) -> int:
        add_integers(state[: self.size], reports)
        return 0

    @property
    def work(self) -> int:
        return 1

    @property
    def supports_one(self) -> bool:
        return True

    def forge(self, targets: Ints, count: int, rng: "np.random.Generator") -> Reports:
        return self.report_bytes(rng.choice(targets, count))

    def set_variance(self, n: int, values: int, share: float) -> float:
        """Return the variance of a set, which acts as one value with p + (M - 1) q and M q."""
        return set_as_value(self, n, values, share)


def set_as_value(oracle: Pure, n: int, values: int, share: float) -> float:
    """Return the variance of a set's share if each report supports exactly one value, as in GRR."""
    return _one_report(oracle, values, share) / n


@lru_cache(maxsize=1 << 12)
def _one_report(oracle: Pure, values: int, share: float) -> float:
    """Return the variance of one report. Exact fractions are slow, and each final needs the same few."""
    p, q = oracle.exact
    member_rate = p + (values - 1) * q
    other_rate = values * q
    at_zero = other_rate * (1 - other_rate) / (p - q) ** 2
    return float(at_zero + Fraction(share) * (1 - member_rate - other_rate) / (p - q))
