"""Ids of frames that are counted, each with the offset at which it was; they are written in segments."""

import struct
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, overload

import numpy as np

from aggregator.counting.packing import TYPES, head, narrowest
from oracles.errors import ReportError

_VERSION = 1
_SEGMENT = struct.Struct("<BBxxIq")


class CountedId(NamedTuple):
    """A frame's id and the offset at which it was counted."""

    id: bytes
    offset: int


SEGMENT = 50_000
"""Ids in one record, at most: below what any service takes for one."""


class Ids(Sequence[CountedId]):
    """Counted ids in the order of their offsets, kept as two lists: an object each would cost more than the rest."""

    def __init__(self, names: list[bytes] | None = None, offsets: list[int] | None = None) -> None:
        self.names, self.offsets = names or [], offsets or []

    @classmethod
    def of(cls, entries: Sequence[CountedId]) -> "Ids":
        return cls([entry.id for entry in entries], [entry.offset for entry in entries])

    def append(self, name: bytes, offset: int) -> None:
        self.names.append(name)
        self.offsets.append(offset)

    def extend(self, names: list[bytes], offsets: list[int]) -> None:
        self.names += names
        self.offsets += offsets

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[CountedId]:
        return map(CountedId, self.names, self.offsets)

    @overload
    def __getitem__(self, index: int) -> CountedId: ...
    @overload
    def __getitem__(self, index: slice) -> "Ids": ...
    def __getitem__(self, index: int | slice) -> "CountedId | Ids":
        if isinstance(index, slice):
            return Ids(self.names[index], self.offsets[index])
        return CountedId(self.names[index], self.offsets[index])

    def __eq__(self, other: object) -> Any:
        return list(self) == list(other) if isinstance(other, Sequence) else NotImplemented

    __hash__ = None  # type: ignore[assignment] # it grows


def encode_ids(segment: Sequence[CountedId]) -> bytes:
    """A segment of ids, in the order of their offsets. There is no empty one.

    Its key should hold its first and last offset: then all that is written under it, by a zombie
    too, is the same.
    """
    ids = segment if isinstance(segment, Ids) else Ids.of(segment)
    first = ids.offsets[0]
    steps = np.array(ids.offsets, np.int64) - first
    kind = narrowest(steps)
    begin = _SEGMENT.pack(_VERSION, kind, len(ids), first)
    return begin + b"".join(ids.names) + steps.astype(TYPES[kind]).tobytes()


def decode_ids(data: bytes) -> list[CountedId]:
    """The entries of a segment; a ReportError where `data` is none."""
    version, kind, count, first = head(_SEGMENT, data, "segment")
    if version != _VERSION or kind >= len(TYPES) or not count or first < 0 or any(data[2:4]):
        raise ReportError(f"a segment of version {version}, type {kind}, {count} ids from offset {first} on")
    if len(data) != _SEGMENT.size + count * (8 + TYPES[kind].itemsize):
        raise ReportError(f"a segment of {count} ids in {len(data)} bytes")
    end = _SEGMENT.size + 8 * count
    steps = np.frombuffer(data, TYPES[kind], count, end).astype(np.int64)
    if steps[0] or (np.diff(steps) <= 0).any() or narrowest(steps) != kind or int(steps[-1]) >= 1 << 62:
        raise ReportError("the offsets of a segment ascend")
    names = [data[at : at + 8] for at in range(_SEGMENT.size, end, 8)]
    return [CountedId(name, first + step) for name, step in zip(names, steps.tolist(), strict=True)]
