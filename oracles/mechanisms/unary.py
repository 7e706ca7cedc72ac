"""Unary encoding, shared by SUE and OUE: one bit a value, each flipped on its own."""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from oracles.kernels.popcount import column_counts, row_counts
from oracles.mechanisms import chance
from oracles.mechanisms.entropy import Source
from oracles.pure import MARKS, Ints, Oracle, Reports, first_above, runs

_IMPLAUSIBLE = 1e-9
"""Chance of an honest report to be taken for a forged one."""


def padding(reports: Reports, size: int) -> int | None:
    """The first report with a bit beyond `size`, or None."""
    return first_above(reports[:, -1], 1 << (size % 8)) if size % 8 else None


class Unary(Oracle):
    """Bit v is set with probability p for the own value and q for every other one."""

    def __init__(self, name: str, epsilon: float, size: int, p: int, q: int, empty: float) -> None:
        self.width = -(-size // 8)
        self.state_size = size + MARKS
        self.own, self.other = p, q
        self.empty = empty
        """Share of reports that are perturbed zero vectors, as some of rsfd's are."""
        super().__init__(name, epsilon, size, chance.fraction(p), chance.fraction(q))

    def encode(self, values: Ints, draw: Source) -> Reports:
        return self.flip(len(values), values, draw)

    def flip(self, count: int, values: Ints | None, draw: Source) -> Reports:
        """`count` perturbed vectors: one-hot at their values, or zero everywhere."""
        reports = np.empty((count, self.width), np.uint8)
        own = None if values is None else draw.events(self.own, count)
        for run in runs(count, self.size, 1 << 20):
            bits = draw.events(self.other, run.stop - run.start, self.size)
            if values is not None and own is not None:
                bits[np.arange(len(bits)), values[run]] = own[run]
            reports[run] = np.packbits(bits, axis=1, bitorder="little")
        return reports

    def _malformed(self, reports: Reports) -> int | None:
        return padding(reports, self.size)

    def _count(self, state: Ints, reports: Reports) -> int:
        marks, strange = self._survey(reports)
        if strange is not None:
            reports = reports[~strange]
        state[: self.size] += column_counts(reports)[: self.size]
        state[-MARKS:] += marks
        return 0 if strange is None else int(np.count_nonzero(strange))

    def implausible(self, reports: Reports) -> NDArray[np.bool_] | None:
        return self._survey(reports)[1]

    def _survey(self, reports: Reports) -> tuple[Ints, NDArray[np.bool_] | None]:
        """The marks of plausible reports, and which reports are implausible."""
        low, high = self.plausible
        marks = np.zeros(MARKS, np.int64)
        strange: NDArray[np.bool_] | None = None
        for run in runs(len(reports), self.width, 1 << 18):
            ones = row_counts(reports[run])
            if int(ones.min()) < low or int(ones.max()) > high:
                strange = np.zeros(len(reports), np.bool_) if strange is None else strange
                strange[run] = (ones < low) | (ones > high)
                ones = ones[~strange[run]]
            marks += np.bincount(self._bins[ones], minlength=MARKS)
        return marks, strange

    def law(self) -> NDArray[np.float64]:
        """The honest law of the number of ones in a report: probabilities of 0..d."""
        own = _binomial(self.size - 1, self.q)
        law = np.zeros(self.size + 1)
        law[:-1] += (1.0 - self.p) * own
        law[1:] += self.p * own
        return (1.0 - self.empty) * law + (self.empty * _binomial(self.size, self.q) if self.empty else 0.0)

    @cached_property
    def plausible(self) -> tuple[int, int]:
        """The least and the most ones of a plausible report: the central 1 - 1e-9 of the honest law."""
        law = self.law()
        low = int(np.argmax(np.cumsum(law) > _IMPLAUSIBLE / 2))
        high = self.size - int(np.argmax(np.cumsum(law[::-1]) > _IMPLAUSIBLE / 2))
        return low, high

    @cached_property
    def _bins(self) -> NDArray[np.int64]:
        """The mark of each number of ones: eighths of a standard deviation around the mean."""
        p, q, d, empty = self.p, self.q, self.size, self.empty
        mean = (d - 1) * q + p
        variance = (d - 1) * q * (1 - q) + p * (1 - p)
        gap = d * q - mean
        spread = (1 - empty) * variance + empty * d * q * (1 - q) + empty * (1 - empty) * gap * gap
        distance = (np.arange(d + 1) - (mean + empty * gap)) / np.sqrt(spread)
        marks: NDArray[np.int64] = np.clip(np.rint(8 * distance).astype(np.int64) + MARKS // 2, 0, MARKS - 1)
        return marks


def _binomial(n: int, p: float) -> NDArray[np.float64]:
    from scipy import special

    k = np.arange(n + 1)
    ways = special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(n - k + 1)
    law: NDArray[np.float64] = np.exp(ways + special.xlogy(k, p) + special.xlog1py(n - k, -p))
    return law
