"""The verbs of a frequency oracle: perturb on the client; check, add, support and estimate on the server."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, NamedTuple, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oracles.errors import ParameterError, ReportError
from oracles.estimate import Estimate, Pure
from oracles.mechanisms.entropy import Source, source
from oracles.mechanisms.table import Forms, Table
from oracles.mechanisms.tally import ValueTally
from oracles.readable import RowDraw
from oracles.types import MAX_SIZE, MAX_WIDTH, Flags, Floats, Ints, Reports, Rows, positions, whole_number


class Mechanism(ABC):
    """A base of oracles for one value and for records of several. Reports are rows of bytes."""

    width: int
    """Bytes of a report."""
    state_size: int
    """Number of integers in a tally."""

    @property
    @abstractmethod
    def life(self) -> "Charge | None":
        """Charge of a client that answers for life, or None if that is not possible."""

    @property
    def count_parts(self) -> tuple[int, ...]:
        """How many numbers count the reports of each answer: one, or one for each level and map."""
        return (1,)

    @property
    def row_draws(self) -> tuple[RowDraw, ...]:
        """The rows whose sums follow from the shares of all values. By default none."""
        return ()

    def row_draws_of(self, place: int) -> tuple[RowDraw, ...]:
        """Return the rows of one record of a window. By default the window has one record."""
        del place
        return self.row_draws

    @abstractmethod
    def perturb(self, values: ArrayLike, rng: "np.random.Generator | Source | None" = None) -> Reports:
        """Return a report for each value: uint8 of shape (n, width).

        Without `rng` the operating system gives the randomness. A seeded generator is for simulations only.
        """

    @abstractmethod
    def attack(self, targets: Sequence[Ints], values: Ints, rng: "np.random.Generator") -> Reports:
        """Return a report of each attacker that supports as many targets as possible, for simulations.

        `targets` has an array for each attribute. `values` are the answers to attributes without targets. This
        is the maximal-gain attack of Cao, Jia and Gong 2021.
        """

    def keyed(self, digest: bytes) -> Self:
        """Return the oracle with the hash of a query. By default it has none."""
        del digest
        return self

    def zeros(self) -> Ints:
        """Return an empty tally. Tallies add and subtract as vectors of integers."""
        return np.zeros(self.state_size, np.int64)

    def columns(self, values: Ints) -> list[Ints]:
        """Return the positions of each answer, pairs included, for rows of values. Unknown strings have none."""
        return list(values.reshape(len(values), -1).T)

    def answer_counts(self, state: NDArray[np.integer], n: int) -> "Sequence[int | tuple[int, ...]]":
        """Return how many of the `n` reports in a tally tell of each answer, as one number or `count_parts` of them.

        The integers of the tally may have any type.
        """
        del state
        return [n]

    def check(self, reports: Reports) -> int | None:
        """Return the index of the first malformed report, or None."""
        mask = self.malformed(reports)
        return None if mask is None else int(np.argmax(mask))

    def malformed(self, reports: Reports) -> Flags | None:
        """Return a mask of the reports that no client can make, or None if there is none.

        The format alone decides, so this does not separate honest clients from others.
        """
        reports = self._rows(reports)
        return self._malformed(reports) if len(reports) else None

    def add(self, state: Ints, reports: Reports) -> int:
        """Count reports into a tally, in place. Return the number of implausible reports, which do not count.

        One malformed report raises ReportError and leaves the tally unchanged.
        """
        if not isinstance(state, np.ndarray) or state.dtype != np.int64 or state.shape != (self.state_size,):
            raise ReportError(f"a tally must be an int64 vector of {self.state_size} integers; make one with zeros()")
        # Before anything is counted: half of a batch in a tally could not be taken back.
        index = self.check(reports)
        if index is not None:
            raise ReportError(f"report {index} is malformed", index)
        reports = self._rows(reports)
        return self._count(state, reports) if len(reports) else 0

    @abstractmethod
    def _malformed(self, reports: Reports) -> Flags | None: ...

    @abstractmethod
    def _count(self, state: Ints, reports: Reports) -> int: ...

    def _rows(self, reports: Reports) -> Reports:
        if not isinstance(reports, np.ndarray) or reports.dtype != np.uint8:
            raise ReportError("reports must be a NumPy array of uint8")
        if reports.ndim != 2 or reports.shape[1] != self.width:
            raise ReportError(f"reports must have shape (n, {self.width}), got {reports.shape}")
        # Kernels in C read the memory row by row. Of a view with gaps they would read other bytes.
        return np.ascontiguousarray(reports)


class Charge(NamedTuple):
    """The cost of answers to a client: a number of times an epsilon."""

    epsilon: float
    times: int

    @property
    def amount(self) -> Fraction:
        """Exact sum."""
        return Fraction(self.epsilon) * self.times


class Oracle(Pure, Mechanism):
    """A frequency oracle: it takes one value, makes one report, and estimates the shares of all values."""

    auto_edition: ClassVar[int | None] = None
    """First edition of query files in which "auto" may choose this oracle. None means never."""
    max_size: ClassVar[int] = MAX_SIZE
    """Largest domain whose reports fit a frame."""
    takes_buckets: ClassVar[bool] = False
    """Whether a query may choose the number of buckets."""
    takes_table: ClassVar[bool] = False
    """Whether a client may answer by a table."""
    pure: ClassVar[bool] = True
    """Whether a report supports its own value with probability p, and any other with q. Trees support blocks."""
    tables: Table | None = None
    """Law of the tables by which clients answer, or None if each class has noise of its own."""
    keep: int = 0
    """Threshold T of the event that the report names the own value or bucket, for oracles with one threshold."""
    places: int | None = None
    """Number of buckets that a table can permute, or None if the oracle takes no table."""
    subset: int | None = None
    """Number of buckets that a report names, or None if the number is no choice."""
    row_family: str | None = None
    """Family of the maps from values to buckets, or None if the family is no choice."""

    def __init__(self, name: str, epsilon: float, size: int, p: Fraction, q: Fraction) -> None:
        super().__init__(name, size, p, q)
        self.epsilon = epsilon
        if self.width > MAX_WIDTH:
            raise ParameterError(f"{name}: a report of {size} values needs more than {MAX_WIDTH} bytes; choose olh")

    def __repr__(self) -> str:
        table = "" if self.tables is None else f", table={self.table}"
        return f"oracle({self.name!r}, epsilon={self.epsilon!r}, size={self.size}{table})"

    @classmethod
    def candidate(cls, epsilon: float, size: int, classes: int | None = None) -> "Oracle | None":
        """Return the oracle that "auto" considers, or None if it has more than `classes` classes."""
        if size > cls.max_size or (classes is not None and size > classes):
            return None
        return cast("Callable[[float, int], Oracle]", cls)(epsilon, size)

    @classmethod
    def versions(cls, epsilon: float, size: int, forms: Forms) -> Iterator["Oracle"]:
        """Yield the forms of the oracle that "auto" considers from edition 2 on.

        Forms differ in the number of buckets, and have the table that `forms` gives for it.
        """
        del forms
        if size <= cls.max_size:
            yield cast("Callable[[float, int], Oracle]", cls)(epsilon, size)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the encoders in a query file."""
        return (self.name,)

    @property
    def encoders(self) -> "tuple[Oracle, ...]":
        """The oracle itself. Solutions for several attributes have an oracle for each."""
        return (self,)

    def perturb(self, values: ArrayLike, rng: "np.random.Generator | Source | None" = None) -> Reports:
        return self.encode(positions(values, self.size), source(rng))

    def encode(self, values: Ints, draw: Source) -> Reports:
        """Perturb values that are valid positions in the domain."""
        rows = self.rows(len(values), draw)
        return self.answer(self.classify(values, rows), rows, draw)

    @property
    def classes(self) -> int:
        """Number of different answers, K, of a client that keeps its rows. By default one for each value."""
        return self.size

    @property
    def table(self) -> int | None:
        """Number of fixed points from which a table is favoured, t. None if each class has noise of its own."""
        return None if self.tables is None else self.tables.fixed_points

    @property
    def thresholds(self) -> dict[str, str]:
        """Integers that a client compares with random ones, in decimal, by the names of docs/wire-format.md."""
        if self.tables is not None:
            return {"hi": str(self.tables.hi), "lo": str(self.tables.lo)}
        return {"T": str(self.keep)}

    @property
    def overlap(self) -> float | None:
        """The common part r of the reports of all values, for the guarantee of a crowd. None if it is not known."""
        return None

    @property
    def excludes(self) -> bool:
        return self.tables is not None

    def bound(self, classes: int) -> float:
        """Return the epsilon of all answers of a round together, for a client that uses at most so many classes."""
        # A table is one noise for all classes, so its bound is no sum over them.
        if self.tables is not None:
            return self.tables.bound_of(classes)
        return self.epsilon * min(classes, self.classes)

    @property
    def life(self) -> Charge:
        """Charge of a client that keeps its rows, and its table or one report for each class."""
        return Charge(self.epsilon, self.classes) if self.tables is None else Charge(self.tables.bound, 1)

    def rows(self, count: int, rng: "np.random.Generator | Source | None" = None) -> Rows:
        """Return the draws of `count` clients that do not depend on their values, or None if there are none."""
        del count, rng
        return None

    def classify(self, values: Ints, rows: Rows) -> Ints:
        """Return the class of each value under the rows of its client.

        All values of one class have the same law of reports.
        """
        del rows
        return values

    @abstractmethod
    def answer(self, classes: Ints, rows: Rows, rng: "np.random.Generator | Source | None" = None) -> Reports:
        """Return a report for each class under the rows of its client, the second half of `perturb`."""

    def reports_of(self, buckets: Ints, rows: Rows) -> Reports:
        """Return the reports that name these buckets, for clients that look them up in a table."""
        del buckets, rows
        raise ParameterError(f"{self.name} takes no table")

    def support(self, state: Ints, n: int) -> Ints:
        """Return how many of the `n` reports in a tally support each value. By default the tally holds these counts."""
        del n
        return state[: self.size].copy()

    @property
    def work(self) -> int:
        """Number of integers that one report changes in a tally. By default all, the largest possible number."""
        return self.state_size

    @cached_property
    def honest_marks(self) -> Floats | None:
        """Probability of each mark in an honest report, or None if the oracle writes no marks."""
        return None

    @property
    def mark_variance(self) -> float:
        """Variance of the counts of marks, relative to marks of one report that are independent."""
        return 1.0

    def attack(self, targets: Sequence[Ints], values: Ints, rng: "np.random.Generator") -> Reports:
        return self.forge(targets[0], len(values), rng)

    def forge(self, targets: Ints, count: int, rng: "np.random.Generator") -> Reports:
        """Return `count` well-formed, plausible reports that support all targets, or as many as one report can.

        By default these are honest reports of targets. Override this if an attacker can do more.
        """
        return self.encode(rng.choice(targets, count), source(rng))

    def implausible(self, reports: Reports) -> Flags | None:
        """Return a mask of the well-formed reports that no honest client sends, or None if there is none."""
        del reports
        return None

    def tally(self, labels: Sequence[str] | None = None) -> ValueTally[Self]:
        """Return an empty tally that counts its reports. `labels` are the names of the values."""
        return ValueTally(self, labels)

    def estimate(self, state: Ints, n: int, n_independent: int | None = None) -> Estimate:
        """Return unbiased shares of all values from a tally of `n` reports."""
        n = whole_number("n", n)
        independent = n if n_independent is None else whole_number("n_independent", n_independent)
        return Estimate(self.shares(self.support(state, n), n), n, self, independent)
