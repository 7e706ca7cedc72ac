"""Several attributes of one client: spl, smp and rsfd, each attribute seen as a pure oracle.

What comes out is a list of Estimates, so that everything behind them works on an attribute as it
does on a query of its own. `record_epsilon` is what a *whole record* is protected with.
"""

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oracles import ORACLES, chance, usable_epsilon
from oracles.entropy import Source, source
from oracles.errors import ParameterError, ReportError
from oracles.estimate import Estimate
from oracles.grr import Grr, set_as_value
from oracles.oue import Oue
from oracles.pure import MAX_SIZE, MAX_WIDTH, Ints, Oracle, Protocol, Pure, Reports, positions, whole
from oracles.sue import Sue
from oracles.unary import Unary

ADAPTIVE = "adaptive"


class Multi(Protocol):
    """Attributes with an encoder each; a tally is theirs one after another."""

    def __init__(self, solution: str, epsilon: float, record_epsilon: float, encoders: Sequence[Oracle]) -> None:
        self.solution = solution
        self.epsilon = epsilon
        self.record_epsilon = record_epsilon
        self.encoders = tuple(encoders)
        self.sizes = tuple(encoder.size for encoder in encoders)
        self.names: tuple[str, ...] = tuple(encoder.name for encoder in encoders)
        self.attributes: tuple[Pure, ...] = self.encoders
        self.width = self._width()
        if self.width > MAX_WIDTH:
            raise ParameterError(f"{solution}: a report of these attributes needs {self.width} bytes, over {MAX_WIDTH}")
        self.state_size = sum(encoder.state_size for encoder in encoders)
        self._states = _slices(encoder.state_size for encoder in encoders)

    def __repr__(self) -> str:
        return f"multi({self.solution!r}, sizes={list(self.sizes)}, epsilon={self.epsilon!r}, oracle={list(self.names)})"

    def perturb(self, values: ArrayLike, rng: np.random.Generator | Source | None = None) -> Reports:
        """A report for each record: values have shape (n, attributes)."""
        array = np.asarray(values)
        if array.ndim != 2 or array.shape[1] != len(self.sizes):
            raise ReportError(f"records have shape (n, {len(self.sizes)}), these have {array.shape}")
        return self._perturb([positions(array[:, j], size) for j, size in enumerate(self.sizes)], source(rng))

    def _perturb(self, columns: list[Ints], draw: Source) -> Reports:
        raise NotImplementedError

    def _width(self) -> int:
        return sum(encoder.width for encoder in self.encoders)

    def support(self, state: Ints, n: int) -> list[Ints]:
        """Support counts of all values of each attribute."""
        return [e.support(state[part], n) for e, part in zip(self.encoders, self._states, strict=True)]

    def estimate(self, state: Ints, n: int, n_independent: int | None = None) -> list[Estimate]:
        """Unbiased shares of all values of each attribute, from a tally of `n` reports."""
        n = whole("n", n)
        independent = n if n_independent is None else whole("n_independent", n_independent)
        supports = self.support(state, n)
        return [
            Estimate(view.shares(support, n), n, view, independent)
            for view, support in zip(self.attributes, supports, strict=True)
        ]


class _Joint(Multi):
    """Every attribute has its part in a report, one after another."""

    def __init__(self, solution: str, epsilon: float, record_epsilon: float, encoders: Sequence[Oracle]) -> None:
        super().__init__(solution, epsilon, record_epsilon, encoders)
        self._parts = _slices(encoder.width for encoder in encoders)

    def _pieces(self, reports: Reports) -> list[tuple[Oracle, slice, Reports]]:
        """Each attribute's encoder, its part of the tally, and its reports."""
        return [
            (encoder, state, np.ascontiguousarray(reports[:, part]))
            for encoder, state, part in zip(self.encoders, self._states, self._parts, strict=True)
        ]

    def _malformed(self, reports: Reports) -> int | None:
        found = [encoder.check(piece) for encoder, _, piece in self._pieces(reports)]
        return min((index for index in found if index is not None), default=None)

    def _count(self, state: Ints, reports: Reports) -> int:
        strange = np.zeros(len(reports), np.bool_)
        for encoder, _, piece in self._pieces(reports):
            odd = encoder.implausible(piece)
            if odd is not None:
                strange |= odd
        left_out = int(np.count_nonzero(strange))
        if left_out:
            reports = reports[~strange]
        for encoder, part, piece in self._pieces(reports):
            encoder.add(state[part], piece)
        return left_out


class Spl(_Joint):
    """Every attribute with epsilon/d.

    Claim: epsilon-LDP for a whole record, by composition; d times the rounded-down float epsilon/d
    is at most epsilon.
    """

    def _perturb(self, columns: list[Ints], draw: Source) -> Reports:
        return np.hstack([e._perturb(column, draw) for e, column in zip(self.encoders, columns, strict=True)])


class Rsfd(_Joint):
    """One attribute, hidden among fakes, with epsilon' = ln(d (e - 1) + 1).

    Claim: epsilon'-LDP for a whole record, and no better: two arbitrary records reach it. Only
    neighbours that differ in one attribute are told apart by less, and not even they by epsilon
    for grr with unequal sizes, for oue_r with 3 values and more, or where oracles differ.
    Shown in tests/unit/test_privacy.py.
    """

    def __init__(self, epsilon: float, record_epsilon: float, names: Sequence[str], encoders: Sequence[Oracle]) -> None:
        super().__init__("rsfd", epsilon, record_epsilon, encoders)
        self.names = tuple(names)
        self.attributes = tuple(
            _Hidden(name, encoder, len(encoders)) for name, encoder in zip(names, encoders, strict=True)
        )

    def _perturb(self, columns: list[Ints], draw: Source) -> Reports:
        answered = draw.below(len(self.encoders), len(columns[0]))
        reports = np.empty((len(answered), self.width), np.uint8)
        for j, (name, encoder) in enumerate(zip(self.names, self.encoders, strict=True)):
            part = self._parts[j]
            true, fake = np.flatnonzero(answered == j), np.flatnonzero(answered != j)
            reports[true, part] = encoder._perturb(columns[j][true], draw)
            reports[fake, part] = _FAKES[name](encoder, len(fake), draw)
        return reports


class Smp(Multi):
    """One attribute, uniformly chosen and disclosed, with epsilon.

    Claim: epsilon-LDP for a whole record: the choice does not depend on it. A tally ends with the
    number of reports for each attribute; those who answered are a sample, which adds to the error.
    """

    def __init__(self, epsilon: float, encoders: Sequence[Oracle]) -> None:
        super().__init__("smp", epsilon, epsilon, encoders)
        self.state_size += len(encoders)

    def _width(self) -> int:
        return 2 + max(encoder.width for encoder in self.encoders)

    def _perturb(self, columns: list[Ints], draw: Source) -> Reports:
        answered = draw.below(len(self.encoders), len(columns[0]))
        reports = np.zeros((len(answered), self.width), np.uint8)
        reports[:, :2] = answered.astype("<u2").view(np.uint8).reshape(-1, 2)
        for j, encoder in enumerate(self.encoders):
            rows = np.flatnonzero(answered == j)
            reports[rows, 2 : 2 + encoder.width] = encoder._perturb(columns[j][rows], draw)
        return reports

    def _answered(self, reports: Reports) -> NDArray[np.unsignedinteger]:
        return np.ascontiguousarray(reports[:, :2]).view("<u2")[:, 0]

    def _malformed(self, reports: Reports) -> int | None:
        answered = self._answered(reports)
        wrong = answered >= len(self.encoders)
        for j, encoder in enumerate(self.encoders):
            rows = np.flatnonzero(answered == j)
            wrong[rows] = reports[rows, 2 + encoder.width :].any(axis=1)
            bad = encoder.check(np.ascontiguousarray(reports[rows, 2 : 2 + encoder.width]))
            if bad is not None:
                wrong[rows[bad]] = True
        return int(np.argmax(wrong)) if wrong.any() else None

    def _count(self, state: Ints, reports: Reports) -> int:
        answered = self._answered(reports)
        left_out = 0
        for j, (encoder, part) in enumerate(zip(self.encoders, self._states, strict=True)):
            mine = reports[answered == j, 2 : 2 + encoder.width]
            implausible = encoder.add(state[part], mine)
            state[j - len(self.encoders)] += len(mine) - implausible
            left_out += implausible
        return left_out

    def answering(self, state: Ints) -> list[int]:
        """How many reports of a tally answer each attribute: n_j."""
        return [int(n) for n in state[-len(self.encoders) :]]

    def support(self, state: Ints, n: int) -> list[Ints]:
        del n
        parts = zip(self.encoders, self._states, self.answering(state), strict=True)
        return [encoder.support(state[part], n_j) for encoder, part, n_j in parts]

    def estimate(self, state: Ints, n: int, n_independent: int | None = None) -> list[Estimate]:
        n = whole("n", n)
        independent = n if n_independent is None else whole("n_independent", n_independent)
        return [
            Estimate(encoder.shares(support, n_j), n_j, encoder, n_j * independent // n if n else 0, independent)
            for encoder, support, n_j in zip(
                self.encoders, self.support(state, n), self.answering(state), strict=True
            )
        ]


class _Hidden(Pure):
    """An attribute of rsfd: its encoder seen through the fakes, with p* and q*."""

    def __init__(self, name: str, encoder: Oracle, attributes: int) -> None:
        p, q = encoder.exact
        h = {"grr": Fraction(1, encoder.size), "oue_r": q + (p - q) / encoder.size}.get(name, q)
        seen = q / attributes + (attributes - 1) * h / attributes
        super().__init__(name, encoder.size, seen + (p - q) / attributes, seen)

    def set_variance(self, n: int, values: int, share: float) -> float:
        """For oue_r an upper bound: the bits of a one-hot fake are negatively correlated."""
        if self.name == "grr":
            return set_as_value(*self.exact, n, values, share)
        return super().set_variance(n, values, share)


def _zero(encoder: Oracle, count: int, draw: Source) -> Reports:
    assert isinstance(encoder, Unary)
    return encoder.flip(count, None, draw)


def _one_hot(encoder: Oracle, count: int, draw: Source) -> Reports:
    return encoder._perturb(draw.below(encoder.size, count), draw)


def _uniform(encoder: Oracle, count: int, draw: Source) -> Reports:
    assert isinstance(encoder, Grr)
    return encoder.encode(draw.below(encoder.size, count))


_FAKES: dict[str, Callable[[Oracle, int, Source], Reports]] = {
    "grr": _uniform,
    "oue_z": _zero,
    "oue_r": _one_hot,
    "sue_z": _zero,
}


def multi(solution: str, *, sizes: Sequence[int], epsilon: float, oracle: str | Sequence[str] = ADAPTIVE) -> Multi:
    """The `solution` (spl, smp or rsfd) for attributes of these sizes; one oracle for all, or one each.

    "adaptive" takes for each attribute the candidate with the smallest variance; it depends on
    epsilon and the sizes only, never on data.

    >>> rsfd = multi("rsfd", sizes=[7, 16], epsilon=1.0)
    >>> rsfd.names, rsfd.width, round(rsfd.record_epsilon, 4)
    (('grr', 'oue_z'), 3, 1.4899)
    """
    epsilon = usable_epsilon(epsilon)
    sizes = [whole("size", size) for size in sizes]
    d = len(sizes)
    if not 1 <= d <= MAX_WIDTH:
        raise ParameterError(f"there must be between 1 and {MAX_WIDTH} attributes, got {d}")
    for size in sizes:
        if not 2 <= size <= MAX_SIZE:
            raise ParameterError(f"size must be between 2 and {MAX_SIZE}, got {size}")
    names = [oracle] * d if isinstance(oracle, str) else list(oracle)
    if len(names) != d:
        raise ParameterError(f"there are {d} attributes, but {len(names)} oracles")
    if solution == "rsfd":
        spent = chance.amplified(epsilon, d)
        chosen = [_hidden(name, spent, size, d) for name, size in zip(names, sizes, strict=True)]
        return Rsfd(epsilon, spent, [name for name, _ in chosen], [encoder for _, encoder in chosen])
    if solution not in ("spl", "smp"):
        raise ParameterError(f"there is no solution {solution!r}; choose one of spl, smp, rsfd")
    spent = chance.divided(epsilon, d) if solution == "spl" else epsilon
    encoders = [_open(name, spent, size) for name, size in zip(names, sizes, strict=True)]
    return Spl("spl", epsilon, epsilon, encoders) if solution == "spl" else Smp(epsilon, encoders)


def _open(name: str, epsilon: float, size: int) -> Oracle:
    """An encoder for spl and smp."""
    if name == ADAPTIVE:
        names = ("grr", "oue") if size <= 8 * MAX_WIDTH else ("grr",)
        return min((ORACLES[candidate](epsilon, size) for candidate in names), key=lambda o: o.variance(1))
    if name not in ORACLES:
        raise ParameterError(f"there is no oracle {name!r}; choose one of {', '.join(ORACLES)} or {ADAPTIVE}")
    return ORACLES[name](epsilon, size)


def _hidden(name: str, epsilon: float, size: int, attributes: int) -> tuple[str, Oracle]:
    """A candidate's name and its encoder for rsfd."""
    empty = (attributes - 1) / attributes
    if name == ADAPTIVE:
        names = tuple(_FAKES) if size <= 8 * MAX_WIDTH else ("grr",)
        candidates = [_hidden(candidate, epsilon, size, attributes) for candidate in names]
        return min(candidates, key=lambda c: _Hidden(*c, attributes).variance(1, 1 / size))
    if name == "grr":
        return name, Grr(epsilon, size)
    if name == "oue_r":
        return name, Oue(epsilon, size)
    if name == "oue_z":
        return name, Oue(epsilon, size, empty)
    if name == "sue_z":
        return name, Sue(epsilon, size, empty)
    raise ParameterError(f"there is no oracle {name!r} for rsfd; choose one of {', '.join(_FAKES)} or {ADAPTIVE}")


def _slices(lengths: Iterable[int]) -> tuple[slice, ...]:
    """Consecutive slices of these lengths."""
    ends = [0, *accumulate(lengths)]
    return tuple(slice(start, end) for start, end in pairwise(ends))
