"""Unary encoding, shared by SUE and OUE: one bit for each value, and every bit flips on its own."""

import math
from functools import cached_property

import numpy as np

from oracles.kernels import c_library
from oracles.kernels.arrays import above, runs
from oracles.kernels.popcount import column_counts, row_counts
from oracles.mechanisms import chance
from oracles.mechanisms.entropy import Source, source
from oracles.mechanisms.protocol import Oracle
from oracles.types import MARKS, MAX_WIDTH, Flags, Floats, Ints, Reports, Rows

_IMPLAUSIBLE = 1e-9
"""Probability that an honest report looks forged."""


def padding(reports: Reports, size: int) -> Flags | None:
    """Return a mask of the reports with a bit beyond `size`, or None if there is none."""
    return above(reports[:, -1], 1 << (size % 8)) if size % 8 else None


def forged_sets(size: int, ones: int, targets: Ints, count: int, draw: Source) -> Reports:
    """Return `count` rows with exactly `ones` ones: at targets first, then at random other values."""
    hits = min(len(targets), ones)
    other_values = np.setdiff1d(np.arange(size), targets)
    bits = np.zeros((count, size), np.bool_)
    bits[:, targets] = draw.subsets(count, len(targets), hits)
    bits[:, other_values] = draw.subsets(count, len(other_values), ones - hits)
    return np.packbits(bits, axis=1, bitorder="little")


class Unary(Oracle):
    """A base of unary encodings: bit v is 1 with probability p for the own value and q for every other one."""

    max_size = 8 * MAX_WIDTH

    def __init__(self, name: str, epsilon: float, size: int, p: int, q: int, empty: float) -> None:
        self.width = -(-size // 8)
        self.state_size = size + MARKS
        self.own = p
        self.other = q
        self.empty = empty
        """Share of reports that are perturbed zero vectors, as some reports of rsfd are."""
        super().__init__(name, epsilon, size, chance.fraction(p), chance.fraction(q))

    @property
    def thresholds(self) -> dict[str, str]:
        return {"T_p": str(self.own), "T_q": str(self.other)}

    def answer(self, classes: Ints, rows: Rows, rng: "np.random.Generator | Source | None" = None) -> Reports:
        del rows
        return self.flip(len(classes), classes, source(rng))

    def flip(self, count: int, values: Ints | None, draw: Source) -> Reports:
        """Return `count` perturbed vectors, one-hot at their values, or all zero without values."""
        reports = np.empty((count, self.width), np.uint8)
        own_bits = None if values is None else draw.events(self.own, count)
        for run in runs(count, self.size, 1 << 20):
            bits = draw.events(self.other, run.stop - run.start, self.size)
            if values is not None and own_bits is not None:
                bits[np.arange(len(bits)), values[run]] = own_bits[run]
            reports[run] = np.packbits(bits, axis=1, bitorder="little")
        return reports

    def _malformed(self, reports: Reports) -> Flags | None:
        return padding(reports, self.size)

    def _count(self, state: Ints, reports: Reports) -> int:
        marks = state[-MARKS:]
        if c_library.in_use():
            return c_library.add_plausible(state[: self.size], reports, self._bins, self.plausible, marks)

        new_marks, implausible = self._survey(reports)
        if implausible is not None:
            reports = reports[~implausible]
        state[: self.size] += column_counts(reports)[: self.size]
        marks += new_marks
        return 0 if implausible is None else int(np.count_nonzero(implausible))

    def implausible(self, reports: Reports) -> Flags | None:
        return self._survey(reports)[1]

    def _survey(self, reports: Reports) -> tuple[Ints, Flags | None]:
        """Return the marks of plausible reports, and a mask of the implausible ones."""
        low, high = self.plausible
        marks = np.zeros(MARKS, np.int64)
        implausible: Flags | None = None
        for run in runs(len(reports), self.width, 1 << 18):
            ones = row_counts(reports[run])
            # Nearly all runs are honest, so the mask is made only when one is not.
            if int(ones.min()) < low or int(ones.max()) > high:
                if implausible is None:
                    implausible = np.zeros(len(reports), np.bool_)
                implausible[run] = (ones < low) | (ones > high)
                ones = ones[~implausible[run]]
            marks += np.bincount(self._bins[ones], minlength=MARKS)

        return marks, implausible

    @property
    def work(self) -> int:
        """Words of 64 bits: each is added as one integer."""
        return -(-self.size // 64)

    @cached_property
    def honest_marks(self) -> Floats:
        marks = np.zeros(MARKS)
        np.add.at(marks, self._bins, self.law())
        return marks

    def forge(self, targets: Ints, count: int, rng: "np.random.Generator") -> Reports:
        """Return rows with as many ones as an honest report has on average, so that all are plausible."""
        ones = max(1, round(self.p + (self.size - 1) * self.q))
        return forged_sets(self.size, ones, targets, count, source(rng))

    def law(self) -> Floats:
        """Return the honest law of the number of ones in a report: the probabilities of 0..d."""
        ones_of_others = _binomial(self.size - 1, self.q)
        law = np.zeros(self.size + 1)
        law[:-1] += (1.0 - self.p) * ones_of_others
        law[1:] += self.p * ones_of_others
        # Fakes of rsfd hold no own value. Without their part of the law honest windows would look forged.
        fakes = self.empty * _binomial(self.size, self.q) if self.empty else 0.0
        return (1.0 - self.empty) * law + fakes

    @cached_property
    def plausible(self) -> tuple[int, int]:
        """Least and largest number of ones of a plausible report: the central 1 - 1e-9 of the honest law."""
        law = self.law()
        low = int(np.argmax(np.cumsum(law) > _IMPLAUSIBLE / 2))
        high = self.size - int(np.argmax(np.cumsum(law[::-1]) > _IMPLAUSIBLE / 2))
        return low, high

    @cached_property
    def _bins(self) -> Ints:
        """Mark of each number of ones, in eighths of a standard deviation around the mean."""
        p = self.p
        q = self.q
        d = self.size
        empty = self.empty
        mean = (d - 1) * q + p
        variance = (d - 1) * q * (1 - q) + p * (1 - p)

        # A mixture with the fakes of rsfd: its variance has that of both means too.
        gap = d * q - mean
        spread = (1 - empty) * variance + empty * d * q * (1 - q) + empty * (1 - empty) * gap * gap
        distance = (np.arange(d + 1) - (mean + empty * gap)) / np.sqrt(spread)
        marks: Ints = np.clip(np.rint(8 * distance).astype(np.int64) + MARKS // 2, 0, MARKS - 1)
        return marks


def _binomial(n: int, p: float) -> Floats:
    """Return the law of Bin(n, p), without SciPy: a server that only counts needs it too."""
    k = np.arange(n + 1)
    factorials = np.fromiter(map(math.lgamma, range(1, n + 2)), np.float64, n + 1)
    law: Floats = np.exp(factorials[n] - factorials - factorials[::-1] + k * math.log(p) + (n - k) * math.log1p(-p))
    return law
