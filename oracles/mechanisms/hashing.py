"""Local hashing by random linear maps, shared by BLH, OLH, HR, FULL and SHORT: constant time for each report.

A report gives l random rows of k bits, and holds l bits y. Bit j of a value's hash is parity(row_j & code). y is
the hash of the own value, or with some probability another bucket. For every non-empty set J of rows, the tally at
the xor of these rows gains (-1)^(xor of its y). These are g - 1 increments for every domain. One Walsh-Hadamard
transform gives the support of all values.
"""

import math
from collections.abc import Iterable, Iterator
from fractions import Fraction
from functools import cached_property
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from oracles.errors import ReportError
from oracles.estimate.pure import DENSE
from oracles.kernels import c_library
from oracles.kernels.arrays import above, runs
from oracles.kernels.parity import combined, orthogonal
from oracles.kernels.walsh import walsh
from oracles.mechanisms import chance
from oracles.mechanisms.entropy import Source, source
from oracles.mechanisms.protocol import Oracle
from oracles.mechanisms.table import table_for
from oracles.readable import RowDraw
from oracles.types import MARKS, Flags, Floats, Ints, Reports, Rows

Words = NDArray[np.integer]
Part = tuple[Words, bool]
"""Cells of a tally for some reports (xor of rows << 1 | xor of y), and whether each is a single row."""

MAX_ROWS = 8
RUN = 1 << 16
"""Number of reports in one pass, so that they stay in cache."""


class Hashing(Oracle):
    """A base of local hashing: a report names g = 2**l buckets by l rows. A value's code is the value + `offset`.

    The family is 2-universal: two values collide with probability exactly 1/g, which is q.
    """

    members = 1
    """Number of buckets that a report names, m."""
    head = 0

    def __init__(
        self,
        name: str,
        epsilon: float,
        size: int,
        rows: int,
        *,
        offset: int = 0,
        words: int = 0,
        bits: int = 0,
        table: int | None = None,
    ) -> None:
        self.hashes = rows
        """Number of rows, l."""
        self.words = words or rows
        """Number of words of k bits in a report: the rows, or the words that give them."""
        self.buckets = 1 << rows
        self.places = self.buckets if self.takes_table else None
        self.head = self.head or rows
        """Bits of a report before the words, which name the bucket or the subset."""

        self.offset = offset
        self.bits = bits or code_bits(size + offset)
        """Bits of a row, k."""
        self.cells = 1 << self.bits
        self.used = self.head + self.words * self.bits
        """Bits of a report without the padding."""
        self.width = self._width()
        self.state_size = self.cells + MARKS

        self.keep = chance.largest(self.buckets - self.members, self.members, chance.exp(epsilon))
        self.tables = None if table is None else table_for(self.buckets, table, epsilon)
        p = chance.fraction(self.keep) if self.tables is None else self.tables.p
        super().__init__(name, epsilon, size, p, self._q(p))

    def _width(self) -> int:
        return 4 if self.used <= 32 else -(-self.used // 64) * 8

    def _q(self, p: Fraction) -> Fraction:
        """Return the probability that a report supports another value."""
        del p
        return Fraction(1, self.buckets)

    @property
    def classes(self) -> int:
        return self.buckets if self.tables is not None else min(self.buckets, self.size)

    def rows(self, count: int, rng: "np.random.Generator | Source | None" = None) -> Ints:
        draw = source(rng)
        return np.stack([draw.below(self.cells, count) for _ in range(self.words)]).T

    def classify(self, values: Ints, rows: Rows) -> Ints:
        """Return the bucket of each value under the rows of its client."""
        code = values + self.offset
        bucket = np.zeros(len(values), np.int64)
        for j, row in enumerate(self._expand(list(_columns(rows)))):
            bucket |= (np.bitwise_count(row & code).astype(np.int64) & 1) << j
        return bucket

    def answer(self, classes: Ints, rows: Rows, rng: "np.random.Generator | Source | None" = None) -> Reports:
        draw = source(rng)
        if self.tables is not None:
            return self.reports_of(self.tables.answers(classes, draw), rows)

        # A number below g - 1 skips the own bucket. A draw among all g would leave p larger than its threshold says.
        buckets = classes.copy()
        false_answers = np.flatnonzero(~draw.events(self.keep, len(classes)))
        numbers = draw.below(self.buckets - 1, len(false_answers))
        buckets[false_answers] = numbers + (numbers >= classes[false_answers])
        return self.pack(buckets, rows)

    @property
    def overlap(self) -> float | None:
        return (1.0 - 1.0 / self.buckets) / (math.exp(self.epsilon) + self.buckets - 1)

    @property
    def row_draws(self) -> tuple[RowDraw, ...]:
        # With several hashes a report adds to g - 1 of the sums, and never to that of row 0.
        return (RowDraw(self.cells if self.hashes == 1 else (self.cells - 1) / (self.buckets - 1)),)

    def reports_of(self, buckets: Ints, rows: Rows) -> Reports:
        return self.pack(buckets, rows)

    def pack(self, heads: Ints, rows: Rows) -> Reports:
        """Return the bit strings y | word_0 << l | word_1 << (l + k) ..., little-endian. The heads are the y."""
        words = np.zeros((len(heads), -(-self.used // 64)), "<u8")
        words[:, 0] = heads
        for j, row in enumerate(_columns(rows)):
            word, shift = divmod(self.head + j * self.bits, 64)
            piece = row.astype(np.uint64)
            words[:, word] |= piece << np.uint64(shift)
            # A row that crosses two words leaves its high bits in the next one.
            if shift + self.bits > 64:
                words[:, word + 1] |= piece >> np.uint64(64 - shift)
        return np.ascontiguousarray(words.view(np.uint8)[:, : self.width])

    def unpack(self, reports: Reports) -> tuple[Ints, Ints]:
        """Return the head and the words of each report. A head is the bucket."""
        integers = self._integers(reports)
        heads = (integers[:, 0] & ((1 << self.head) - 1)).astype(np.int64)
        return heads, np.stack([word.astype(np.int64) for word in self._words(integers)]).T

    def names_bucket(self, heads: Ints, buckets: Ints) -> Flags:
        """Return whether each head names the bucket beside it."""
        flags: Flags = heads == buckets
        return flags

    def _expand(self, words: list[Words]) -> list[Words]:
        """Return the rows that the words of clients give, one array for each. By default the words are the rows."""
        return words

    def _integers(self, reports: Reports) -> Words:
        return reports.view(f"<u{min(self.width, 8)}")

    def _malformed(self, reports: Reports) -> Flags | None:
        return self._padded(reports)

    def _padded(self, reports: Reports) -> Flags | None:
        """Return a mask of the reports with a bit beyond the used ones, or None."""
        last_word = self._integers(reports)[:, -1]
        # Padding that differs would be a second way to write a report, and room for a mark.
        bits_before = 64 * (self.width // 8 - 1) if self.width > 8 else 0
        return above(last_word, 1 << (self.used - bits_before))

    def _words(self, integers: Words) -> list[Words]:
        """Return the words that the reports hold, one array for each."""
        size = 8 * integers.itemsize
        mask = self.cells - 1
        words: list[Words] = []
        for j in range(self.words):
            index, shift = divmod(self.head + j * self.bits, size)
            word = integers[:, index] >> shift
            if shift + self.bits > size:
                word |= integers[:, index + 1] << (size - shift)
            word &= mask
            words.append(word)
        return words

    def _signed_rows(self, integers: Words) -> list[Words]:
        """Return row_j << 1 | y_j for each j. The xor of several holds the xor of their rows and their sign."""
        lowest_word = integers[:, 0]
        if self.hashes == 1:
            return [lowest_word]
        return [row << 1 | ((lowest_word >> j) & 1) for j, row in enumerate(self._expand(self._words(integers)))]

    def _count(self, state: Ints, reports: Reports) -> int:
        if c_library.in_use():
            self._add_compiled(state, reports)
            return 0

        integers = self._integers(reports)
        parts = (_combinations(self._signed_rows(integers[run])) for run in runs(len(integers), 1, RUN))
        # A histogram costs a pass over all cells, so few reports are added one by one.
        add = self._add_many if 4 * min(len(integers), RUN) >= self.cells else self._add_few
        add(state, chain.from_iterable(parts))
        return 0

    def _add_compiled(self, state: Ints, reports: Reports) -> None:
        c_library.add_hashes(state[: self.cells], state[self.cells :], reports, self.hashes, self.bits)

    def _add_many(self, state: Ints, parts: Iterable[Part]) -> None:
        """Add histograms over both signs. They give the signed counts and the marks of the rows."""
        single_counts, joint_counts = np.zeros((2, 2 * self.cells), np.int64)
        for index, is_single in parts:
            counts = np.bincount(index, minlength=2 * self.cells)
            if is_single:
                single_counts += counts
            else:
                joint_counts += counts

        joint_counts += single_counts
        state[: self.cells] += joint_counts[0::2] - joint_counts[1::2]
        # Only single rows are uniform for honest clients. The xor of several is not drawn.
        marks = single_counts.reshape(-1, 2 * min(self.cells, MARKS)).sum(axis=0)
        state[self.cells :][: len(marks) // 2] += marks[0::2] + marks[1::2]

    def _add_few(self, state: Ints, parts: Iterable[Part]) -> None:
        """Add reports one by one, if a histogram would be larger than they are."""
        for index, is_single in parts:
            row = index >> 1
            np.add.at(state[: self.cells], row, 1 - 2 * (index & 1).astype(np.int64))
            if is_single:
                state[-MARKS:] += np.bincount(row & (MARKS - 1), minlength=MARKS)

    @property
    def work(self) -> int:
        return self.buckets - 1

    @cached_property
    def honest_marks(self) -> Floats:
        rows = min(self.cells, MARKS)
        return np.where(np.arange(MARKS) < rows, 1.0 / rows, 0.0)

    def forge(self, targets: Ints, count: int, rng: "np.random.Generator") -> Reports:
        """Return random rows under which all targets have the same hash, with that hash.

        The rows are a linear space, because the parity of such a row with the difference of any two targets is even.
        """
        words = self._forged(targets + self.offset, count, rng)
        return self.pack(self.classify(np.broadcast_to(targets[:1], count), words), words)

    def _forged(self, codes: Ints, count: int, rng: "np.random.Generator") -> Ints:
        """Return words of `count` reports whose rows give all codes the same hash."""
        basis = orthogonal(codes[1:] ^ codes[0], self.bits)
        return np.stack([combined(basis, count, rng) for _ in range(self.hashes)]).T

    def set_law(self, values: int) -> tuple[int, float, float] | None:
        """Return the law of a set of one or two values, which are independent.

        In a larger set, one code can be the xor of three others.
        """
        return super().set_law(values) if values <= 2 else None

    def clumped(self, positions: Ints, n: int) -> bool:
        """Whether too many fours of values have codes with an xor of 0: linear maps support them together.

        Few reports then tell anything about the set. For 256 consecutive values and two buckets, one report in
        256 supports all values or none, and every other report supports half. The sum's excess kurtosis is
        fours / (values**2 (buckets - 1) n).
        """
        size = len(positions)
        extra = self._extra_kurtosis(size)
        # Even if every three codes had their fourth in the set, the sum would be near enough to normal.
        if size <= 2 or (size * self._peak + extra) * DENSE <= n:
            return False

        # The number of fours is the sum of the squared number of pairs with each xor. A transform gives the same sum.
        codes = positions + self.offset
        if size * size <= self.cells:
            pairs = np.unique(codes[:, None] ^ codes, return_counts=True)[1]
            fours = int((pairs**2).sum())
        else:
            heights, times = np.unique(np.abs(walsh(np.bincount(codes, minlength=self.cells))), return_counts=True)
            fours = sum(h**4 * t for h, t in zip(heights.tolist(), times.tolist(), strict=True)) // self.cells

        # Fours of two equal pairs have an xor of 0 for every family of hashes.
        return ((fours - 3 * size**2 + 2 * size) / size**2 * self._peak + extra) * DENSE > n

    @property
    def _peak(self) -> float:
        """Excess kurtosis of one report's sum that each four causes, times the squared number of values."""
        return 1.0 / (self.buckets - 1)

    def _extra_kurtosis(self, values: int) -> float:
        """Return the excess kurtosis of one report's sum that fours with an xor other than 0 cause. By default 0."""
        del values
        return 0.0

    def support(self, state: Ints, n: int) -> Ints:
        # The empty set of rows is the same for every report, so its n signs are not stored.
        signs = state[: self.cells].copy()
        signs[0] += n * self.members
        return walsh(signs)[self.offset : self.offset + self.size] // self.buckets


def code_bits(codes: int) -> int:
    """Return the number of bits that hold every code below `codes`."""
    return max(1, (codes - 1).bit_length())


def nonzero_marks(cells: int) -> Floats:
    """Return the probability of each mark if a row is uniform among all but 0."""
    rows = min(cells, MARKS)
    law = np.where(np.arange(MARKS) < rows, float(cells // rows), 0.0)
    law[0] -= 1.0
    return law / (cells - 1)


def _columns(rows: Rows) -> Ints:
    """Return the words transposed: one array for each word of a report, over all clients."""
    if rows is None:
        raise ReportError("local hashing needs the rows of the clients; draw them with rows()")
    return rows.T


def _combinations(signed_rows: list[Words]) -> Iterator[Part]:
    """Yield the xor of every non-empty set of signed rows.

    Gray's order adds or removes one row at each step. Words of 64 bits become int64, the type of NumPy's
    indices. They are small enough.
    """
    xor = signed_rows[0]
    for step in range(1, 1 << len(signed_rows)):
        if step > 1:
            xor = xor ^ signed_rows[(step & -step).bit_length() - 1]
        members = step ^ step >> 1
        is_single = members & (members - 1) == 0
        yield (xor.view(np.int64) if xor.itemsize == 8 else xor), is_single
