"""Records of a topic as columns of offsets, times and values, without an object for each record."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oracles.types import Ints

UNTRUSTED = -1
"""The time of a record without a log time."""

Record = tuple[int, int, bytes]
"""Offset, timestamp and value."""


@dataclass(frozen=True, slots=True, eq=False)
class RecordColumns:
    """Records in the order of their offsets, each with a value and a log time. The fetcher never returns empty ones."""

    data: memoryview
    """The bytes that contain all values."""
    offsets: Ints
    times: Ints
    """Log times in milliseconds."""
    places: Ints
    """The positions of the values in `data`."""
    sizes: Ints
    """The bytes of each value."""

    @classmethod
    def of(cls, records: "list[Record]") -> "RecordColumns":
        """Return the columns of these records."""
        # Without records there is nothing for `zip` to unpack into three columns.
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
        """The newest of the times."""
        return int(self.times.max())

    def since(self, offset: int) -> "RecordColumns":
        """Return the records from this offset on."""
        if not len(self) or self.first >= offset:
            return self
        return self.select(slice(int(np.searchsorted(self.offsets, offset)), None))

    def select(self, which: "slice | Ints | NDArray[np.bool_]") -> "RecordColumns":
        """Return the records at these positions."""
        columns = (self.offsets, self.times, self.places, self.sizes)
        return RecordColumns(self.data, *(np.ascontiguousarray(column[which]) for column in columns))

    def value(self, index: int) -> bytes:
        place = int(self.places[index])
        return bytes(self.data[place : place + int(self.sizes[index])])

    def records(self) -> list[Record]:
        """Return the records one by one."""
        ends = self.places + self.sizes
        spans = zip(self.places.tolist(), ends.tolist(), strict=True)
        values = [bytes(self.data[place:end]) for place, end in spans]
        return list(zip(self.offsets.tolist(), self.times.tolist(), values, strict=True))


@dataclass(frozen=True, slots=True)
class UnreadableBatch:
    """A batch that cannot be read. It is the value of one record, which has the offset of the batch's last record."""

    first: int
    """The offset of the first unreadable record."""
    records: int
    """The number of records in the header of the batch."""
    reason: str
    """`too_large` or `malformed`."""
    detail: str

    def __len__(self) -> int:
        """Return the number of readable bytes."""
        return 0
