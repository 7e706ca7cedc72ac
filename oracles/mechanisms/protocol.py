"""Verbs of a frequency oracle: perturb on the client; zeros, check, add, support and estimate on the server."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from oracles.errors import ParameterError, ReportError
from oracles.estimate import Estimate, Pure
from oracles.mechanisms.entropy import Source, source
from oracles.tally import ValueTally
from oracles.types import MAX_WIDTH, Flags, Floats, Ints, Reports, Rows, positions, whole_number


class Protocol(ABC):
    """The verbs that one value and records of several share. Reports are rows of bytes."""

    width: int
    """Bytes a report."""
    state_size: int
    """Integers in a tally."""

    @property
    @abstractmethod
    def life(self) -> "Charge | None":
        """The charge of a client that answers for life; None where it cannot."""

    @abstractmethod
    def perturb(self, values: ArrayLike, rng: "np.random.Generator | Source | None" = None) -> Reports:
        """A report for each value: uint8, (n, width).

        Without `rng` the randomness is the operating system's. A seeded generator is for
        simulations only.
        """

    @abstractmethod
    def attack(self, targets: Sequence[Ints], values: Ints, rng: "np.random.Generator") -> Reports:
        """A report from each attacker that supports as many targets as it can, for simulations.

        `targets` are those of each attribute, or of the one; `values` is what attributes without
        targets are answered with. The maximal-gain attack of Cao, Jia and Gong 2021.
        """

    def zeros(self) -> Ints:
        """An empty tally. Tallies add and subtract as vectors of integers."""
        return np.zeros(self.state_size, np.int64)

    def check(self, reports: Reports) -> int | None:
        """The index of the first malformed report, or None."""
        bad = self.malformed(reports)
        return None if bad is None else int(np.argmax(bad))

    def malformed(self, reports: Reports) -> Flags | None:
        """Which reports no client, honest or not, can have made by the format; None where there is none."""
        reports = self._rows(reports)
        return self._malformed(reports) if len(reports) else None

    def add(self, state: Ints, reports: Reports) -> int:
        """Count reports into a tally, in place; returns how many implausible ones were left out.

        One malformed report refuses them all, and the tally stays as it was.
        """
        if not isinstance(state, np.ndarray) or state.dtype != np.int64 or state.shape != (self.state_size,):
            raise ReportError(f"a tally is an int64 vector of {self.state_size} integers, as zeros() gives")
        bad = self.check(reports)
        if bad is not None:
            raise ReportError(f"report {bad} is malformed", bad)
        reports = self._rows(reports)
        return self._count(state, reports) if len(reports) else 0

    @abstractmethod
    def _malformed(self, reports: Reports) -> Flags | None: ...

    @abstractmethod
    def _count(self, state: Ints, reports: Reports) -> int: ...

    def _rows(self, reports: Reports) -> Reports:
        if not isinstance(reports, np.ndarray) or reports.dtype != np.uint8:
            raise ReportError("reports are a NumPy array of uint8")
        if reports.ndim != 2 or reports.shape[1] != self.width:
            raise ReportError(f"reports have shape (n, {self.width}), these have {reports.shape}")
        return np.ascontiguousarray(reports)


class Charge(NamedTuple):
    """The cost of answers to a client: so many times an epsilon."""

    epsilon: float
    times: int

    @property
    def amount(self) -> Fraction:
        """The sum, exactly."""
        return Fraction(self.epsilon) * self.times


class Oracle(Pure, Protocol):
    """A frequency oracle: one value in, one report out, all shares back."""

    def __init__(self, name: str, epsilon: float, size: int, p: Fraction, q: Fraction) -> None:
        super().__init__(name, size, p, q)
        self.epsilon = epsilon
        if self.width > MAX_WIDTH:
            raise ParameterError(f"{name}: a report of {size} values needs more than {MAX_WIDTH} bytes; use olh")

    def __repr__(self) -> str:
        return f"oracle({self.name!r}, epsilon={self.epsilon!r}, size={self.size})"

    def perturb(self, values: ArrayLike, rng: "np.random.Generator | Source | None" = None) -> Reports:
        return self.encode(positions(values, self.size), source(rng))

    def encode(self, values: Ints, draw: Source) -> Reports:
        """`perturb` for values that are known to be positions in the domain."""
        rows = self.rows(len(values), draw)
        return self.answer(self.classify(values, rows), rows, draw)

    @property
    def classes(self) -> int:
        """K: how many different answers a client has that keeps its rows. Here one a value."""
        return self.size

    @property
    def life(self) -> Charge:
        """The most that all answers of a client reveal that keeps its rows, and one report a class."""
        return Charge(self.epsilon, self.classes)

    def rows(self, count: int, rng: "np.random.Generator | Source | None" = None) -> Rows:
        """Draws of `count` clients, whatever their values are: (count, some), or None where nothing is."""
        del count, rng
        return None

    def classify(self, values: Ints, rows: Rows) -> Ints:
        """The class of each value under its client's rows: values of one class have one law of reports."""
        del rows
        return values

    @abstractmethod
    def answer(self, classes: Ints, rows: Rows, rng: "np.random.Generator | Source | None" = None) -> Reports:
        """A report for each class under its client's rows: what `perturb` does once the classes are known."""

    def support(self, state: Ints, n: int) -> Ints:
        """How many of the `n` reports in the tally support each value: here what the tally counts."""
        del n
        return state[: self.size].copy()

    @property
    def work(self) -> int:
        """Integers that counting one report changes. Here all that a tally has, the most there can be."""
        return self.state_size

    @cached_property
    def honest_marks(self) -> Floats | None:
        """The probability of each mark from an honest client; None where a tally's marks stay empty."""
        return None

    def attack(self, targets: Sequence[Ints], values: Ints, rng: "np.random.Generator") -> Reports:
        return self.forge(targets[0], len(values), rng)

    def forge(self, targets: Ints, count: int, rng: "np.random.Generator") -> Reports:
        """`count` well-formed, plausible reports that support all targets, or as many as one can.

        Here honest reports of targets, which every oracle has; one that leaves more to an attacker says so.
        """
        return self.encode(rng.choice(targets, count), source(rng))

    def implausible(self, reports: Reports) -> Flags | None:
        """Which well-formed reports no honest client sends; None where there is none."""
        del reports
        return None

    def tally(self, labels: Sequence[str] | None = None) -> ValueTally[Self]:
        """An empty tally that knows its n; `labels` are the names of the values."""
        return ValueTally(self, labels)

    def estimate(self, state: Ints, n: int, n_independent: int | None = None) -> Estimate:
        """Unbiased shares of all values from a tally of `n` reports."""
        n = whole_number("n", n)
        independent = n if n_independent is None else whole_number("n_independent", n_independent)
        return Estimate(self.shares(self.support(state, n), n), n, self, independent)
