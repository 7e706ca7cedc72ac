"""Tables: one random permutation of the buckets by which a client answers for life, instead of noise for each class."""

from collections.abc import Callable, Sequence
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction
from functools import cached_property, lru_cache
from math import comb, factorial
from typing import NamedTuple

import numpy as np

from oracles.errors import ParameterError
from oracles.mechanisms import chance
from oracles.mechanisms.entropy import Source
from oracles.types import Ints

MOST = 8
"""Largest number of buckets: beyond it, 64-bit integers cannot give every permutation its probability."""
_LEAST_PART = 1 - Decimal(2) ** -10
"""Part of exp(epsilon) that an allowed table reaches at least."""
_STEP = Decimal(10) ** -12
_CACHE_SIZE = 1 << 10
"""Laws that are kept. Each takes a few milliseconds, and a file of many queries needs the same few."""

Points = Callable[[int], int | None]
"""The number of fixed points, t, of the table with so many buckets. None means noise for each class."""


class Forms(NamedTuple):
    """The forms of an oracle that "auto" considers from edition 2 on."""

    points: Points
    fewer: bool
    """Whether fewer buckets than the best number are considered: answers for life then charge less."""
    by_table: bool = False
    """Whether clients answer by a table where the oracle has one, so that oracles without one give way."""


class Table:
    """The law of a permutation of g buckets: it favours those with at least t fixed points.

    A permutation with at least t fixed points has probability hi / 2**64, every other one lo / 2**64. What is
    left over is drawn again. Each class has its own bucket with probability p, and each other bucket with
    (1 - p)/(g - 1), because permutations with as many fixed points are equally likely.

    Claim: one answer is epsilon-LDP. For two courses of answers that change at the same times, all answers of a
    round together have probabilities within exp(bound).

    >>> table = Table(4, 2, 1.0)
    >>> table.hi, table.lo, round(table.bound, 6)
    (2077389330843788651, 229706985753119474, 2.202063)
    """

    def __init__(self, buckets: int, fixed_points: int, epsilon: float) -> None:
        self.buckets = buckets
        self.fixed_points = fixed_points
        """Number of fixed points, t, from which a permutation is favoured."""
        self.epsilon = epsilon
        self.counts = [comb(buckets, k) * _derangements(buckets - k) for k in range(buckets + 1)]
        """Number of permutations with k fixed points, for each k."""
        self.hi, self.lo = self._integers()

    def _integers(self) -> tuple[int, int]:
        """Return the largest hi whose ratio of p to the probability of another bucket is at most exp(epsilon)."""
        likely = sum(self.counts[self.fixed_points :])
        unlikely = sum(self.counts) - likely
        limit = chance.exp(self.epsilon)

        # Floats would round the ratio, and a ratio above exp(epsilon) breaks the claim.
        low = 1
        high = chance.ONE // likely
        while low < high:
            middle = (low + high + 1) // 2
            p = self._own(middle, (chance.ONE - middle * likely) // unlikely)
            other_buckets = p.denominator - p.numerator
            if p < 1 and p.numerator * (self.buckets - 1) <= chance.DIGITS.multiply(limit, other_buckets):
                low = middle
            else:
                high = middle - 1
        return low, (chance.ONE - low * likely) // unlikely

    def _own(self, hi: int, lo: int) -> Fraction:
        weights = [count * (hi if k >= self.fixed_points else lo) for k, count in enumerate(self.counts)]
        return Fraction(sum(k * weight for k, weight in enumerate(weights)), self.buckets * sum(weights))

    @property
    def p(self) -> Fraction:
        """Exact probability that a class has its own bucket."""
        return self._own(self.hi, self.lo)

    @property
    def allowed(self) -> bool:
        """Whether every permutation is possible, and one answer uses its epsilon."""
        p = self.p
        ratio = chance.DIGITS.divide(p.numerator * (self.buckets - 1), p.denominator - p.numerator)
        return self.lo >= 1 and ratio > chance.DIGITS.multiply(chance.exp(self.epsilon), _LEAST_PART)

    @cached_property
    def bound(self) -> float:
        """Logarithm of the largest ratio for all answers of a round, rounded up to 12 decimals: the charge."""
        if self.buckets == 2:
            return self.epsilon
        return _logarithm(Fraction(self.hi, self.lo))

    def bound_of(self, classes: int) -> float:
        """Return the bound for a client that uses at most so many classes. For one class it is epsilon."""
        g = self.buckets
        m = min(classes, g)
        if m <= 1:
            return self.epsilon
        if g == 2:
            return self.bound

        # f of the m classes have their own bucket. The other classes and their buckets are `span` values together.
        # A class and its bucket differ, so the span is at least 2 if any class is out of place.
        weights = []
        for f in range(m + 1):
            least_span = max(m - f, 2 if m > f else 0)
            spans = range(least_span, min(2 * (m - f), g - f) + 1)
            weights += [self._extensions(m, f, g - f - span) for span in spans]
        return _logarithm(Fraction(max(weights), min(weights)))

    def _extensions(self, classes: int, in_place: int, spare: int) -> int:
        """Return the weight of all permutations that extend a choice of buckets for so many classes.

        `in_place` of the classes have their own bucket. `spare` buckets are neither a class of the choice nor in use.
        """
        total = 0
        free = self.buckets - classes
        # Only a spare bucket can be a further fixed point: every other one is taken, or its class is.
        for k in range(spare + 1):
            number = comb(spare, k) * _avoiding(spare - k, free - k)
            total += number * (self.hi if in_place + k >= self.fixed_points else self.lo)
        return total

    @cached_property
    def _limits(self) -> list[int]:
        """Sums of the weights of all permutations with at least k fixed points, from k = g down."""
        sums = []
        total = 0
        for k in range(self.buckets, -1, -1):
            total += self.counts[k] * (self.hi if k >= self.fixed_points else self.lo)
            sums.append(total)
        return sums

    def draw(self, count: int, draw: Source) -> Ints:
        """Return `count` tables: row i has the bucket of each class."""
        points = self._draw_points(count, draw)
        tables = np.tile(np.arange(self.buckets), (count, 1))
        # The order of the draws is part of the format: a client that repeats itself must find the same table.
        for i in range(self.buckets - 1):
            rows = np.flatnonzero((points > i) & (points < self.buckets))
            places = i + draw.below(self.buckets - i, len(rows))
            _swap(tables, rows, i, places)
        return self._derange(tables, points, draw)

    def answers(self, classes: Ints, draw: Source) -> Ints:
        """Return the bucket of each class in a table of its own."""
        tables = draw.tables(self, len(classes))
        buckets: Ints = tables[np.arange(len(classes)), classes]
        return buckets

    def _draw_points(self, count: int, draw: Source) -> Ints:
        """Return the number of fixed points of each table, drawn by one 64-bit integer each."""
        points = np.zeros(count, np.int64)
        # A limit of 2**64 has no 64-bit integer. Every draw is below it anyway.
        limits = np.array([limit for limit in self._limits if limit < chance.ONE], np.uint64)
        todo = np.arange(count)
        while len(todo):
            index = np.searchsorted(limits, draw.raw(8 * len(todo)).view("<u8"), side="right")
            points[todo] = self.buckets - index
            # Integers above the last limit belong to no permutation, and are drawn again.
            todo = todo[index > self.buckets]
        return points

    def _derange(self, orders: Ints, points: Ints, draw: Source) -> Ints:
        """Return the tables: the first `points` items of an order stay, and no other class keeps its own bucket."""
        tables = np.tile(np.arange(self.buckets), (len(orders), 1))
        for k in range(self.buckets - 1):
            rows = np.flatnonzero(points == k)
            classes = np.sort(orders[rows, k:], axis=1)
            todo = np.arange(len(rows))

            # Shuffle again until no class keeps its own bucket: then all derangements are equally likely.
            while len(todo):
                permutation = classes[todo]
                for i in range(self.buckets - k - 1, 0, -1):
                    places = draw.below(i + 1, len(todo))
                    _swap(permutation, np.arange(len(todo)), i, places)
                is_deranged = (permutation != classes[todo]).all(axis=1)
                ready = todo[is_deranged]
                tables[rows[ready, None], classes[ready]] = permutation[is_deranged]
                todo = todo[~is_deranged]
        return tables


def _swap(tables: Ints, rows: Ints, column: int, places: Ints) -> None:
    """Swap the item of each row in this column with the one in its place."""
    tables[rows, column], tables[rows, places] = tables[rows, places], tables[rows, column]


def best(buckets: int, epsilon: float) -> Table | None:
    """Return the table with the smallest bound, of equal ones that with more fixed points. None if none is allowed."""
    # No permutation has g - 1 fixed points, so this t favours the same ones as g.
    tables = [Table(buckets, t, epsilon) for t in range(1, buckets + 1) if t != buckets - 1]
    allowed = [table for table in tables if table.allowed]
    return min(allowed, key=lambda table: (table.bound, -table.fixed_points), default=None)


@lru_cache(maxsize=_CACHE_SIZE)
def best_points(buckets: int, epsilon: float) -> int | None:
    """Return the number of fixed points of the best table, or None if no table is possible."""
    table = best(buckets, epsilon) if buckets <= MOST else None
    return None if table is None else table.fixed_points


def is_allowed(buckets: int, fixed_points: int, epsilon: float) -> bool:
    """Whether a table with so many buckets and fixed points is possible."""
    return buckets <= MOST and fixed_points in _choices(buckets, epsilon)


@lru_cache(maxsize=_CACHE_SIZE)
def table_for(buckets: int, fixed_points: int, epsilon: float) -> Table:
    """Return the table of a query. A ParameterError says which are possible."""
    if buckets > MOST:
        raise ParameterError(f"table needs at most {MOST} buckets or values, got {buckets}; lower `buckets`")
    choices = _choices(buckets, epsilon)
    if fixed_points not in choices:
        raise ParameterError(f"table must be one of {_listing(choices)} at epsilon = {epsilon:g}, got {fixed_points!r}")
    return Table(buckets, fixed_points, epsilon)


@lru_cache(maxsize=_CACHE_SIZE)
def _choices(buckets: int, epsilon: float) -> tuple[int, ...]:
    """Return the numbers of fixed points of all tables that are possible."""
    tables = [Table(buckets, t, epsilon) for t in range(1, buckets + 1)]
    return tuple(table.fixed_points for table in tables if table.allowed)


def _listing(choices: Sequence[int]) -> str:
    return ", ".join(map(str, choices)) or "none"


def _logarithm(ratio: Fraction) -> float:
    """Return ln(ratio), rounded up to 12 decimals."""
    value = chance.DIGITS.ln(chance.DIGITS.divide(ratio.numerator, ratio.denominator))
    return float(value.quantize(_STEP, rounding=ROUND_CEILING, context=chance.DIGITS))


def _derangements(items: int) -> int:
    return _avoiding(items, items)


def _avoiding(barred: int, items: int) -> int:
    """Return the number of permutations of `items` in which none of `barred` of them stays in place."""
    # Inclusion and exclusion over the barred items that stay.
    return sum((-1) ** i * comb(barred, i) * factorial(items - i) for i in range(barred + 1))
