"""Tallies that know their number of reports and the names of the values."""

from collections.abc import Sequence
from typing import Generic, Protocol, Self, TypeVar

from oracles.errors import ParameterError, ReportError
from oracles.estimate import Estimate, listing
from oracles.types import Ints, Reports


class Counter(Protocol):
    """The part of an oracle that counts."""

    def zeros(self) -> Ints: ...

    def add(self, state: Ints, reports: Reports) -> int: ...


class ValueEstimator(Counter, Protocol):
    """An oracle of one value."""

    @property
    def size(self) -> int: ...

    def estimate(self, state: Ints, n: int, n_independent: int | None = None) -> Estimate: ...


class RecordEstimator(Counter, Protocol):
    """An oracle of several attributes."""

    sizes: tuple[int, ...]

    def estimate(self, state: Ints, n: int, n_independent: int | None = None) -> list[Estimate]: ...


_Counter = TypeVar("_Counter", bound=Counter)
_Value = TypeVar("_Value", bound=ValueEstimator)
_Record = TypeVar("_Record", bound=RecordEstimator)


class Accumulator(Generic[_Counter]):
    """A tally and its number of reports. Two of the same oracle add and subtract exactly."""

    def __init__(self, oracle: _Counter) -> None:
        self.oracle = oracle
        self.state: Ints = oracle.zeros()
        self.n = 0
        """Number of reports in the tally, without the implausible ones."""
        self.implausible = 0

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.oracle!r}, n={self.n:,}, implausible={self.implausible:,})"

    def add(self, reports: Reports) -> int:
        """Count reports. Return the number of implausible ones, which do not count."""
        left_out = self.oracle.add(self.state, reports)
        self.n += len(reports) - left_out
        self.implausible += left_out
        return left_out

    def __add__(self, other: Self) -> Self:
        return self._joined(other, 1)

    def __sub__(self, other: Self) -> Self:
        return self._joined(other, -1)

    def _joined(self, other: Self, sign: int) -> Self:
        if type(other) is not type(self) or repr(other.oracle) != repr(self.oracle):
            raise ReportError(f"{other!r} does not fit {self!r}: only tallies of the same oracle add and subtract")
        # A tally of fewer than no reports has no estimate, and would show it only later.
        if sign < 0 and other.n > self.n:
            raise ReportError(f"cannot subtract a tally of {other.n:,} reports from one of {self.n:,}")
        result = self._empty()
        result.state = self.state + sign * other.state
        result.n = self.n + sign * other.n
        result.implausible = self.implausible + sign * other.implausible
        return result

    def _empty(self) -> Self:
        raise NotImplementedError


class ValueTally(Accumulator[_Value]):
    """A tally of reports of one value.

    >>> from oracles import oracle
    >>> tally = oracle("grr", epsilon=9.0, size=3).tally(["a", "b", "c"])
    >>> tally.add(tally.oracle.perturb([0, 0, 1]))
    0
    >>> tally.n, (tally + tally).n, (tally - tally).n
    (3, 6, 0)
    >>> tally.estimate()["a"].value
    'a'
    """

    def __init__(self, oracle: _Value, labels: Sequence[str] | None = None) -> None:
        super().__init__(oracle)
        self.labels = listing.names(labels, oracle.size)

    def _empty(self) -> Self:
        return type(self)(self.oracle, self.labels)

    def estimate(self, n_independent: int | None = None) -> Estimate:
        """Return unbiased shares of all values."""
        return self.oracle.estimate(self.state, self.n, n_independent).labelled(self.labels)


class RecordTally(Accumulator[_Record]):
    """A tally of reports of several attributes. `labels` has a list of names or None for each attribute."""

    def __init__(self, oracle: _Record, labels: Sequence[Sequence[str] | None] | None = None) -> None:
        super().__init__(oracle)
        lists = [None] * len(oracle.sizes) if labels is None else labels
        if len(lists) != len(oracle.sizes):
            raise ParameterError(f"labels need a list for each of {len(oracle.sizes)} attributes, got {len(lists)}")
        self.labels = [listing.names(names, size) for names, size in zip(lists, oracle.sizes, strict=True)]

    def _empty(self) -> Self:
        return type(self)(self.oracle, self.labels)

    def estimate(self, n_independent: int | None = None) -> list[Estimate]:
        """Return unbiased shares of all values of each attribute."""
        estimates = self.oracle.estimate(self.state, self.n, n_independent)
        return [estimate.labelled(labels) for estimate, labels in zip(estimates, self.labels, strict=True)]
