"""A choice of the number of buckets, shared by FULL and SHORT."""

from collections.abc import Callable, Iterator
from decimal import localcontext
from typing import ClassVar, cast

from oracles.errors import ParameterError
from oracles.mechanisms import chance
from oracles.mechanisms.families import Family
from oracles.mechanisms.hashing import MAX_ROWS
from oracles.mechanisms.map_hashing import LONGEST, MapHashing
from oracles.mechanisms.pair_law import Subsets
from oracles.mechanisms.protocol import Oracle
from oracles.mechanisms.table import Forms


class Buckets(MapHashing):
    """A base of local hashing in at most 8 bytes. Without `buckets` it takes the number with the smallest variance."""

    family: ClassVar[Family]
    """Family of the maps from codes to buckets."""
    least_rows: ClassVar[int]
    """Smallest number of rows. Fewer are for simpler oracles."""
    auto_edition = 2
    takes_buckets = True
    takes_table = True

    def __init__(self, name: str, epsilon: float, size: int, buckets: int | None, *, table: int | None) -> None:
        bits = self.code_bits_of(size)
        choices = self._choices(size)
        if not choices:
            raise ParameterError(f"{name}: a report of {size} values needs more than {LONGEST} bits; choose olh or hr")
        # Decimal, since two clients whose floats differ in the last bit could take another number of buckets.
        with localcontext(chance.DIGITS):
            e = chance.exp(epsilon)
            best = min(choices, key=lambda rows: Subsets(self.family, rows, bits).total(size, e))
        if buckets is not None and buckets not in [1 << rows for rows in choices]:
            raise ParameterError(
                f"buckets must be a power of two from {1 << choices[0]} to {1 << choices[-1]}, got {buckets!r}"
            )

        self.fewer = None if buckets in (None, 1 << best) else buckets
        """Number of buckets, or None if it is the best for epsilon."""
        rows = best if buckets is None else int(buckets).bit_length() - 1
        super().__init__(name, epsilon, size, Subsets(self.family, rows, bits), table=table)

    @classmethod
    def code_bits_of(cls, size: int) -> int:
        return max(cls.least_rows, cls.family.code_bits_of(size))

    @classmethod
    def _choices(cls, size: int) -> list[int]:
        """Return the numbers of rows with which a report has at most 64 bits."""
        bits = cls.code_bits_of(size)
        counts = range(cls.least_rows, min(MAX_ROWS, bits) + 1)
        return [rows for rows in counts if rows + cls.family.words(rows) * bits <= LONGEST]

    @classmethod
    def versions(cls, epsilon: float, size: int, forms: Forms) -> Iterator[Oracle]:
        """Yield the best number of buckets. If fewer are considered, yield smaller numbers too."""
        make = cast("Callable[..., Buckets]", cls)
        choices = cls._choices(size)
        best = make(epsilon, size).hashes if choices else 0
        for rows in reversed(choices):
            if rows == best or (forms.fewer and rows < best):
                yield make(epsilon, size, 1 << rows, table=forms.points(1 << rows))

    def __repr__(self) -> str:
        return super().__repr__() if self.fewer is None else f"{super().__repr__()[:-1]}, buckets={self.fewer})"
