"""Records of a topic as columns: their offsets, times and values, without an object each."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oracles.types import Ints

Record = tuple[int, int, bytes]
"""Offset, timestamp and value."""


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Records in the order of their offsets; at least one where they are handed on.

    Each has a value, and a time that is the log's own.
    """

    data: memoryview
    """The values stand in it."""
    offsets: Ints
    times: Ints
    places: Ints
    sizes: Ints

    @classmethod
    def of(cls, records: "list[Record]") -> "Columns":
        """Of records as they are."""
        offsets, times, values = zip(*records, strict=True) if records else ((), (), ())
        sizes = np.array([len(value) for value in values], np.int64)
        places = np.cumsum(sizes) - sizes
        return cls(memoryview(b"".join(values)), np.array(offsets, np.int64), np.array(times, np.int64), places, sizes)

    def __len__(self) -> int:
        return len(self.offsets)

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records())

    @property
    def first(self) -> int:
        return int(self.offsets[0])

    @property
    def last(self) -> int:
        return int(self.offsets[-1])

    @property
    def newest(self) -> int:
        """Of the times."""
        return int(self.times.max())

    def since(self, offset: int) -> "Columns":
        """Those from this offset on."""
        if not len(self) or self.first >= offset:
            return self
        return self.some(slice(int(np.searchsorted(self.offsets, offset)), None))

    def before(self, offset: int) -> "Columns":
        return self.some(slice(0, int(np.searchsorted(self.offsets, offset))))

    def some(self, which: "slice | Ints | NDArray[np.bool_]") -> "Columns":
        columns = (self.offsets, self.times, self.places, self.sizes)
        return Columns(self.data, *(np.ascontiguousarray(column[which]) for column in columns))

    def value(self, index: int) -> bytes:
        place = int(self.places[index])
        return bytes(self.data[place : place + int(self.sizes[index])])

    def records(self) -> list[Record]:
        """One by one."""
        ends = self.places + self.sizes
        spans = zip(self.places.tolist(), ends.tolist(), strict=True)
        values = [bytes(self.data[place:end]) for place, end in spans]
        return list(zip(self.offsets.tolist(), self.times.tolist(), values, strict=True))
