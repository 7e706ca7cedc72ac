"""What every frequency oracle is: a pure protocol with its error, and five verbs.

*Pure* means that a report supports its own value with probability p and any other one with
probability q. Everything behind the support counts (estimates, intervals, thresholds, methods)
needs no more than that, so it works on any oracle and on each attribute of a multi solution.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oracles.errors import ParameterError, ReportError
from oracles.estimate import Estimate, Noise
from oracles.mechanisms.entropy import Source, source

Ints = NDArray[np.int64]
Reports = NDArray[np.uint8]

MARKS = 64
"""Counts at the end of every tally that show poisoning."""
MAX_EPSILON = 16.0
MAX_SIZE = 1 << 32
MAX_WIDTH = 65_535
"""Bytes a report; a frame's header has two bytes for it."""


class Pure:
    """A size, the exact p and q, and the errors that follow from them."""

    def __init__(self, name: str, size: int, p: Fraction, q: Fraction) -> None:
        if p <= q:
            raise ParameterError(f"{name} with {size} values: epsilon is too small to be told from zero in 64 bits")
        self.name = name
        self.size = size
        self.exact = (p, q)
        self.p = float(p)
        self.q = float(q)
        self.gap = float(p - q)
        """p - q, without the cancellation of subtracting the floats."""
        self._a = float(q * (1 - q) / (p - q) ** 2)
        self._b = float((1 - p - q) / (p - q))

    def variance(self, n: int, share: float = 0.0) -> float:
        """The variance of an estimated share from `n` reports, where the true share is `share`."""
        return (self._a + self._b * share) / n

    def set_variance(self, n: int, values: int, share: float) -> float:
        """The variance of the summed shares of a set of `values`: errors of values are uncorrelated."""
        return (values * self._a + self._b * share) / n

    def noise(self, n: int) -> Noise:
        """The error law of `n` independent reports; NaN for none."""
        return Noise(self._a / n, self._b / n) if n else Noise(float("nan"), float("nan"))

    def shift_per_fake(self, n: int) -> float:
        """How far one forged report among `n` can move a share."""
        return float((1 - self.exact[1]) / (self.exact[0] - self.exact[1])) / n

    def shares(self, support: Ints, n: int) -> NDArray[np.float64]:
        """Support counts of `n` reports as unbiased shares; NaN where there are none."""
        if not n:
            return np.full(len(support), np.nan)
        return (support / n - self.q) / self.gap


class Protocol(ABC):
    """The verbs: perturb on the client; zeros, check, add on the server. Reports are rows of bytes."""

    width: int
    """Bytes a report."""
    state_size: int
    """Integers in a tally."""

    @abstractmethod
    def perturb(self, values: ArrayLike, rng: "np.random.Generator | Source | None" = None) -> Reports:
        """A report for each value: uint8, (n, width).

        Without `rng` the randomness is the operating system's. A seeded generator is for
        simulations only.
        """

    def zeros(self) -> Ints:
        """An empty tally. Tallies add and subtract as vectors of integers."""
        return np.zeros(self.state_size, np.int64)

    def check(self, reports: Reports) -> int | None:
        """The index of the first malformed report, or None."""
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
    def _malformed(self, reports: Reports) -> int | None: ...

    @abstractmethod
    def _count(self, state: Ints, reports: Reports) -> int: ...

    def _rows(self, reports: Reports) -> Reports:
        if not isinstance(reports, np.ndarray) or reports.dtype != np.uint8:
            raise ReportError("reports are a NumPy array of uint8")
        if reports.ndim != 2 or reports.shape[1] != self.width:
            raise ReportError(f"reports have shape (n, {self.width}), these have {reports.shape}")
        return np.ascontiguousarray(reports)


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

    @abstractmethod
    def encode(self, values: Ints, draw: Source) -> Reports:
        """`perturb` for values that are known to be positions in the domain."""

    def support(self, state: Ints, n: int) -> Ints:
        """How many of the `n` reports in the tally support each value: here what the tally counts."""
        del n
        return state[: self.size].copy()

    def implausible(self, reports: Reports) -> NDArray[np.bool_] | None:
        """Which well-formed reports no honest client sends; None where there is none."""
        del reports
        return None

    def estimate(self, state: Ints, n: int, n_independent: int | None = None) -> Estimate:
        """Unbiased shares of all values from a tally of `n` reports."""
        n = whole("n", n)
        independent = n if n_independent is None else whole("n_independent", n_independent)
        return Estimate(self.shares(self.support(state, n), n), n, self, independent)


def positions(values: ArrayLike, size: int) -> Ints:
    """Values as positions in a domain of `size`, refused where they are anything else."""
    array = np.asarray(values)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise ReportError(f"values are a list of integers, got {array.ndim} dimension(s) of {array.dtype}")
    if array.size and (array.min() < 0 or array.max() >= size):
        wrong = int(np.argmax((array < 0) | (array >= size)))
        raise ReportError(f"value {array[wrong]} at {wrong} is outside 0..{size - 1}", wrong)
    return array.astype(np.int64)


def whole(what: str, number: int) -> int:
    """`number` as an int, refused unless it is a whole number of at least zero."""
    if isinstance(number, bool | np.bool_) or not isinstance(number, int | np.integer) or number < 0:
        raise ParameterError(f"{what} must be a whole number of at least 0, got {number!r}")
    return int(number)


def integers(reports: Reports) -> NDArray[np.unsignedinteger]:
    """Reports of 1, 2, 4 or 8 bytes as little-endian integers, without a copy."""
    return reports.view(f"<u{reports.shape[1]}")[:, 0]


def first_above(numbers: NDArray[np.integer], limit: int) -> int | None:
    """The first of `numbers` that is `limit` or more, or None: a single pass where all is well."""
    if limit > np.iinfo(numbers.dtype).max or int(numbers.max()) < limit:
        return None
    return int(np.argmax(numbers >= limit))


def runs(count: int, width: int, budget: int = 1 << 17) -> Iterator[slice]:
    """Slices over `count` rows of `width` bytes that stay in cache: what bounds every temporary."""
    step = max(1, budget // max(1, width))
    return (slice(start, min(start + step, count)) for start in range(0, count, step))


def tally(into: Ints, indices: NDArray[np.integer]) -> None:
    """into[i] += 1 for each index: a histogram where many fall on few, else one by one."""
    if 4 * len(indices) >= len(into):
        into += np.bincount(indices, minlength=len(into))
    else:
        np.add.at(into, indices, 1)
