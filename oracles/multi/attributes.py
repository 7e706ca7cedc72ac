"""A base of solutions for several attributes: an encoder for each, and one tally of all.

The result is a list of Estimates, so all later steps treat an attribute like a query of its own.
`record_epsilon` protects a whole record.
"""

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from functools import reduce
from itertools import accumulate, chain, pairwise
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oracles.errors import ParameterError, ReportError
from oracles.estimate import Estimate, Pure
from oracles.kernels.arrays import either
from oracles.mechanisms.entropy import Source, source
from oracles.mechanisms.protocol import Mechanism, Oracle
from oracles.mechanisms.tally import RecordTally
from oracles.readable import RowDraw
from oracles.types import MAX_WIDTH, Flags, Ints, Reports, positions, whole_number


class Multi(Mechanism):
    """Attributes with an encoder each. A tally holds their tallies one after another.

    The last attributes may be pairs. A pair is the position of all pairs of values of two single attributes.
    """

    def __init__(
        self,
        solution: str,
        epsilon: float,
        record_epsilon: float,
        encoders: Sequence[Oracle],
        pairs: Sequence[tuple[int, int]] = (),
    ) -> None:
        self.solution = solution
        self.pairs = tuple(pairs)
        self.singles = len(encoders) - len(self.pairs)
        self.epsilon = epsilon
        self.record_epsilon = record_epsilon
        self.encoders = tuple(encoders)
        self.sizes = tuple(encoder.size for encoder in encoders)
        self.names: tuple[str, ...] = tuple(encoder.name for encoder in encoders)
        self.attributes: tuple[Pure, ...] = self.encoders

        # A frame states the width of a report in two bytes.
        self.width = self._width()
        if self.width > MAX_WIDTH:
            raise ParameterError(
                f"{solution}: a report of these attributes needs {self.width} bytes; the limit is {MAX_WIDTH}"
            )

        self.state_size = sum(encoder.state_size for encoder in encoders)
        self._states = _slices(encoder.state_size for encoder in encoders)

    def __repr__(self) -> str:
        return (
            f"multi({self.solution!r}, sizes={list(self.sizes)}, epsilon={self.epsilon!r}, oracle={list(self.names)})"
        )

    @property
    def count_parts(self) -> tuple[int, ...]:
        return tuple(chain.from_iterable(encoder.count_parts for encoder in self.encoders))

    @property
    def row_draws(self) -> tuple[RowDraw, ...]:
        """The rows of all attributes, each of which has all reports."""
        return tuple(chain.from_iterable(encoder.row_draws for encoder in self.encoders))

    def row_draws_of(self, place: int) -> tuple[RowDraw, ...]:
        return self.encoders[place].row_draws

    def perturb(self, values: ArrayLike, rng: "np.random.Generator | Source | None" = None) -> Reports:
        """Return a report for each record. `values` has shape (n, attributes), without the pairs."""
        array = np.asarray(values)
        if array.ndim != 2 or array.shape[1] != self.singles:
            raise ReportError(f"records must have shape (n, {self.singles}), got {array.shape}")
        sizes = self.sizes[: self.singles]
        columns = [positions(array[:, j], size) for j, size in enumerate(sizes)]
        return self._encode(self.with_pairs(columns), source(rng))

    def with_pairs(self, columns: Sequence[Ints]) -> list[Ints]:
        """Return the positions of the single attributes, followed by those of the pairs."""
        return [*columns, *(columns[first] * self.sizes[second] + columns[second] for first, second in self.pairs)]

    def columns(self, values: Ints) -> list[Ints]:
        return self.with_pairs(super().columns(values))

    @abstractmethod
    def _encode(self, columns: list[Ints], draw: Source) -> Reports: ...

    def _width(self) -> int:
        return sum(encoder.width for encoder in self.encoders)

    def tally(self, labels: Sequence[Sequence[str] | None] | None = None) -> RecordTally[Self]:
        """Return an empty tally that counts its reports. `labels` are the names of each attribute's values."""
        return RecordTally(self, labels)

    def answering(self, state: Ints, n: int) -> list[int]:
        """Return how many of the `n` reports in a tally answer each attribute. By default all of them."""
        del state
        return [n] * len(self.encoders)

    def answer_counts(self, state: NDArray[np.integer], n: int) -> "Sequence[int | tuple[int, ...]]":
        # The narrowest type may hold the integers, and sums in it would wrap around.
        answering = self.answering(state.astype(np.int64, copy=False), n)
        counts: list[int | tuple[int, ...]] = []
        for encoder, part, reports in zip(self.encoders, self._states, answering, strict=True):
            counts += encoder.answer_counts(state[part], reports)
        return counts

    def support(self, state: Ints, n: int) -> list[Ints]:
        """Return the support counts of all values of each attribute."""
        return [e.support(state[part], n) for e, part in zip(self.encoders, self._states, strict=True)]

    def estimate(self, state: Ints, n: int, n_independent: int | None = None) -> list[Estimate]:
        """Return unbiased shares of all values of each attribute, from a tally of `n` reports."""
        n = whole_number("n", n)
        independent = n if n_independent is None else whole_number("n_independent", n_independent)
        supports = self.support(state, n)
        return [
            Estimate(view.shares(support, n), n, view, independent)
            for view, support in zip(self.attributes, supports, strict=True)
        ]


class Joint(Multi):
    """A solution whose reports hold a part for every attribute, one after another."""

    def __init__(self, solution: str, epsilon: float, record_epsilon: float, encoders: Sequence[Oracle]) -> None:
        super().__init__(solution, epsilon, record_epsilon, encoders)
        self._parts = _slices(encoder.width for encoder in encoders)

    def _pieces(self, reports: Reports) -> list[tuple[Oracle, slice, Reports]]:
        """Return each attribute's encoder, its part of the tally, and its reports."""
        return [
            (encoder, state, np.ascontiguousarray(reports[:, part]))
            for encoder, state, part in zip(self.encoders, self._states, self._parts, strict=True)
        ]

    def attack(self, targets: Sequence[Ints], values: Ints, rng: "np.random.Generator") -> Reports:
        reports = self.perturb(values, rng)
        for encoder, part, aims in zip(self.encoders, self._parts, targets, strict=True):
            if len(aims):
                reports[:, part] = encoder.forge(aims, len(values), rng)
        return reports

    def _malformed(self, reports: Reports) -> Flags | None:
        return reduce(either, (encoder.malformed(piece) for encoder, _, piece in self._pieces(reports)))

    def _count(self, state: Ints, reports: Reports) -> int:
        # One implausible part takes the whole report out, or the attributes would have different numbers of reports.
        implausible = np.zeros(len(reports), np.bool_)
        for encoder, _, piece in self._pieces(reports):
            mask = encoder.implausible(piece)
            if mask is not None:
                implausible |= mask

        left_out = int(np.count_nonzero(implausible))
        if left_out:
            reports = reports[~implausible]
        for encoder, part, piece in self._pieces(reports):
            encoder.add(state[part], piece)
        return left_out


def _slices(lengths: Iterable[int]) -> tuple[slice, ...]:
    """Return consecutive slices of these lengths."""
    ends = [0, *accumulate(lengths)]
    return tuple(slice(start, end) for start, end in pairwise(ends))
