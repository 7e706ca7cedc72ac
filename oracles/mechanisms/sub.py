"""SUB, random subsets of buckets: near the smallest possible error of any oracle, in few bytes."""

from collections.abc import Iterator
from decimal import localcontext
from functools import cached_property
from math import comb

import numpy as np

from oracles.errors import ParameterError
from oracles.estimate.pure import DENSE
from oracles.kernels import c_library
from oracles.kernels.arrays import runs
from oracles.kernels.combinations import combinations
from oracles.kernels.galois import POLYNOMIALS, logarithms
from oracles.mechanisms import chance
from oracles.mechanisms.entropy import Source, source
from oracles.mechanisms.families import FAMILIES
from oracles.mechanisms.hashing import RUN, Words, nonzero_marks
from oracles.mechanisms.map_hashing import LONGEST, MapHashing
from oracles.mechanisms.pair_law import Subsets
from oracles.mechanisms.protocol import Oracle
from oracles.mechanisms.table import Forms
from oracles.types import MARKS, Flags, Floats, Ints, Reports, Rows

_MOST_ROWS = {"full": 9, "line": 11, "short": 9}
"""Most rows of each family. A tally of line counts codes, and its cost does not grow with the rows."""
MOST_BUCKETS = 1 << max(_MOST_ROWS.values())
MOST_MEMBERS = 7
"""Most buckets of a subset. More would bring no report nearer to the optimum (docs/choosing.md)."""


class Sub(MapHashing):
    """A random subset of m of g = 2**l buckets: the own bucket and m - 1 others with probability p, else m others.

    The map from codes of k bits to buckets is random: of the families full, short or line. With full and line each
    bucket holds h = 2**(k - l) codes, with line h = 2.

    Claim: epsilon-LDP. The map does not depend on the value. Given the map, the subset is that of SS among g buckets:
    with the own bucket it has probability p/C(g-1, m-1), and without it (1 - p)/C(g-1, m).
    Variance: by q = c p + (1 - c) r, where c is the probability that two codes share a bucket, and
    r = (p (m - 1) + (1 - p) m)/(g - 1) that the subset has a given other bucket.
    Test: tests/unit/test_privacy.py, test_conformance.py and test_sub.py.
    """

    auto_edition = 3
    takes_buckets = True

    def __init__(
        self,
        epsilon: float,
        size: int,
        buckets: int | None = None,
        *,
        subset: int | None = None,
        rows: str | None = None,
    ) -> None:
        subsets = _chosen(epsilon, size, buckets=buckets, subset=subset, rows=rows)
        self.family = subsets.family
        self.subset = self.members = subsets.members
        self.row_family = self.family.name
        self.fewer = 1 << subsets.rows
        self.combinations = combinations(self.fewer, self.members)
        self.head = (self.combinations.count - 1).bit_length()
        super().__init__("sub", epsilon, size, subsets)

    @classmethod
    def all_subsets(cls, size: int) -> list[Subsets]:
        """Return all choices for a domain of this size: families, numbers of buckets, and sizes of subsets."""
        return list(_choices(size))

    @classmethod
    def versions(cls, epsilon: float, size: int, forms: Forms) -> Iterator[Oracle]:
        # A subset has no table. Where tables are the default, its noise for each class would be a surprise.
        for choice in () if forms.by_table else _choices(size):
            yield cls(epsilon, size, 1 << choice.rows, subset=choice.members, rows=choice.family.name)

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, buckets={self.buckets}, subset={self.subset}, rows={self.row_family!r})"

    def _width(self) -> int:
        return -(-self.used // 8)

    def answer(self, classes: Ints, rows: Rows, rng: "np.random.Generator | Source | None" = None) -> Reports:
        draw = source(rng)
        heads = np.empty(len(classes), np.int64)
        is_inside = draw.events(self.keep, len(classes))
        for holds_own in (True, False):
            clients = np.flatnonzero(is_inside == holds_own)
            others = combinations(self.buckets - 1, self.members - holds_own)
            own = classes[clients, None]
            # The others are drawn in 0..g-2. From the own bucket on they stand for the next ones.
            subsets = others.members(draw.below(others.count, len(clients)))
            subsets += subsets >= own
            if holds_own:
                subsets = np.sort(np.concatenate([subsets, own], axis=1), axis=1)
            heads[clients] = self.combinations.ranks(subsets)
        return self.pack(heads, rows)

    def _integers(self, reports: Reports) -> Words:
        integers = np.zeros((len(reports), 8), np.uint8)
        integers[:, : self.width] = reports
        return integers.view("<u8")

    def names_bucket(self, heads: Ints, buckets: Ints) -> Flags:
        flags: Flags = (self.combinations.members(heads) == buckets[:, None]).any(axis=1)
        return flags

    def _malformed(self, reports: Reports) -> Flags | None:
        is_wrong = np.zeros(len(reports), np.bool_)
        # Integers of 8 bytes for all reports would need several times their memory.
        for run in runs(len(reports), 1, RUN >> 2):
            integers = self._integers(reports[run])
            heads = integers[:, 0] & np.uint64((1 << self.head) - 1)
            flags = self.family.malformed(self._words(integers))
            is_wrong[run] = heads >= self.combinations.count
            is_wrong[run] |= integers[:, 0] >> np.uint64(self.used - 1) > 1
            if flags is not None:
                is_wrong[run] |= flags
        return is_wrong if is_wrong.any() else None

    def _count(self, state: Ints, reports: Reports) -> int:
        if c_library.in_use():
            self._add_compiled(state, reports)
            return 0

        for run in runs(len(reports), 1, RUN >> 2):
            integers = self._integers(reports[run])
            heads = (integers[:, 0] & np.uint64((1 << self.head) - 1)).astype(np.int64)
            words: list[Words] = [word.astype(np.int64) for word in self._words(integers)]
            subsets = self.combinations.members(heads)
            if self.has_codes:
                self._add_codes(state, subsets, words[0])
            else:
                self._add_signs(state, subsets, self._expand(words))
        return 0

    @property
    def has_codes(self) -> bool:
        """Whether the tally counts codes, not signs. A bucket of line has two of them, but many signs."""
        return self.family.name == "line"

    def _add_compiled(self, state: Ints, reports: Reports) -> None:
        cells = state[: self.cells]
        marks = state[self.cells :]
        table = self.combinations.table
        if self.has_codes:
            field = logarithms(self.bits)
            c_library.add_codes(cells, marks, reports, hashes=self.hashes, table=table, head=self.head, field=field)
        else:
            polynomial = POLYNOMIALS[self.bits] if self.family.name == "short" else 0
            rows = self.hashes, self.bits
            c_library.add_subsets(cells, marks, reports, rows=rows, polynomial=polynomial, table=table, head=self.head)

    def _add_codes(self, state: Ints, subsets: Ints, a: Words) -> None:
        """Add the two codes of each bucket, which are the quotients of the bucket by a, and the mark of a."""
        powers, logs = logarithms(self.bits)
        for top in (0, self.buckets):
            products = subsets + top
            codes = powers[(logs[products] - logs[a][:, None]) % len(powers)]
            state[: self.cells] += np.bincount(np.where(products, codes, 0).ravel(), minlength=self.cells)
        state[-MARKS:] += np.bincount(a & (MARKS - 1), minlength=MARKS)

    def _add_signs(self, state: Ints, subsets: Ints, rows: list[Words]) -> None:
        """Add to each xor of rows the signs of all buckets of the subset, and the mark of the first row."""
        # Bit i of odds[j] is bit j of bucket i, so one integer holds the signs of all buckets.
        odds = [((subsets >> j & 1) << np.arange(self.members)).sum(axis=1) for j in range(self.hashes)]
        xor = np.zeros(len(subsets), np.int64)
        odd = np.zeros(len(subsets), np.int64)
        for step in range(1, self.buckets):
            # Gray's order adds or removes one row at each step.
            j = (step & -step).bit_length() - 1
            xor ^= rows[j]
            odd ^= odds[j]
            np.add.at(state[: self.cells], xor, self.members - 2 * np.bitwise_count(odd).astype(np.int64))
        # The rows of a report are not independent, so only one of them is a mark.
        state[-MARKS:] += np.bincount(rows[0] & (MARKS - 1), minlength=MARKS)

    def support(self, state: Ints, n: int) -> Ints:
        return state[: self.size].copy() if self.has_codes else super().support(state, n)

    @property
    def work(self) -> int:
        return 2 * self.members if self.has_codes else super().work

    @cached_property
    def honest_marks(self) -> Floats:
        """Probability of each mark. A row of full and line is never 0."""
        return super().honest_marks if self.family.name == "short" else nonzero_marks(self.cells)

    @property
    def overlap(self) -> None:
        """None: the common part of the reports of two values depends on the family."""
        return

    def forge(self, targets: Ints, count: int, rng: "np.random.Generator") -> Reports:
        """Return maps that put many targets into one bucket, and the subsets with most targets."""
        words = self._forged(targets + self.offset, count, rng)
        reports = []
        for run in runs(count, self.buckets, RUN):
            here = words[run]
            # A random part of a vote decides between buckets with as many targets.
            votes = rng.random((len(here), self.buckets))
            for target in targets.tolist():
                votes[np.arange(len(here)), self.classify(np.full(len(here), target), here)] += 1.0
            best = np.argpartition(votes, -self.members, axis=1)[:, -self.members :]
            reports.append(self.pack(self.combinations.ranks(np.sort(best, axis=1)), here))
        return np.concatenate(reports) if reports else np.zeros((0, self.width), np.uint8)

    def set_law(self, values: int) -> tuple[int, float, float] | None:
        """Return the law of one value, or of a set whose values exclude each other. Other sets have wider tails."""
        if values > 1 and self.subsets.names_one_code:
            return 1, self.p + (values - 1) * self.q, values * self.q
        return super().set_law(values) if values == 1 else None

    def set_variance(self, n: int, values: int, share: float) -> float:
        """Return the variance of a set. The errors of values are dependent."""
        return super().set_variance(n, values, share) + self.subsets.covariance(self, values, share) / n

    def clumped(self, positions: Ints, n: int) -> bool:
        size = len(positions)
        variance = self.set_variance(1, size, 0.0) * self.gap**2
        # No kurtosis is above that of a sum which is 0 or as large as it can be.
        most = size if self.family.name == "short" else min(size, self.members << self.bits - self.hashes)
        if most**2 * DENSE <= n * variance:
            return False
        return self.family.name == "line" or super().clumped(positions, n)

    @property
    def _peak(self) -> float:
        # The mean over subsets of the sum of the fourth powers of their signs, by its squared sum of squares.
        return (3.0 - 2.0 / self.members) / (self.buckets - 1)

    def _extra_kurtosis(self, values: int) -> float:
        """Return the mean over sets of this size. Any four values fall together under some of the few a and b."""
        if self.family.name != "short":
            return 0.0
        g = self.buckets
        return self._peak * (g - 1) * g * (values / self.cells * g / (g - 1)) ** 2


def _choices(size: int) -> Iterator[Subsets]:
    """Yield all choices whose reports have at most 64 bits."""
    for name, most in _MOST_ROWS.items():
        family = FAMILIES[name]
        bits = family.code_bits_of(size)
        for rows in family.row_counts(bits, most):
            seed = family.words(rows) * bits
            for members in range(1, min(MOST_MEMBERS, (1 << rows) - 1) + 1):
                if (comb(1 << rows, members) - 1).bit_length() + seed <= LONGEST:
                    yield Subsets(family, rows, bits, members)


def _chosen(epsilon: float, size: int, *, buckets: int | None, subset: int | None, rows: str | None) -> Subsets:
    """Return the choice with the smallest error among those that have the given settings."""
    if rows is not None and rows not in FAMILIES:
        raise ParameterError(f"rows must be one of {', '.join(FAMILIES)}, got {rows!r}")
    choices = [
        choice
        for choice in _choices(size)
        if buckets in (None, 1 << choice.rows)
        and subset in (None, choice.members)
        and rows in (None, choice.family.name)
    ]
    if not choices:
        raise ParameterError(
            f"sub of {size} values has no report of at most {LONGEST} bits with buckets={buckets}, subset={subset} and "
            f"rows={rows}; leave one of them out"
        )
    # Decimal, since two machines whose floats differ in the last bit could choose differently.
    with localcontext(chance.DIGITS):
        e = chance.exp(epsilon)
        return choices[0] if len(choices) == 1 else min(choices, key=lambda choice: choice.total(size, e))
